"""What every data set is once it has been made: a float32 table, and the digest that names its content."""

import hashlib
from typing import Any

import numpy as np

from snn.errors import DataError


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


def described(table: np.ndarray) -> dict[str, Any]:
    """What a record says of the data: the SHA-256 of type, shape and values, and the shape."""
    rows, columns = table.shape
    sha = hashlib.sha256(f"{table.dtype.str} {rows} {columns}\n".encode())
    sha.update(np.ascontiguousarray(table).data)
    return {"sha256": sha.hexdigest(), "rows": rows, "features": columns - 1}
