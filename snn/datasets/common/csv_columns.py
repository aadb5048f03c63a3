"""The columns of a CSV file as numbers: which hold text or lack values, and what is made of these."""

import re
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from snn.datasets.common.csv_lines import CONTROL, Rows, check_width, delimiter_of, is_float
from snn.datasets.common.csv_notation import marks_in, named, reading
from snn.errors import DataError

MISSING = frozenset(
    ("", "NA", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "None", "NONE", "null", "NULL", "?")
)
"""Cells without a value."""
MOST_VALUES = 100
"""Columns that one_hot makes of one."""
MOST_CLASSES = 1000
LONGEST_VALUE = 200
"""Characters of a value of text; those of classes stand in records."""
_NAMED = 5
"""Columns that a message names of many."""
FEWER_COLUMNS = "remove the columns that lack most from the file"
"""What is left to do where each row lacks a value."""

_LARGEST = float(np.finfo(np.float32).max)
_NOT_DECIMAL = re.compile(r"[^0-9eE+\-. \t]")
"""What ``float`` reads beyond decimal notation in ASCII, such as 1_000, nan and digits of other scripts."""


@dataclass
class Column:
    """What a column holds beside numbers: the cells of text, without a value, and out of float32's range.

    The first of each is its line, and the cell.
    """

    name: str
    texts: int = 0
    first_text: tuple[int, str] = (0, "")
    missing: int = 0
    first_missing: tuple[int, str] = (0, "")
    infinite: int = 0
    first_infinite: tuple[int, str] = (0, "")


@dataclass
class Sheet:
    """A CSV file, surveyed: its columns, and float64 ``numbers`` (rows, columns) if it holds nothing else."""

    file: Path
    delimiter: str
    columns: list[Column]
    rows: int = 0
    numbers: np.ndarray | None = None

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        return [column.name for column in self.columns]


@dataclass
class Encoded:
    """Rows without missing values, float64 (rows, columns): of a column of text, the number of its value.

    ``values`` holds the values of each column of text, in the order of their code points, by column.
    """

    numbers: np.ndarray
    values: dict[int, list[str]] = field(default_factory=dict)


def survey(file: Path, rows: Rows, delimiter: str, names: list[str] | None) -> Sheet:
    """Read all rows once. Raises DataError for rows of unequal length, or none.

    ``delimiter`` is what separates their cells. ``names`` are those of the header; without one, columns are
    named by their number.
    """
    columns: list[Column] = []
    found, count, is_plain = array("d"), 0, True
    for line, row in rows:
        if not columns:
            check_width(file, line, row)
            columns = [Column(name) for name in names or map(str, range(len(row)))]
            first = names or row
            _check_several(file, delimiter, first, row)
        if len(row) != len(columns):
            lines = [delimiter.join(first), delimiter.join(row)]
            hint = f"; {delimiter_of(lines, delimiter)}" if count == (0 if names else 1) else ""
            raise DataError(
                f"{file}, line {line}: {len(row)} columns, but the lines before have {len(columns)}{hint}"
            )
        count += 1
        values = _numbers(row)
        if values is None:
            found, is_plain = array("d"), False
            _note(columns, line, row)
        elif is_plain:
            found.extend(values)
    if not count:
        raise DataError(f"{file}: there are no rows of data")
    return Sheet(
        file, delimiter, columns, count, np.frombuffer(found).reshape(count, -1) if is_plain else None
    )


def _check_several(file: Path, delimiter: str, first: Sequence[str], row: Sequence[str]) -> None:
    """``first`` is the header, or the first row where there is none."""
    if len(first) < 2:
        raise DataError(
            f"{file}: there is only one column ({shortened(first[0])}), but a feature and a target are "
            f"needed; {delimiter_of([first[0], delimiter.join(row)], delimiter)}"
        )


def _numbers(row: Sequence[str]) -> list[float] | None:
    """The cells of a row, if all are numbers in the range of float32. One cheap check for all of them."""
    try:
        values = [float(text) for text in row]
    except ValueError:
        return None
    return None if _NOT_DECIMAL.search("".join(row)) or max(map(abs, values)) > _LARGEST else values


