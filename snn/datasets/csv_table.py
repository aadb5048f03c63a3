"""A user's own table of numbers, from a CSV file. Errors name file, line and column."""

import csv
import hashlib
import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from snn.errors import DataError

_LARGEST = float(np.finfo(np.float32).max)


def make(
    path: str, target: str | int, header: bool = True, delimiter: str = ",", sha256: str | None = None
) -> np.ndarray:
    """Read a CSV file into a float32 table (rows, features + 1), with the target column moved to the end.

    ``target`` is the name of a column (with a header) or its number, from 0, or negative from the end. Raises
    DataError for a missing, empty or changed file, rows of different lengths, and text, NaN or infinity.
    """
    file = Path(path)
    if sha256 is not None and digest(file) != sha256:
        raise DataError(
            f"{file}: the file has changed since the workflow was planned; run the workflow again"
        )
    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.reader(lines, delimiter=delimiter)
            names = _header(file, reader) if header else None
            rows, names = _rows(file, reader, names)
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{file}: not a CSV file in UTF-8: {error}") from error
    index = _target_index(file, target, names, header)
    table = np.array(rows, dtype=np.float32)
    order = [i for i in range(len(names)) if i != index] + [index]
    return np.ascontiguousarray(table[:, order])


def digest(file: Path) -> str:
    """SHA-256 of a file's content. Raises DataError if it cannot be read."""
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror}") from error


def _header(file: Path, reader: Iterable[list[str]]) -> list[str]:
    for row in reader:
        if row:
            return [name.strip() for name in row]
    raise DataError(f"{file}: the file is empty")


def _rows(file: Path, reader, names: list[str] | None) -> tuple[list[list[float]], list[str]]:
    rows = []
    for row in reader:
        if not row:
            continue
        if names is None:
            names = [str(i) for i in range(len(row))]
        if len(names) < 2:
            raise DataError(
                f"{file}: there is only one column ({names[0]!r}), but a feature and a target are needed; "
                "is dataset.delimiter right?"
            )
        if len(row) != len(names):
            raise DataError(
                f"{file}, line {reader.line_num}: {len(row)} columns, but the lines before have {len(names)}"
            )
        try:
            values = [float(text) for text in row]
        except ValueError:
            values = [math.nan]
        # One cheap check per row; only for a bad row is the bad cell searched for.
        if not all(abs(value) <= _LARGEST for value in values) or any("_" in text for text in row):
            raise _bad_cell(file, reader.line_num, names, row)
        rows.append(values)
    if not rows or names is None:
        raise DataError(f"{file}: there are no rows of data")
    return rows, names


def _bad_cell(file: Path, line: int, names: list[str], row: list[str]) -> DataError:
    for name, text in zip(names, row, strict=True):
        place = f"{file}, line {line}, column {name!r}: {text!r}"
        try:
            value = float(text) if "_" not in text else None
        except ValueError:
            value = None
        if value is None:
            hint = "; is the first line a header (dataset.header=true)?" if line == 1 else ""
            return DataError(f"{place} is not a number{hint}")
        if not abs(value) <= _LARGEST:
            return DataError(f"{place} is not a finite float32 number")
    raise AssertionError("a row was refused, but every cell in it is valid")


def _target_index(file: Path, target: str | int, names: list[str], header: bool) -> int:
    if isinstance(target, str) and header:
        if names.count(target) == 1:
            return names.index(target)
        problem = "more than once" if target in names else "not"
        raise DataError(
            f"{file}: dataset.target is {target!r}, which is {problem} in the header: {', '.join(names)}"
        )
    if isinstance(target, str):
        raise DataError(
            f"{file}: dataset.target is the name {target!r}, but dataset.header is false: "
            f"give the column's number, 0 to {len(names) - 1}"
        )
    if not -len(names) <= target < len(names):
        raise DataError(
            f"{file}: dataset.target is {target}: it must be between {-len(names)} and {len(names) - 1}"
        )
    return target % len(names)
