"""The lines of a CSV file in UTF-8: its header, and the cells of each row. Errors name file and line."""

import codecs
import csv
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from snn.errors import DataError

LONGEST_LINE = 16 << 20
"""Bytes of a row."""

MOST_COLUMNS = 100_000
"""Of a table: each has a name and counts of its own while the file is read."""

CONTROL = re.compile(r"[\x00-\x1f\x7f\ufeff]")
"""What no name may have."""

_EXCEL = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)
"""A first line that tells Excel what separates the columns."""
_QUOTED = re.compile(r'"[^"]*"')
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars (|)"}
"""What usually separates columns."""

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
        first = first_of(io.BytesIO(content))
        hint = f"; {delimiter_of(first, delimiter)}" if "expected after" in str(error) else ""
        raise DataError(f"{file}, line {reader.line_num}: not a line of a CSV file: {error}{hint}") from error


def first_of(file: BinaryIO) -> list[str]:
    """The first two lines of a file that are not blank: a header and a row, or two rows."""
    lines = iter(lambda: file.readline(LONGEST_LINE), b"")
    return [line.decode(errors="replace") for line in islice(filter(bytes.strip, lines), 2)]


def unquoted(line: str) -> str:
    """A line without what stands in quotes, where a mark separates nothing."""
    return _QUOTED.sub("", line)


def mark_of(lines: Sequence[str], marks: Iterable[str] = _MARKS) -> str:
    """The mark that separates the columns of a header and its first row; the first where none does.

    A mark that is in both as often is preferred, then one that is in both, then the one that is most often in
    the header. Of two that are as likely it is not the comma, which may be part of a name or a number. What
    is quoted does not count.
    """
    bare = [unquoted(line) for line in lines]

    def likely(mark: str) -> tuple[bool, int, int, bool]:
        counts = [line.count(mark) for line in bare] or [0]
        least = min(counts)
        return 0 < least == max(counts), least, counts[0], least > 0 and mark != ","

    return max(marks, key=likely)


def delimiter_of(lines: Sequence[str], delimiter: str) -> str:
    """Which setting a header and its first row are right for in place of ``delimiter``, to end a message."""
    mark = mark_of(lines)
    if mark == delimiter or not any(mark in line for line in lines):
        return "is dataset.delimiter right?"
    shell = "$'dataset.delimiter=\\'\\t\\''" if mark == "\t" else f"\"dataset.delimiter='{mark}'\""
    say = "leave out dataset.delimiter" if mark == "," else f"say {shell}"
    return f"its first line seems to be separated by {_MARKS[mark]}: {say}"


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
                f"{place}: not a CSV file in UTF-8: the byte 0x{byte:02x}: {error.reason}; if it is in "
                f"Latin-1, convert it: iconv -f {_latin(line)} -t utf8 {shlex.quote(str(file))} > new.csv"
            ) from error
        if text.count('"') % 2:
            raise DataError(
                f'{place}: a quote (") has no second one in this line: each row must be on one line, and a '
                "quoted cell must not have a line break"
            )
        if number == 1 and _EXCEL.fullmatch(text):
            raise DataError(
                f"{place}: {text.strip()!r} is for Excel alone: remove this line "
                f"(sed 1d {shlex.quote(str(file))} > new.csv)"
            )
        if "\r" in text.removesuffix("\n").removesuffix("\r"):
            raise DataError(f"{place}: a carriage return within a line: lines must end in LF or CR LF")
        yield text


def _latin(line: bytes) -> str:
    """Latin-1, or the code page of Windows, which has letters where that has control characters."""
    return "cp1252" if re.search(rb"[\x80-\x9f]", line) else "latin1"


def header(file: Path, rows: Rows) -> list[str]:
    """The names in the first of some rows. Raises DataError where they are none."""
    line, row = next(rows, (0, []))
    if not row:
        raise DataError(f"{file}: the file is empty")
    check_width(file, line, row)
    names = [name.strip() for name in row]
    numbers = [is_float(name) for name in names]
    if any(numbers) and all(number or not name for number, name in zip(numbers, names, strict=True)):
        raise DataError(
            f"{file}, line {line}: the header holds only numbers: {listed(names)}. If it is data, say "
            "dataset.header=false; if it is a header, give the columns names that are not numbers"
        )
    for name in names if len(names) > 1 else ():  # one alone is refused below, with what may separate it
        if CONTROL.search(name):
            raise DataError(f"{file}, line {line}: the name {name!r} in the header has a control character")
    return names


def check_width(file: Path, line: int, row: Sequence[str]) -> None:
    """Raise DataError where a line has more cells than a table may have columns."""
    if len(row) > MOST_COLUMNS:
        raise DataError(
            f"{file}, line {line}: {len(row):,} columns, more than the {MOST_COLUMNS:,} that a table may "
            "have: remove columns from the file, or give rows and columns the other way round"
        )


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
