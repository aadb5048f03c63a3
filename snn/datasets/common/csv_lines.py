"""The lines of a CSV file in UTF-8: its header, and the cells of each row. Errors name file and line."""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from snn.errors import DataError

LONGEST_LINE = 16 << 20
"""Bytes of a row."""

CONTROL = re.compile(r"[\x00-\x1f\x7f\ufeff]")
"""What no name may have."""

Rows = Iterator[tuple[int, list[str]]]
"""The number of each line that is not blank, from 1, and its cells."""


def rows_of(file: Path, content: bytes, delimiter: str) -> Rows:
    """The rows of a file's content. Raises DataError where a line is none of a CSV file in UTF-8."""
    reader = csv.reader(_lines(file, content), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        hint = "; is dataset.delimiter right?" if "expected after" in str(error) else ""
        raise DataError(f"{file}, line {reader.line_num}: not a line of a CSV file: {error}{hint}") from error


def _lines(file: Path, content: bytes) -> Iterator[str]:
    """The lines of a file in UTF-8. A cell never spans two of them, so one line is one row."""
    for number, line in enumerate(io.BytesIO(content), 1):
        place = f"{file}, line {number}"
        if len(line) > LONGEST_LINE:
            raise DataError(
                f"{place}: it has {len(line)} bytes, more than the {LONGEST_LINE} that a row may have"
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


def header(file: Path, rows: Rows) -> list[str]:
    """The names in the first of some rows. Raises DataError where they are none."""
    line, row = next(rows, (0, []))
    if not row:
        raise DataError(f"{file}: the file is empty")
    names = [name.strip() for name in row]
    numbers = [is_float(name) for name in names]
    if any(numbers) and all(number or not name for number, name in zip(numbers, names, strict=True)):
        raise DataError(
            f"{file}, line {line}: the header holds only numbers: {listed(names)}. If it is data, say "
            "dataset.header=false; if it is a header, give the columns names that are not numbers"
        )
    for name in names:
        if CONTROL.search(name):
            raise DataError(f"{file}, line {line}: the name {name!r} in the header has a control character")
    return names


def is_float(text: str) -> bool:
    """Whether Python reads it as a number, also as one that is not finite, or in a notation of its own."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def listed(names: Sequence[str]) -> str:
    """The first of some names, and how many they are if these are not all."""
    shown = ", ".join(names[:12])
    return shown if len(names) <= 12 else f"{shown}, ... ({len(names)} columns)"
