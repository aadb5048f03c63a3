"""A user's own table of numbers, from a CSV file. Errors name file, line and column."""

import codecs
import csv
import hashlib
import io
import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common import files
from snn.datasets.common.file_types import check_is_text
from snn.errors import DataError
from snn.files.regular import opened

LARGEST_FILE = 2 << 30
"""Bytes. The table is as large again, and every cell of the grid loads it."""
_COPIES = 4
"""Of a file in memory while it is read: its bytes, the numbers, and those in their final order."""
_LONGEST_LINE = 16 << 20
_LARGEST = float(np.finfo(np.float32).max)
_EXACT = 2**24
"""Up to here float32 has every whole number."""

_NOT_DECIMAL = re.compile(r"[^0-9eE+\-. \t]")
"""What ``float`` reads beyond decimal notation in ASCII, such as 1_000, nan and digits of other scripts."""
_WHOLE = re.compile(r"\s*[+-]?\d+(\.0*)?\s*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ufeff]")


def is_target(value: object) -> bool:
    """Whether a value can name the target column: by its name, or by its number."""
    return (isinstance(value, int) and not isinstance(value, bool)) or (
        isinstance(value, str) and value != ""
    )


def is_delimiter(value: object) -> bool:
    """Whether a value is one character that is no part of a number, a quote or a line's end."""
    return (
        isinstance(value, str)
        and len(value) == 1
        and (value.isprintable() or value == "\t")
        and not value.isalnum()
        and value not in "\"'+-."
    )


def make(
    path: str, target: str | int, header: bool = True, delimiter: str = ",", sha256: str | None = None
) -> np.ndarray:
    """Read a CSV file into a float32 table (rows, features + 1), with the target column moved to the end.

    ``target`` is the name of a column (with a header) or its number, from 0, or negative from the end. Cells
    hold decimal numbers in ASCII, as -1.5e-3, quoted or not. Raises DataError for a missing, empty or changed
    file, rows of different lengths, and text, NaN or infinity. Prints a warning for columns with whole
    numbers that float32 rounds.
    """
    file = Path(path)
    if not is_target(target):
        raise DataError(
            f"{file}: dataset.target is {target!r}: it must be a column's name, or its number, as 0 or -1"
        )
    content = _content(file)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(
            f"{file}: the file has changed since the workflow was planned; run the workflow again"
        )
    if not content:
        raise DataError(f"{file}: the file is empty")
    check_is_text(file, content)
    rows = _rows(file, content, delimiter)
    names = _header(file, rows) if header else None
    values, names = _numbers(file, rows, names)
    index = _target_index(file, target, names, header)
    table = np.frombuffer(values, np.float32).reshape(-1, len(names))
    order = [i for i in range(len(names)) if i != index] + [index]
    return np.ascontiguousarray(table[:, order])


