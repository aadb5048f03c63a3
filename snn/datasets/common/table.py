"""What every data set is once it has been made: a float32 table, and the digest that names its content."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from snn.errors import DataError

_COUNTS = ("rows", "test_rows")


def checked(table: np.ndarray, place: str) -> np.ndarray:
    """The table, its rows contiguous. Raises DataError, naming the place, unless it can be trained on."""
    if table.ndim != 2 or table.dtype != np.float32 or table.shape[0] < 1 or table.shape[1] < 2:
        raise DataError(
            f"{place}: it holds {table.dtype} of shape {table.shape}, "
            "not float32 of shape (rows, features + 1)"
        )
    finite = np.isfinite(table)
    if not finite.all():
        row, column = divmod(int(finite.argmin()), table.shape[1])
        raise DataError(
            f"{place}: the value in row {row}, column {column} (both from 0) is {table[row, column]}, "
            "which is not a finite float32 number"
        )
    return np.ascontiguousarray(table)


def parts(table: np.ndarray, choice: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """The training rows of a choice's table, and the test rows behind them; None without ``test_rows``.

    Raises DataError unless the table has as many rows as the choice says, and at least one of each kind.
    """
    test_rows = choice.get("test_rows")
    rows = len(table) - (test_rows or 0)
    if choice.get("rows") not in (None, rows) or rows < 1 or (test_rows is not None and test_rows < 1):
        wanted = " and ".join(f"dataset.{key} is {choice[key]}" for key in _COUNTS if key in choice)
        raise DataError(f"dataset {choice['name']}: its table has {len(table)} rows, but {wanted}")
    return table[:rows], None if test_rows is None else table[rows:]


def described(table: np.ndarray, choice: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the data: the SHA-256 of type, shape and values, and how much there is of it.

    ``rows`` counts training rows, and ``test_rows``, where there are some, the others.
    """
    training, test = parts(table, choice)
    rows, columns = table.shape
    sha = hashlib.sha256(f"{table.dtype.str} {rows} {columns}\n".encode())
    sha.update(np.ascontiguousarray(table).data)
    counts = {"rows": len(training)} if test is None else {"rows": len(training), "test_rows": len(test)}
    return {"sha256": sha.hexdigest(), **counts, "features": columns - 1}
