"""Names of cells in paths, and the paths of the files that belong to them."""

from collections.abc import Container, Mapping
from itertools import count, takewhile
from typing import Any

from snn.config.cell import SECTIONS, Cell, digest
from snn.errors import ConfigError
from snn.grid import fingerprint
from snn.hardware.devices import Device


def record_path(name: str, number: int) -> str:
    """The path of the record of a cell's round; rounds are numbered from 1."""
    return f"results/cells/{name}-round{number}.json"


def record_paths(cell: Cell, name: str | None = None, rounds: int = 0) -> list[str]:
    """The paths of a cell's records, one per round of its protocol, or ``rounds`` if that is more."""
    name = name or cell.name
    return [record_path(name, number) for number in range(1, max(rounds, len(cell.rounds)) + 1)]


def microbenchmark_path(name: str, device: Device) -> str:
    """The path of a microbenchmark's record in a workflow."""
    return f"results/microbenchmarks/{device.slug}/{name}.json"


def rounds_in(known: Container[str], cells: Mapping[str, Cell]) -> dict[str, list[str]]:
    """The paths of each cell's records up to the first round that is not ``known``."""
    return {
        name: list(takewhile(known.__contains__, (record_path(name, number) for number in count(1))))
        for name in cells
    }


def said_of_missing(known: Container[str], cells: Mapping[str, Cell], kept: bool) -> str:
    """A sentence on the number of missing records; ``kept``: whether a table shows the rounds found."""
    used = rounds_in(known, cells)
    wanted = missing = unused = 0
    for name, cell in cells.items():
        rounds = cell.rounds
        wanted += len(rounds)
        there = sum(record_path(name, number) in known for number in rounds)
        missing += len(rounds) - there
        unused += there - min(there, len(used[name]))
    if not missing:
        return ""
    after = f", {unused} after a missing round {'is' if unused == 1 else 'are'} not used" if unused else ""
    said = "has fewer rounds than planned" if kept else "is left out"
    return f"{said}: {missing} of its {wanted} records are missing{after if kept else ''}"


def check_planned(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError if the output is the path in ``results/cells`` of another cell or round.

    This catches a shell that changed the arguments of a planned cell.
    """
    output, number = settings["output"], settings["round"]
    if "results/cells/" not in output or settings["device"]["name"] is None:
        return
    cell = Cell((section, settings[section]) for section in SECTIONS)
    if number is None:  # all runs of the cell in one job
        number, cell["protocol"] = 1, {**cell["protocol"], "rounds": 1}
    planned = record_path(cell.name, number)
    if not output.endswith(planned):
        raise ConfigError(f"output is {output!r}, but this cell and round belong to {planned}")


def dataset_path(cell: Cell) -> str:
    """The path of a cell's prepared data set, for the current version of the code."""
    made_of = {"dataset": cell["dataset"], "code": fingerprint.dataset_digest(cell["dataset"])}
    return f"results/datasets/{cell.dataset}-{digest(made_of)}.npy"
