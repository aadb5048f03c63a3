"""What has been measured of a recommendation's grid: the records of its cells."""

from pathlib import Path

from snn.analysis import frame
from snn.config.groups import ROOT
from snn.grid import fingerprint, more_rounds, naming
from snn.grid.naming import Cell
from snn.recommending.grid_file import GridFile
from snn.workflow.leftovers import source_hash_of


def paths(grid: GridFile) -> list[Path]:
    """The records of all rounds that are planned, relative to the project's folder."""
    return [Path(path) for of_cell in _planned(grid).values() for path in of_cell]


def records(grid: GridFile) -> dict[str, list[frame.Record]]:
    """The records of each cell by its name, in the order of its rounds. Raises RecordError."""
    found = {}
    for name, of_cell in _planned(grid).items():
        sources = _sources(grid.plan.cells[name])
        found[name] = list(frame.checked({str(ROOT / path): sources for path in of_cell}).values())
    return found


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
