"""The user's table: where it is, its classes, and the batch size for its rows."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from snn import datasets
from snn.datasets import Table
from snn.errors import ConfigError, shown
from snn.files.regular import path_of
from snn.grid import sweeps
from snn.grid.naming import Cell
from snn.hardware.devices import Device
from snn.recommending import SWEEP
from snn.recommending.words import in_options

MOST_OF_BATCH = 64
"""Rows of a batch, where that is not said."""


def found(path: str) -> Path:
    """Where the file of --csv is. Raises ConfigError where there is none."""
    try:
        exists = bool(path) and path_of(path).exists()
    except OSError as error:
        raise ConfigError(f"--csv is {shown(path)}: it cannot be read: {error.strerror}") from error
    if not exists:
        raise ConfigError(f"--csv is {shown(path)}: there is no such file")
    return path_of(path).absolute()


def classes(grid: Mapping[str, Any], keys: Collection[str]) -> list[str]:
    """The classes of the table of a sweep's settings; errors name options, but for ``keys``."""
    with in_options(keys):
        return list(_made(grid)[1].facts["classes"])


def batch_size(grid: Mapping[str, Any]) -> int:
    """``MOST_OF_BATCH``; of a table with fewer training rows the largest power of two that they fill."""
    cell, table = _made(grid)
    rows, _ = datasets.counts(len(table.values), cell["dataset"])
    return min(MOST_OF_BATCH, 1 << (rows.bit_length() - 1))


def _made(grid: Mapping[str, Any]) -> tuple[Cell, Table]:
    """A cell of these settings, and its table."""
    reader = sweeps.Reader(Path(SWEEP), {"sweeps": {SWEEP: {**grid, "strategy": "reference"}}})
    (cell,) = reader.sweeps([SWEEP], Device("cpu", "any"), None)[SWEEP].cells
    return cell, datasets.make(cell["dataset"])
