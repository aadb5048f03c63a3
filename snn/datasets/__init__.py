"""Data sets: each is a module with a function ``make`` that returns a float32 table, target column last.

Where there are facts to be said of the table, it returns both (``Table``). A data set with the key
``test_rows`` has as many test rows behind its training rows, one with ``held_out`` this share of all. Where
files hold the data, the module may have further functions of the choice: ``inputs``, the user's files;
``digest`` of what they hold, for the key ``sha256``; ``sizes``, the keys that the choice leaves open; and
``at_most``, the rows and columns that a file of its size can have, where no header says them.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.table import Table, checked, counts, described, intact, load, parts, write
from snn.errors import ConfigError, DataError, one_line
from snn.files.outputs import note

__all__ = [
    "Table",
    "at_most",
    "completed",
    "counts",
    "described",
    "digest",
    "inputs",
    "intact",
    "kept",
    "load",
    "make",
    "parts",
    "say_remarks",
    "split",
    "write",
]


def make(choice: Mapping[str, Any]) -> Table:
    """The table of a file of ``config/dataset``: float32 (rows, features + 1), the target in the last column.

    Raises DataError if the data cannot be used.
    """
    parameters = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    module, _, function = choice["_target_"].rpartition(".")
    try:
        made = getattr(import_module(module), function)(**parameters)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"dataset {choice['name']}: {error}") from error
    except MemoryError as error:
        raise DataError(f"dataset {choice['name']}: it does not fit in memory: {error}") from error
    table = made if isinstance(made, Table) else Table(made)
    return replace(table, values=checked(table.values, f"dataset {choice['name']}"))


def say_remarks(table: Table) -> None:
    """Print the remarks on a table, which is going to be trained on, to standard error."""
    for remark in table.remarks:
        note(one_line(remark))


def completed(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The choice with the sizes that it leaves to its files, of which the headers are read.

    Raises DataError where they do not fit the choice.
    """
    return {**choice, **_of_module(choice, "sizes", {})}


def at_most(choice: Mapping[str, Any]) -> tuple[int, int] | None:
    """Rows and columns of a table that is as large or larger, where only the whole file says its sizes.

    None of any other choice. Raises DataError.
    """
    found: tuple[int, int] | None = _of_module(choice, "at_most", None)
    return found


def digest(choice: Mapping[str, Any]) -> str:
    """The digest of the content of the user's files that a choice with the key ``sha256`` names."""
    return _of_module(choice, "digest", "")


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The user's files that a choice names, which no output may replace; without those that are not there."""
    return _of_module(choice, "inputs", [])


def _of_module(choice: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """What the module of a data set says of a choice; ``otherwise`` where it has no such function."""
    function = getattr(import_module(choice["_target_"].rpartition(".")[0]), name, None)
    return function(choice) if function else otherwise


def kept(path: Path, choice: Mapping[str, Any]) -> Table:
    """The prepared table of a file; made and kept there where there is no such file.

    Raises DataError as ``make`` does, and where the file is damaged or of another choice.
    """
    if path.exists():
        return load(path, choice)
    table = make(choice)
    write(path, table, choice)
    return table


def split(table: np.ndarray, batch_size: int, name: str, tested: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, features) and Y (rows, 1) of training rows, beside which so many are ``tested`` on.

    Raises DataError if there are fewer rows than one batch has.
    """
    if len(table) < batch_size:
        beside = f", beside {tested} that are tested on" if tested else ""
        raise DataError(
            f"dataset {name} has {len(table)} rows to train on{beside}, fewer than one batch: "
            f"training.batch_size is {batch_size}, it must be at most {len(table)}"
        )
    return np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1:])
