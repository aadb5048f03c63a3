"""The candidates for one training job: their grid, which is one sweep, and its measured records."""

import hashlib
import io
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from snn.analysis import frame
from snn.analysis.machine_state import Thresholds
from snn.analysis.verdicts import REFERENCE
from snn.config.cell import Cell
from snn.config.groups import CONFIG, read_yaml
from snn.errors import SnnError
from snn.files import outputs
from snn.grid import fingerprint, more_rounds, naming, plans, sweeps
from snn.grid.plans import Plan
from snn.hardware.devices import usable_processors
from snn.recommending import FOLDER, PROJECT, SWEEP
from snn.recommending.budget import Length
from snn.recommending.question import Question
from snn.tables import overview, recommend, recommendation
from snn.workflow.leftovers import source_hash_of

CHOICES = CONFIG / "recommend.yaml"

PROTOCOL = {
    "protocol": "glance",
    "protocol.rounds": 1,
    "protocol.relative_error": None,
    "protocol.max_seconds": None,
}

Records = Mapping[str, Sequence[frame.Record]]
"""The records of each cell by its name, in the order of its rounds."""


@dataclass(frozen=True)
class Grid:
    """A grid file; ``path`` is relative to the project's folder, in which the workflow runs.

    ``length`` is the part of the training job that its runs train, and ``without`` are the cells left out.
    """

    path: Path
    plan: Plan
    length: Length
    without: frozenset[str] = frozenset()

    @property
    def training(self) -> Cell:
        """The cell of the reference: the same training job as every candidate's."""
        return next(cell for cell in self.plan.cells.values() if cell.strategy == "reference")

    def present(self) -> dict[str, dict[str, bool]]:
        """Whether the record of each planned round, by cell and path in the project's folder, was measured
        with the current code."""
        more = more_rounds.read(PROJECT / more_rounds.FILE)
        return {
            name: {
                path: source_hash_of(PROJECT / path) == _source_hash(cell)
                for path in naming.record_paths(cell, name, more.get(name, 0))
            }
            for name, cell in self.plan.cells.items()
        }

    def missing(self, only_first: bool = False) -> list[str]:
        """The names of the cells that lack a record of a round that is planned, or of the first."""
        last = 1 if only_first else None
        return [name for name, has in self.present().items() if not all([*has.values()][:last])]

    def records(self, only_present: bool = False) -> dict[str, list[frame.Record]]:
        """The records of all rounds that are planned; or only those that are present, of cells that have one.

        Raises RecordError.
        """
        found = {}
        for name, has in self.present().items():
            paths = [str(PROJECT / path) for path, is_there in has.items() if is_there or not only_present]
            if paths:
                source_hash = _source_hash(self.plan.cells[name])
                found[name] = list(frame.checked(dict.fromkeys(paths, source_hash)).values())
        return found

    def limit_rounds(self) -> None:
        """Let the cells have no further rounds than those that are measured with the current code, and one.

        An earlier call may have planned more, which it had time for.
        """
        count = {name: [*has.values(), False].index(False) for name, has in self.present().items()}
        more_rounds.limit({name: max(1, has) for name, has in count.items()}, PROJECT / more_rounds.FILE)


def _source_hash(cell: Cell) -> str:
    return fingerprint.cell_sources(cell).digest


def tabulate(records: Records, thresholds: Thresholds) -> pd.DataFrame:
    """The frame of the records of cells."""
    named = {f"{name} {i}": one for name, of_cell in records.items() for i, one in enumerate(of_cell)}
    return recommend.prepared(frame.tabulate(named, thresholds))


