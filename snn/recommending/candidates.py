"""The candidates for one training: their grid, which is one sweep, and what was measured of it."""

import hashlib
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, product
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from snn.analysis import frame
from snn.analysis.machine_state import Thresholds
from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.errors import ConfigError, SnnError
from snn.files import outputs, regular
from snn.grid import fingerprint, more_rounds, naming, plans, sweeps
from snn.grid.plans import Plan
from snn.recommending import FOLDER, SWEEP
from snn.recommending.budget import Length
from snn.recommending.settings import Settings
from snn.tables import overview, recommend, recommendation
from snn.workflow.leftovers import source_hash_of

CHOICES = CONFIG / "recommend.yaml"

_MOST_BYTES = 1 << 20
"""Of a grid that may be one of these: a thousand times as many as it has."""

_PROTOCOL = {
    "protocol": "glance",
    "protocol.rounds": 1,
    "protocol.relative_error": None,
    "protocol.max_seconds": None,
}

Records = dict[str, list[frame.Record]]
"""The records of each cell by its name, in the order of its rounds."""


@dataclass(frozen=True)
class Grid:
    """A grid that is written; ``path`` is relative to the project's folder, in which the workflow runs.

    ``length`` is what its runs train instead of all that the settings ask for, if they do, and ``without``
    are the cells that are left out.
    """

    path: Path
    plan: Plan
    length: Length | None = None
    without: frozenset[str] = frozenset()

    @property
    def training(self) -> Mapping[str, Any]:
        """The cell of the reference: the same training as every candidate's."""
        return next(cell for cell in self.plan.cells.values() if cell.strategy == "reference")

    def paths(self) -> dict[str, list[str]]:
        """The records of all rounds that are planned, by cell, relative to the project's folder."""
        more = more_rounds.read(ROOT / more_rounds.FILE)
        return {
            name: list(naming.record_paths(cell, name, more.get(name, 0)))
            for name, cell in self.plan.cells.items()
        }

    def present(self) -> dict[str, list[bool]]:
        """Of these paths, which have a record that was measured with the current code."""
        sources = {name: self._sources(name) for name in self.plan.cells}
        return {
            name: [source_hash_of(ROOT / path) == sources[name] for path in paths]
            for name, paths in self.paths().items()
        }

    def missing(self, only_first: bool = False) -> list[str]:
        """The names of the cells that lack a record of a round that is planned, or of the first."""
        last = 1 if only_first else None
        return [name for name, is_present in self.present().items() if not all(is_present[:last])]

    def records(self, only_present: bool = False) -> Records:
        """The records of all rounds that are planned; or only those that are present, of cells that have one.

        Raises RecordError.
        """
        paths, found = self.paths(), {}
        if only_present:
            paths = {name: list(compress(paths[name], is_there)) for name, is_there in self.present().items()}
        for name, of_cell in paths.items():
            expected = dict.fromkeys((str(ROOT / path) for path in of_cell), self._sources(name))
            if expected:
                found[name] = list(frame.checked(expected).values())
        return found

    def limit_rounds(self) -> None:
        """Let the cells have no further rounds than those that are measured with the current code, and one.

        An earlier call may have planned more, which it had time for.
        """
        has = {name: [*is_present, False].index(False) for name, is_present in self.present().items()}
        more_rounds.limit({name: max(count, 1) for name, count in has.items()}, ROOT / more_rounds.FILE)

    def _sources(self, name: str) -> str:
        return fingerprint.digest(fingerprint.of_cell(self.plan.cells[name]))


def by_round(records: Mapping[str, Sequence[frame.Record]]) -> dict[str, frame.Record]:
    """The records of cells, each by the name of its cell and the number of its round."""
    return {f"{name} {i}": one for name, of_cell in records.items() for i, one in enumerate(of_cell)}


def ranking_and_answer(
    records: Mapping[str, Sequence[frame.Record]], thresholds: Thresholds
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables ``recommend`` and ``recommendation`` as the workflow writes them, from the records of cells.

    They do not depend on its files, which a full disk prevents.
    """
    named = by_round(records)
    points = overview.points_of(named, thresholds)
    table = recommend.advising_budget(overview.build(points, thresholds))
    ranking = recommend.build(frame.tabulate(named, thresholds), {}, thresholds)
    written = [made.to_csv(index=False) for made in (ranking, recommendation.build(points, table))]
    first, second = (pd.read_csv(io.StringIO(text)) for text in written)
    return first, second


def write(
    settings: Settings, backend: str, length: Length | None = None, without: Collection[str] = ()
) -> Grid:
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
    return Grid(path, _written(path, content, backend), length, frozenset(without))


def shortened(settings: Settings, backend: str) -> list[Length]:
    """The lengths of the runs of earlier recommendations for the same settings, if they were shorter."""
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
    for each in products:
        for values in product(*(value if isinstance(value, list) else [value] for value in each.values())):
            yield {key: [value] for key, value in zip(each, values, strict=True)}
