"""Data sets: each is a module with a function ``make`` that returns a float32 table, target column last."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from snn.errors import ConfigError, DataError


def make(choice: Mapping[str, Any]) -> np.ndarray:
    """The float32 table (rows, features + 1) of a file of ``config/dataset``; the last column is the target.

    Raises DataError if the data cannot be used.
    """
    parameters = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    module, _, function = choice["_target_"].rpartition(".")
    try:
        return getattr(import_module(module), function)(**parameters)
    except TypeError as error:
        raise ConfigError(f"dataset {choice['name']}: {error}") from error


def load(path: Path) -> np.ndarray:
    """Load a table that ``make`` prepared. Raises DataError if the file is not one."""
    try:
        table = np.load(path)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: not a prepared data set: {error}") from error
    if table.ndim != 2 or table.dtype != np.float32 or table.shape[1] < 2:
        raise DataError(
            f"{path}: not a prepared data set: it holds {table.dtype} of shape {table.shape}, "
            "not float32 of shape (rows, features + 1)"
        )
    return table


def split(table: np.ndarray, batch_size: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, features) and Y (rows, 1). Raises DataError if there are fewer rows than one batch has."""
    if len(table) < batch_size:
        raise DataError(
            f"dataset {name} has {len(table)} rows, fewer than one batch: "
            f"training.batch_size is {batch_size}, it must be at most {len(table)}"
        )
    return np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1:])