def ranking_and_answer(records: Records, thresholds: Thresholds) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The tables ``recommend`` and ``recommendation`` as the workflow writes them, from the records of cells.

    They do not depend on its files, which a full disk prevents.
    """
    cells = tabulate(records, thresholds)
    table = recommend.advising_budget(overview.build([cells], thresholds))
    made = recommend.build(cells, {}, thresholds), recommendation.build([cells], table)
    ranking, answer = (pd.read_csv(io.StringIO(one.to_csv(index=False))) for one in made)
    return ranking, answer


def write(
    question: Question, backend: str, length: Length | None = None, without: Collection[str] = ()
) -> Grid:
    """Write the grid of a question, and read it as the workflow will.

    ``length`` replaces that of the question; ``without`` are the names of cells that are left out. Raises
    ConfigError and DataError as ``snn.grid.plans.read``, without the name of the grid, which a user has not
    written.
    """
    content, name = _content(question, backend)
    whole = Length(question.cell.epochs)
    length = length or whole
    if length != whole:
        content |= length.settings()
        name = "-".join(map(str, [name, *length.settings().values()]))
    path = FOLDER / f"{name}.yaml"
    plan = _write(path, content, backend)
    if without:
        path = FOLDER / f"{name}-without-failed.yaml"
        reader = sweeps.Reader(path, {"sweeps": {SWEEP: content}})
        kept = []
        for point in _points(content["union"]):
            content["union"] = [point]
            (sweep,) = reader.sweeps([SWEEP], plan.device, sweeps.host_of(plan.device)).values()
            if not set(without) & set(sweep.named):
                kept.append(point)
        plan = _write(path, content | {"union": kept}, backend)
    return Grid(path, plan, length, frozenset(without))


def shortened(question: Question, backend: str) -> list[Length]:
    """The lengths of the runs of earlier recommendations for the same question, if they were shorter."""
    _, name = _content(question, backend)
    found = [path.stem.removeprefix(f"{name}-") for path in (PROJECT / FOLDER).glob(f"{name}-*.yaml")]
    numbers = [map(int, each.split("-")) for each in found if re.fullmatch(r"\d+(-\d+){0,2}", each)]
    return [Length(*each) for each in numbers]


def asks_otherwise(question: Question, earlier: Path) -> bool:
    """Whether a grid that an earlier call wrote is of another training job than this question's.

    The candidates, their protocol and the length of their runs do not count.
    """
    if not earlier.exists():
        return False
    try:
        (sweep,) = read_yaml(earlier)["sweeps"].values()
        asked = dict(sweep)
    except (SnnError, ValueError, TypeError, KeyError, AttributeError):
        return True  # whatever it is
    own = {
        *PROTOCOL,
        "protocol.energy",
        "protocol.runs",
        "protocol.min_runs",
        "union",
        *Length(1, 1, 1).settings(),
    }
    return any(asked.get(key) != question.sweep.get(key) for key in {*asked, *question.sweep} - own)


def _content(question: Question, backend: str) -> tuple[dict[str, Any], str]:
    """The sweep of a question, and a name that tells it from others."""
    choices = read_yaml(CHOICES)
    runs = choices["first_round"]["runs"]
    content = {
        **PROTOCOL,
        **({"protocol.energy": True} if backend == "cuda" else {}),
        "protocol.runs": runs,
        "protocol.min_runs": runs,
        **question.sweep,
        "union": _products(choices, backend, question),
    }
    return content, _name(content, backend)


def _name(content: Mapping[str, Any], backend: str) -> str:
    return hashlib.sha256(json.dumps([content, backend], sort_keys=True).encode()).hexdigest()[:12]


def write_content(content: Mapping[str, Any], backend: str, length: Length) -> Grid:
    """Write the grid with this sweep, and read it; raises the errors of ``write``."""
    path = FOLDER / f"{_name(content, backend)}.yaml"
    return Grid(path, _write(path, content, backend), length)


def _products(choices: Mapping[str, Any], backend: str, question: Question) -> list[dict[str, Any]]:
    """The products of settings of all candidates, the baseline's first.

    Frameworks that cannot be imported are left out, and more threads than this machine has.
    """
    found = [*choices["candidates"][backend][question.choice]]
    found += [one for name, of in choices["peers"][backend].items() if find_spec(name) for one in of]
    found = with_fitting_threads(found)
    if question.baseline != REFERENCE:
        named = [one for one in _points(found) if one["strategy"] == [question.baseline]]
        found.insert(0, named[0] if named else {"strategy": [question.baseline]})
    return found


def with_fitting_threads(products: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The products without numbers of threads beyond the processors that this machine has."""
    key, most = "strategy.threads", usable_processors()
    return [{**one, **({key: [n for n in one[key] if n <= most]} if key in one else {})} for one in products]


def missing_frameworks(backend: str) -> list[str]:
    """The packages of frameworks that could be measured, and that Python cannot import."""
    return [name for name in read_yaml(CHOICES)["peers"][backend] if not find_spec(name)]


def _write(path: Path, content: Mapping[str, Any], backend: str) -> Plan:
    grid = {"sweeps": {SWEEP: dict(content)}}
    with outputs.replaced(PROJECT / path) as file:
        file.write(("# Written by snn recommend.\n" + yaml.safe_dump(grid, sort_keys=False)).encode())
    try:
        (plan,) = plans.read(PROJECT / path, {"device": backend})
        sweeps.check_sizes(PROJECT / path, plan.sweeps)
    except SnnError as error:
        (PROJECT / path).unlink(missing_ok=True)
        place = rf"^{re.escape(str(PROJECT / path))}(, line \d+)?: (sweeps\.{SWEEP}(: |\.))?"
        raise type(error)(re.sub(place, "", str(error))) from error
    return plan


def _points(products: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Products of settings as products of one value each."""
    for each in products:
        for values in product(*(value if isinstance(value, list) else [value] for value in each.values())):
            yield {key: [value] for key, value in zip(each, values, strict=True)}
