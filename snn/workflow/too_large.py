"""Cells of a grid that cannot fit into their GPU's memory: said before hours are spent."""

import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from snn import datasets
from snn.config import known_gpus, sizes
from snn.config.known_gpus import MIB
from snn.errors import DeviceError, SnnError
from snn.grid.plans import Plan
from snn.grid.sweeps import Cell
from snn.hardware import devices
from snn.hardware.devices import Device

_RUNTIME = 1 << 30  # bytes: more than CUDA takes for itself
_SECONDS = 10.0
"""For predictions, each of which takes up to a second or so; further cells are not looked at."""


class Large(NamedTuple):
    """A cell that may be too large for its device, of so many bytes; ``file``: only its file can tell."""

    sweep: str
    name: str
    cell: Cell
    device: Device
    nbytes: int
    file: bool


def warnings(plans: Iterable[Plan], seconds: float = _SECONDS) -> Iterator[str]:
    """A sentence per sweep with cells that are predicted not to fit; others for those that are not predicted.

    Only cells that are large in bytes are predicted; of other cells a bound is enough, which costs little. No
    file is read for this, as it may take longer than all the rest.
    """
    large = [one for plan in plans for one in _large(plan)]
    if not large:
        return
    from snn.planning import gpus, plan  # imports every strategy, which most grids need not
    from snn.planning.cells import TooLargeHere

    until, sweeps, left = time.monotonic() + seconds, dict[tuple[str, str], list[str]](), 0
    unplanned: list[str] = []
    for one in large:
        if one.file or time.monotonic() > until:
            left += 1
            continue
        try:
            peak = sum(plan.predicted(one.cell, gpus.of_memory(one.device.name, one.nbytes)).values())
        except TooLargeHere as error:
            unplanned.append(f"{one.name}: {error}")
            continue
        except SnnError:  # of a peer nothing is predicted; what cannot train says so in its record
            continue
        if peak > one.nbytes:
            said = f"{one.name} needs {peak / MIB:.0f} MiB"
            sweeps.setdefault((one.sweep, one.device.name), []).append(said)
    for (sweep, device), found in sweeps.items():
        has = next(one.nbytes for one in large if one.device.name == device)
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        yield (
            f"sweeps.{sweep}: {len(found)} of its cells will not fit into the {has / MIB:.0f} MiB of "
            f"{device}: {', '.join(found[:3])}{more}. snn plan says what would"
        )
    if unplanned:
        yield f"{len(unplanned)} large cells cannot be planned on this machine: {unplanned[0]}"
    if left:
        yield f"{left} large cells were not looked at: snn plan sweep=NAME says whether they fit"


def _large(plan: Plan) -> Iterator[Large]:
    """The cells of a plan that may not fit."""
    nbytes = _memory(plan.device)
    if nbytes is None:
        return
    tables: dict[tuple[str, ...], tuple[int, int] | None] = {}
    for sweep in plan.sweeps.values():
        for name, cell in zip(sweep.named, sweep.cells, strict=True):
            file = tuple(cell["dataset"].get(key) for key in ("path", "delimiter", "text_columns"))
            if file not in tables:
                tables[file] = datasets.at_most(cell["dataset"]) if file[0] else None
            table = tables[file]
            if sizes.at_most(cell, table) + _RUNTIME > nbytes:
                yield Large(sweep.name, name, cell, plan.device, nbytes, table is not None)


def _memory(device: Device) -> int | None:
    """The bytes of a GPU's memory: what config/gpus.yaml says, else what is free on it; None if not known."""
    if device.backend != "cuda":
        return None
    known = known_gpus.memory_bytes(device.name)
    if known is not None:
        return known
    try:
        return devices.free_bytes(device) if device.uuid else None
    except DeviceError:
        return None
