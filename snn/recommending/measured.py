"""What has been measured of a recommendation's grid: the records of its cells."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from snn.analysis import frame
from snn.analysis.machine_state import Thresholds
from snn.config.groups import ROOT
from snn.grid import fingerprint, more_rounds, naming
from snn.grid.naming import Cell
from snn.recommending.grid_file import GridFile
from snn.tables import overview, recommend, recommendation
from snn.workflow.leftovers import source_hash_of


def paths(grid: GridFile) -> list[Path]:
    """The records of all rounds that are planned, relative to the project's folder."""
    return [Path(path) for of_cell in _planned(grid).values() for path in of_cell]


def records(grid: GridFile, only_present: bool = False) -> dict[str, list[frame.Record]]:
    """The records of each cell by its name, in the order of its rounds: of all that are planned, or only of
    those that are present, and of cells that have one. Raises RecordError."""
    found = {}
    for name, of_cell in _planned(grid).items():
        sources = _sources(grid.plan.cells[name])
        wanted = [path for path in of_cell if not only_present or _is_current(grid, name, path)]
        if wanted:
            found[name] = list(frame.checked({str(ROOT / path): sources for path in wanted}).values())
    return found


def by_round(records: Mapping[str, Sequence[frame.Record]]) -> dict[str, frame.Record]:
    """The records of cells, each by the name of its cell and the number of its round."""
    return {f"{name} {i}": one for name, of in records.items() for i, one in enumerate(of)}


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
    return _as_written(ranking), _as_written(recommendation.build(points, table))


def _as_written(table: pd.DataFrame) -> pd.DataFrame:
    """A table as it is read from its CSV file."""
    return pd.read_csv(io.StringIO(table.to_csv(index=False)))


def missing(grid: GridFile, only_first: bool = False) -> list[str]:
    """The names of the cells that lack a record, of the current code, of a round that is planned, or of the
    first."""
    return [
        name
        for name, of_cell in _planned(grid).items()
        if any(not _is_current(grid, name, path) for path in of_cell[: 1 if only_first else None])
    ]


def limit_rounds(grid: GridFile) -> None:
    """Let the cells have no further rounds than those that are measured with the current code, and one.

    An earlier call may have planned more, which it had time for.
    """
    has = {
        name: next((i for i, path in enumerate(of_cell) if not _is_current(grid, name, path)), len(of_cell))
        for name, of_cell in _planned(grid).items()
    }
    more_rounds.limit({name: max(count, 1) for name, count in has.items()}, ROOT / more_rounds.FILE)


def _is_current(grid: GridFile, name: str, path: str) -> bool:
    return source_hash_of(ROOT / path) == _sources(grid.plan.cells[name])


def _planned(grid: GridFile) -> dict[str, list[str]]:
    more = more_rounds.read(ROOT / more_rounds.FILE)
    return {
        name: list(naming.record_paths(cell, name, more.get(name, 0)))
        for name, cell in grid.plan.cells.items()
    }


def _sources(cell: Cell) -> str:
    return fingerprint.digest(fingerprint.of_cell(cell))
