"""What every data set is once it has been made: a float32 table, and the digest that names its content."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snn.errors import DataError

_COUNTS = ("rows", "test_rows")


@dataclass(frozen=True, eq=False)
class Table:
    """A data set: float32 ``values`` (rows, features + 1), the target last; training rows before test rows.

    ``facts`` are what a record says beside of how they were made of a user's file, as JSON values: the
    ``classes`` that labels stand for, ``target_scale``, the standard deviation of a standardised target in
    its own units, and others that the module of the data set describes. ``remarks`` are lines on what in the
    user's file can be trained on, but perhaps is not meant.
    """

    values: np.ndarray
    facts: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


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


def counts(rows: int, choice: Mapping[str, Any]) -> tuple[int, int | None]:
    """How many of a choice's ``rows`` are trained on, and how many tested on; None where none are.

    Test rows are ``test_rows``, or the share ``held_out`` of all, rounded to a whole number. Raises DataError
    unless there are as many rows as the choice says, and at least one of each kind.
    """
    share = choice.get("held_out", 0)
    test_rows = round(share * rows) if share else choice.get("test_rows")
    training = rows - (test_rows or 0)
    is_short = training < 1 or (test_rows is not None and test_rows < 1)
    if share and is_short:
        raise DataError(
            f"dataset {choice['name']}: dataset.held_out is {share:g}, which is {test_rows} of {rows} "
            "rows: one or more must be held out, and one or more trained on; say dataset.held_out=0 to hold "
            "out none"
        )
    if is_short or choice.get("rows") not in (None, training):
        wanted = " and ".join(f"dataset.{key} is {choice[key]}" for key in _COUNTS if key in choice)
        raise DataError(f"dataset {choice['name']}: its table has {rows} rows, but {wanted}")
    return training, test_rows


def parts(table: np.ndarray, choice: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray | None]:
    """The training rows of a choice's values, and the test rows behind them; None where there are none.

    Raises DataError as ``counts`` does.
    """
    training, test_rows = counts(len(table), choice)
    return table[:training], None if test_rows is None else table[training:]


def described(table: Table, choice: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the data: the SHA-256 of type, shape and values, how much there is of it, facts.

    ``rows`` counts training rows, and ``test_rows``, where there are some, the others.
    """
    rows, columns = table.values.shape
    training, test_rows = counts(rows, choice)
    sha = hashlib.sha256(f"{table.values.dtype.str} {rows} {columns}\n".encode())
    sha.update(np.ascontiguousarray(table.values).data)
    tested = {} if test_rows is None else {"test_rows": test_rows}
    return {"sha256": sha.hexdigest(), "rows": training, **tested, "features": columns - 1, **table.facts}
