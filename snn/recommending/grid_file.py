"""The grid of a recommendation: one sweep of all candidates for one training."""

import hashlib
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.errors import ConfigError, SnnError
from snn.files import outputs, regular
from snn.grid import plans, sweeps
from snn.grid.plans import Plan
from snn.recommending import FOLDER, SWEEP
from snn.recommending.length import Length
from snn.recommending.settings import Settings

CHOICES = CONFIG / "recommend.yaml"

_MOST_BYTES = 1 << 20
"""Of a grid that may be one of these: a thousand times as many as it has."""

_PROTOCOL = {
    "protocol": "glance",
    "protocol.rounds": 1,
    "protocol.relative_error": None,
    "protocol.max_seconds": None,
}


@dataclass(frozen=True)
class GridFile:
    """A grid that is written; ``path`` is relative to the project's folder, where the workflow runs.

    ``length`` is what its runs train in place of all that the settings ask for, if they do, and ``without``
    are the cells that are left out.
    """

    path: Path
    plan: Plan
    length: Length | None = None
    without: frozenset[str] = frozenset()


def write(
    settings: Settings, backend: str, length: Length | None = None, without: Collection[str] = ()
) -> GridFile:
    """Write the grid of these settings, and read it as the workflow will.

    ``length`` replaces that of the settings; ``without`` are the names of cells that are left out. Raises
    ConfigError and DataError as ``snn.grid.plans.read``, without the name of the grid, which a user has not
    written.
    """
    content, name = _content(settings, backend)
    if length is not None:
        content |= length.settings()
        name = "-".join(map(str, [name, *length.settings().values()]))
    path = FOLDER / f"{name}.yaml"
    if without:
        path = FOLDER / f"{name}-without-failed.yaml"
        points = [
            (point, _written(path, content | {"union": [point]}, backend).cells)
            for point in _points(content["union"])
        ]
        content |= {"union": [point for point, cells in points if not set(without) & set(cells)]}
    return GridFile(path, _written(path, content, backend), length, frozenset(without))


def shortened(settings: Settings, backend: str) -> list[Length]:
    """The lengths of the runs of earlier recommendations for the same settings, where they were shorter."""
    _, name = _content(settings, backend)
    found = [path.stem.removeprefix(f"{name}-") for path in (ROOT / FOLDER).glob(f"{name}-*.yaml")]
    numbers = [map(int, each.split("-")) for each in found if re.fullmatch(r"\d+(-\d+){0,2}", each)]
    return [Length(*each) for each in numbers]


def asks_otherwise(settings: Settings, earlier: Path) -> bool:
    """Whether a grid that an earlier call wrote is of another training than these settings ask for.

    The candidates, their protocol and the length of their runs do not count.
    """
    if not earlier.exists():
        return False
    try:
        (sweep,) = yaml.safe_load(regular.read(earlier, ConfigError, _MOST_BYTES))["sweeps"].values()
        asked = dict(sweep)
    except (SnnError, ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError):
        return True  # whatever it is
    own = {*_PROTOCOL, "protocol.runs", "protocol.min_runs", "union", *Length(1, 1, 1).settings()}
    return any(asked.get(key) != settings.grid.get(key) for key in {*asked, *settings.grid} - own)


def training_of(plan: Plan) -> Mapping[str, Any]:
    """The cell of the reference: the same training as every candidate's."""
    return next(cell for cell in plan.cells.values() if cell["strategy"]["name"] == "reference")


def _content(settings: Settings, backend: str) -> tuple[dict[str, Any], str]:
    """The sweep of these settings, and a name that tells it from others."""
    choices = read_yaml(CHOICES)
    runs = choices["first_round"]["runs"]
    content = {
        **_PROTOCOL,
        "protocol.runs": runs,
        "protocol.min_runs": runs,
        **settings.grid,
        "union": choices["candidates"][backend][settings.choice],
    }
    text = json.dumps([content, backend], sort_keys=True)
    return content, hashlib.sha256(text.encode()).hexdigest()[:12]


def _written(path: Path, content: Mapping[str, Any], backend: str) -> Plan:
    grid = {"sweeps": {SWEEP: dict(content)}}
    with outputs.replaced(ROOT / path) as file:
        file.write(("# Written by snn recommend.\n" + yaml.safe_dump(grid, sort_keys=False)).encode())
    try:
        (plan,) = plans.read(ROOT / path, {"device": backend})
        sweeps.check_sizes(ROOT / path, plan.sweeps)
    except SnnError as error:
        (ROOT / path).unlink(missing_ok=True)
        said = re.sub(rf"^{re.escape(str(ROOT / path))}(, line \d+)?: ", "", str(error))
        raise type(error)(said) from error
    return plan


def _points(products: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Products of settings as products of one value each."""
    for product in products:
        axes = [value if isinstance(value, list) else [value] for value in product.values()]
        for values in itertools.product(*axes):
            yield {key: [value] for key, value in zip(product, values, strict=True)}
