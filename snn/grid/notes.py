"""What a grid file says that may not be what was meant: one network of two layers, or two networks."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from snn.config import groups

_KEY = "network.hidden"


def tell(path: Path) -> None:
    """Print the notes on a grid file to stderr."""
    for note in notes(path):
        print(f"snn: note: {path}: {note}", file=sys.stderr)


def notes(path: Path) -> Iterator[str]:
    """A sentence for each place of a grid file, which is known to be valid, that can be read in two ways.

    Widths that repeat, as ``[64, 64]``, can only be one network's: an axis holds no value twice.
    """
    grid = groups.read_yaml(path)
    for place in ("defaults", "on_cpu"):
        yield from _flat(place, grid.get(place, {}))
    for name, sweep in grid["sweeps"].items():
        yield from _flat(f"sweeps.{name}", sweep)


def _flat(place: str, settings: Mapping[str, Any]) -> Iterator[str]:
    widths = settings.get(_KEY, [])
    if len(widths) > 1 and not isinstance(widths[0], list) and len({*widths}) == len(widths):
        several = ", ".join(f"[{width}]" for width in widths)
        yield (
            f"{place}: {_KEY}: {widths} is one network with {len(widths)} hidden layers; "
            f"{len(widths)} networks are [{several}], and [{widths}] says that one is meant"
        )
    if "on_cpu" in settings:
        yield from _flat(f"{place}.on_cpu", settings["on_cpu"])
    for number, product in enumerate(settings.get("union", ())):
        yield from _flat(f"{place}.union.{number}", product)