def _note(columns: Sequence[Column], line: int, row: Sequence[str]) -> None:
    """Note the cells of a row that are no such numbers."""
    for column, text in zip(columns, row, strict=True):
        if text.strip() in MISSING:
            column.missing += 1
            column.first_missing = column.first_missing if column.missing > 1 else (line, text)
        elif is_float(text) and not abs(float(text)) <= _LARGEST:
            column.infinite += 1
            column.first_infinite = column.first_infinite if column.infinite > 1 else (line, text)
        elif is_text(text):
            column.texts += 1
            column.first_text = column.first_text if column.texts > 1 else (line, text)


def is_text(cell: str) -> bool:
    """Whether a cell is no decimal number."""
    return not is_float(cell) or _NOT_DECIMAL.search(cell) is not None


def missing_in(columns: Iterable[Column]) -> str:
    """How many values each of some columns lacks, of those that lack most."""
    lacking = sorted((column for column in columns if column.missing), key=lambda one: -one.missing)
    return some([f"{column.missing} in {column.name!r}" for column in lacking], " columns")


def some(words: Sequence[str], what: str = "") -> str:
    """The first few of these, and how many more there are, perhaps with ``what`` they are."""
    more = f" and {len(words) - _NAMED} more{what}" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def shortened(text: str) -> str:
    """A cell as a message shows it."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


def encoded(sheet: Sheet, rows: Rows, used: Sequence[int], most: Mapping[int, int]) -> Encoded:
    """The used columns of all rows that lack none of their values.

    ``most`` has, for each column that is text, the largest number of values that it may have. Raises
    DataError for more, for values with control characters, and where no row is left.
    """
    if sheet.numbers is not None:
        return Encoded(sheet.numbers if len(used) == len(sheet.columns) else sheet.numbers[:, list(used)])
    numbers_of: dict[int, dict[str, int]] = {i: {} for i in used if i in most}
    found = array("d")
    for line, row in rows:
        cells = [row[i].strip() for i in used]
        if not MISSING.isdisjoint(cells):
            continue
        for i, cell in zip(used, cells, strict=True):
            known = numbers_of.get(i)
            if known is None:
                found.append(float(cell))
                continue
            if cell not in known:
                _check_value(sheet, line, i, cell, known, most[i])
            found.append(known.setdefault(cell, len(known)))
    if not found:
        raise DataError(
            f"{sheet.file}: no row is left: each of the {sheet.rows} lacks a value; values are missing: "
            f"{missing_in(sheet.columns[i] for i in used)}; {FEWER_COLUMNS}"
        )
    numbers = np.frombuffer(found).reshape(-1, len(used))
    for at, i in enumerate(used):
        if known := numbers_of.get(i):
            ranks = np.empty(len(known))
            ranks[[known[value] for value in sorted(known)]] = np.arange(len(known))
            numbers[:, at] = ranks[numbers[:, at].astype(np.intp)]
    return Encoded(numbers, {i: sorted(known) for i, known in numbers_of.items()})


def _check_value(sheet: Sheet, line: int, column: int, value: str, known: Collection[str], most: int) -> None:
    """Raise DataError where a text cannot be a further value of a column, beside those that are ``known``."""
    place = f"{sheet.file}, line {line}, column {sheet.columns[column].name!r}: {shortened(value)}"
    if CONTROL.search(value):
        raise DataError(f"{place} has a control character")
    if len(value) > LONGEST_VALUE:
        raise DataError(
            f"{place} has {len(value)} characters, more than the {LONGEST_VALUE} of a text's value"
        )
    if len(known) >= most:
        values = (*known, value)
        notations = reading(values)
        way = "remove the column from the file, or group its values"
        if notations and (found := named(notations, marks_in(values))):
            way = f"they look like numbers with {found}: write them as 1234.5"
        raise DataError(
            f"{place} is the distinct value number {len(known) + 1} of this column, which has text in "
            f"{sheet.columns[column].texts} of {sheet.rows} rows: at most {most} are encoded; {way}"
        )
