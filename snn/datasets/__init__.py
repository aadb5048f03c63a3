"""Data sets: each is a module with a function ``make`` that returns a float32 table, target column last.

A data set with the key ``test_rows`` has as many test rows behind its training rows.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common import prepared
from snn.datasets.common.prepared import intact, load
from snn.datasets.common.table import checked, described, parts
from snn.errors import ConfigError, DataError

__all__ = ["described", "intact", "kept", "load", "make", "parts", "split"]


def make(choice: Mapping[str, Any]) -> np.ndarray:
    """The float32 table (rows, features + 1) of a file of ``config/dataset``; the last column is the target.

    Raises DataError if the data cannot be used.
    """
    parameters = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    module, _, function = choice["_target_"].rpartition(".")
    try:
        table = getattr(import_module(module), function)(**parameters)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"dataset {choice['name']}: {error}") from error
    except MemoryError as error:
        raise DataError(f"dataset {choice['name']}: it does not fit in memory: {error}") from error
    return checked(table, f"dataset {choice['name']}")


def kept(path: Path, choice: Mapping[str, Any]) -> np.ndarray:
    """The prepared table of a file; made and kept there where there is no such file.

    Raises DataError as ``make`` does, and where the file is damaged or of another choice.
    """
    if path.exists():
        return load(path, choice)
    table = make(choice)
    prepared.write(path, table, choice)
    return table


def split(table: np.ndarray, batch_size: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """X (rows, features) and Y (rows, 1). Raises DataError if there are fewer rows than one batch has."""
    if len(table) < batch_size:
        raise DataError(
            f"dataset {name} has {len(table)} rows, fewer than one batch: "
            f"training.batch_size is {batch_size}, it must be at most {len(table)}"
        )
    return np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1:])