def digest(choice: Mapping[str, Any]) -> str:
    """SHA-256 of the file's content, read again only if the file changed. Raises DataError."""
    file = Path(choice["path"])
    return _digest(file, files.identity(file))


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The file that is read."""
    return [Path(choice["path"])]


def at_most(choice: Mapping[str, Any]) -> tuple[int, int]:
    """More rows than the file has, by its size, and the columns of its first line; the rest is not read.

    A number and what follows it take two bytes or more. Raises DataError where there is no such file.
    """
    with opened(Path(choice["path"]), DataError) as content:
        lines = iter(lambda: content.readline(_LONGEST_LINE), b"")
        first = next(filter(bytes.strip, lines), b"")
        columns = first.count(choice["delimiter"].encode()) + 1
        return content.seek(0, io.SEEK_END) // (2 * columns) + 1, columns


@cache
def _digest(file: Path, identity: tuple[int, ...]) -> str:
    return hashlib.sha256(_content(file)).hexdigest()


def _content(file: Path) -> bytes:
    return files.read(file, _COPIES, LARGEST_FILE)


_Rows = Iterator[tuple[int, list[str]]]


def _rows(file: Path, content: bytes, delimiter: str) -> _Rows:
    """The number of each line that is not blank, and its cells."""
    reader = csv.reader(_lines(file, content), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{file}, line {reader.line_num}: not a line of a CSV file: {error}") from error


def _lines(file: Path, content: bytes) -> Iterator[str]:
    """The lines of a file in UTF-8. A cell never spans two of them, so one line is one row."""
    for number, line in enumerate(io.BytesIO(content), 1):
        place = f"{file}, line {number}"
        if len(line) > _LONGEST_LINE:
            raise DataError(
                f"{place}: it has {len(line)} bytes, more than the {_LONGEST_LINE} that a row may have"
            )
        try:
            text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            raise DataError(
                f"{place}: not a CSV file in UTF-8: the byte 0x{byte:02x}: {error.reason}"
            ) from error
        if text.count('"') % 2:
            raise DataError(f'{place}: a quote (") has no second one in this line')
        if "\r" in text.removesuffix("\n").removesuffix("\r"):
            raise DataError(f"{place}: a carriage return within a line: lines must end in LF or CR LF")
        yield text


def _header(file: Path, rows: _Rows) -> list[str]:
    line, row = next(rows, (0, []))
    if not row:
        raise DataError(f"{file}: the file is empty")
    names = [name.strip() for name in row]
    numbers = [_is_float(name) for name in names]
    if any(numbers) and all(number or not name for number, name in zip(numbers, names, strict=True)):
        raise DataError(
            f"{file}, line {line}: the header holds only numbers: {_listed(names)}. If it is data, say "
            "dataset.header=false; if it is a header, give the columns names that are not numbers"
        )
    for name in names:
        if _CONTROL.search(name):
            raise DataError(f"{file}, line {line}: the name {name!r} in the header has a control character")
    return names


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(file: Path, rows: _Rows, names: list[str] | None) -> tuple[array, list[str]]:
    """The values of all rows in float32, one after the other, and the columns' names."""
    found = array("f")
    rounded: dict[str, str] = {}
    for line, row in rows:
        if names is None:
            names = [str(i) for i in range(len(row))]
        if len(names) < 2:
            raise DataError(
                f"{file}: there is only one column ({names[0]!r}), but a feature and a target are needed; "
                "is dataset.delimiter right?"
            )
        if len(row) != len(names):
            raise DataError(
                f"{file}, line {line}: {len(row)} columns, but the lines before have {len(names)}"
            )
        try:
            values = [float(text) for text in row]
        except ValueError:
            values = []
        # One cheap check per row; only for a bad row is the bad cell searched for.
        if not values or _NOT_DECIMAL.search("".join(row)) or max(map(abs, values)) > _LARGEST:
            raise _bad_cell(file, line, names, row)
        found.extend(values)
        if max(map(abs, values)) > _EXACT:
            _note_rounded(rounded, line, names, row)
    if not found or names is None:
        raise DataError(f"{file}: there are no rows of data")
    if rounded:
        print(
            f"snn: {file}: float32 rounds whole numbers in {len(rounded)} column(s): "
            f"{'; '.join(list(rounded.values())[:5])}; if the last digits matter, subtract a constant",
            file=sys.stderr,
        )
    return found, names


def _bad_cell(file: Path, line: int, names: Sequence[str], row: Sequence[str]) -> DataError:
    for name, text in zip(names, row, strict=True):
        shown = repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
        place = f"{file}, line {line}, column {name!r}: {shown}"
        if _is_float(text) and not abs(float(text)) <= _LARGEST:
            return DataError(f"{place} is not a finite float32 number")
        if not _is_float(text) or _NOT_DECIMAL.search(text):
            hint = "; is the first line a header (dataset.header=true)?" if line == 1 else ""
            return DataError(f"{place} is not a number, as -1.5 or 2e-3{hint}")
    raise AssertionError("a row was refused, but every cell in it is valid")


def _note_rounded(rounded: dict[str, str], line: int, names: Sequence[str], row: Sequence[str]) -> None:
    """Note the first whole number of each column that float32 does not have. Decimals are rounded anyway."""
    for name, text in zip(names, row, strict=True):
        if _WHOLE.fullmatch(text) and name not in rounded:
            held = int(np.float32(float(text)))
            if Decimal(text.strip()) != held:
                rounded[name] = f"{name!r}, where {text.strip()[:40]} (line {line}) becomes {held}"


def _target_index(file: Path, target: str | int, names: Sequence[str], header: bool) -> int:
    if isinstance(target, str) and header:
        return _index_of_name(file, target, names)
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


def _index_of_name(file: Path, target: str, names: Sequence[str]) -> int:
    if target not in names:
        raise DataError(f"{file}: dataset.target is {target!r}, which is not in the header: {_listed(names)}")
    if "" in names:
        raise DataError(
            f"{file}: column {names.index('')} (from 0) has no name in the header: give it one, remove it, "
            "or give dataset.target as a number"
        )
    if len(set(names)) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataError(
            f"{file}: {twice!r} is more than once in the header: rename one, "
            "or give dataset.target as a number"
        )
    return names.index(target)


def _listed(names: Sequence[str]) -> str:
    """The first of some names, and how many they are if these are not all."""
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown}, ... ({len(names)} columns)"
