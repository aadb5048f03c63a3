"""The columns of a CSV file: detects how the file is written, and reads each as numbers or as texts."""

import csv
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from snn.errors import DataError

MISSING = frozenset(
    ("", "NA", "na", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NAN", "None", "NONE", "null", "NULL", "?")
)
BLANKS = r"\s+"
"""The delimiter, as pandas has it, of columns with any number of blanks between them."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff]")
MOST_COLUMNS = 100_000

_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}
_SAMPLE = 1000
"""Rows from which the delimiter and the header are detected."""
_OTHER = {",": ".", ".": ","}
_LARGEST = float(np.finfo(np.float32).max)
_UNITS, _SPACES = "%‰$¢£¤¥฿\u20a0-\u20cf", " \u00a0\u2009\u202f"
_COMMENT = re.compile(r"\s*[#%]")


@dataclass
class Column:
    """Float64 ``numbers`` (rows,), NaN in rows without one, or None for texts; ``cells`` if they are texts.

    ``missing`` and ``strays`` are the rows that have no value, or no number with the column's ``unit``, as %.
    """

    name: str
    numbers: np.ndarray | None
    cells: Sequence[str] = ()
    missing: Sequence[int] = ()
    strays: Sequence[int] = ()
    unit: str = ""


def setting(key: str, value: object) -> str:
    """A setting of ``dataset=csv`` to paste on a command line, quoted for Hydra and for a shell."""
    is_word = isinstance(value, str) and re.fullmatch(r"[a-z]+[0-9_-]\w*|one_hot|drop", value)
    text = value if is_word else json.dumps(value, ensure_ascii=False).replace("\\\\", "\\")
    return shlex.quote(f"dataset.{key}={text}")


def shortened(text: str) -> str:
    """A cell as a message shows it."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


class Sheet:
    """A file's ``columns``, the ``lines`` of its rows, its ``header``'s line, and in words what was ``found``.

    ``given`` are the keys of ``dataset=csv``, of which None is detected. Raises DataError, with a line and a
    setting, for a file that is not a table, or that may be read in two ways.
    """

    def __init__(self, file: Path, content: bytes, target: str | int, given: dict[str, Any]) -> None:
        self.file, self._given = file, given
        text, encoding = _decoded(file, content, given["encoding"])
        self._text = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        of_excel = re.fullmatch(r'"?sep=(.)"?\s*', self._text[0], re.IGNORECASE)
        self._text[0] = "" if of_excel else self._text[0]
        self._comments = self._without_comments(given["comment"]) if given["comment"] else 0
        wanted = BLANKS if given["delimiter"] == " " else given["delimiter"]
        delimiter = wanted or (of_excel[1] if of_excel else detected_delimiter(self._text))
        self._mark = "\t" if delimiter == BLANKS else delimiter
        if delimiter == BLANKS:
            self._text = [_tabbed(line) for line in self._text]
        sample = list(islice(self._rows(strict=False), _SAMPLE))
        at = self._first_row(sample, target)
        line, first = sample[at]
        before = sum(not _COMMENT.match(cells[0]) for _, cells in sample[:at])
        self._comments += at - before
        names = [name.strip() for name in first]
        self.header = line if self._is_header(line, names, sample[at + 1 :], target) else None
        self.names = names if self.header else [str(i) for i in range(len(names))]
        if bad := next(filter(CONTROL.search, self.names), None):
            raise self.error(line, f"the name {bad!r} in the header has a control character")
        start = line if not self.header else next((n for n, _ in sample[at + 1 :]), len(self._text) + 1)
        self._marks: set[str] = set()
        self.lines, self.columns = self._plain(start) or self._typed(start)
        if not self.lines:
            raise DataError(f"{file}: there are no rows of data")
        found = {
            _MARKS.get(delimiter, repr(delimiter)): delimiter != (wanted or ","),
            "decimal commas": self.decimal == "," != given["decimal"],
            f"{' and '.join(map(repr, sorted(self._marks)))} between thousands": bool(self._marks)
            and not given["thousands"],
            encoding: encoding not in ("utf-8", given["encoding"]),
            f"{self._comments} comment line{'s' * (self._comments > 1)} skipped": self._comments,
            f"{before} other line{'s' * (before > 1)} skipped": before,
            f"header in line {line}": line > 1 and self.header and given["header"] in (None, True),
            f"no header, data from line {line}": not self.header and given["header"] is None,
        }
        self.found = ", ".join(what for what, is_so in found.items() if is_so)

    def error(self, line: int, what: str) -> DataError:
        """What is wrong in a line."""
        return DataError(f"{self.file}, line {line}: {what}")

    def _without_comments(self, mark: str) -> int:
        """Cut comments off the lines. How many lines were nothing else."""
        bare, before = re.compile(rf'(?:[^"{re.escape(mark)}]|"[^"]*"?)*'), self._text
        self._text = [bare.match(line)[0] if mark in line else line for line in before]  # type: ignore[index]
        return sum(bool(old.strip()) > bool(new.strip()) for old, new in zip(before, self._text, strict=True))

    def _rows(self, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
        """The line in which each row begins, from 1, and its cells; no blank rows."""
        text, line = (f"{line}\n" for line in self._text), 1
        reader = csv.reader(text, delimiter=self._mark, skipinitialspace=True, strict=strict)
        try:
            for cells in reader:
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            raise self.error(line, f"not a line of a CSV file: {error}{self._hint()}") from error

    def _hint(self, cells: Sequence[str] = ("",)) -> str:
        """Which setting may be right for a row of another length."""
        if self._given["delimiter"]:
            return f"; {setting('delimiter', None)} detects the delimiter"
        mark = cells[0][:1]
        is_comment = mark and not mark.isalnum() and mark not in "+-."
        return f"; if this is a comment, say {setting('comment', mark)}" if is_comment else ""

    def _first_row(self, sample: Sequence[tuple[int, list[str]]], target: object) -> int:
        """Where the table begins in a sample of rows: after comments, and lines with few cells."""
        if not sample:
            raise DataError(f"{self.file}: the file is empty")
        width = Counter(len(cells) for _, cells in sample).most_common(1)[0][0]
        if width > MOST_COLUMNS:
            what = "remove columns from the file, or give rows and columns the other way round"
            raise self.error(
                sample[0][0], f"{width:,} columns, and at most {MOST_COLUMNS:,} are read: {what}"
            )
        if width < 2:
            hint = self._hint() or f"; say which character is between two: {setting('delimiter', ':')}"
            only = f"there is only one column ({shortened(self._text[sample[0][0] - 1])})"
            raise self.error(sample[0][0], f"{only}, but a feature and a target are needed{hint}")
        wanted = self._given["header"]
        for at, (line, cells) in enumerate(sample):
            if wanted is not None and not isinstance(wanted, bool):
                is_first, may_precede = line == wanted and len(cells) == width, line < wanted
            else:
                body = [row for _, row in sample[at + 1 : at + 99]]
                is_comment = bool(_COMMENT.match(cells[0]))
                is_first = len(cells) == width and not (is_comment and body and _names(body[0], body[1:]))
                few = 2 * sum(bool(cell.strip()) for cell in cells) <= width
                may_precede = is_comment or (few and target not in cells)
            if is_first:
                return at
            if not may_precede:
                raise self.error(
                    line, f"{len(cells)} columns, but other lines have {width}{self._hint(cells)}"
                )
        raise DataError(f"{self.file}: dataset.header is {wanted}, which is not a line with {width} columns")

    def _is_header(
        self, line: int, names: list[str], body: Sequence[tuple[int, list[str]]], target: object
    ) -> bool:
        given = self._given["header"]
        found = (
            given is not False
            if given is not None
            else target in names or _names(names, [row for _, row in body])
        )
        if found is None:
            both = f"{setting('header', True)} or {setting('header', False)}"
            raise self.error(line, f"it may be a header, or data: {', '.join(names[:12])}; say {both}")
        return found

    def _plain(self, start: int) -> tuple[list[int], list[Column]] | None:
        """The columns as pandas reads them, if every cell is a number, without quotes and marks."""
        import pandas as pd  # which takes 0.3 s

        given, width = self._given, len(self.names)
        text = "\n".join(self._text[start - 1 :]).encode(errors="replace")
        is_comma = self._mark != "," and b"." not in text and re.search(rb",(?!\d{3}(?!\d))", text)
        self.decimal = given["decimal"] or ("," if is_comma else ".")
        text = text.replace(b"e+", b"e").replace(b"E+", b"E")  # pandas reads a plus not quite exactly
        others = text.translate(None, f"0123456789eE- \t\n{self.decimal}{self._mark}".encode())
        lines = [line for line, row in enumerate(self._text[start - 1 :], start) if row.strip()]
        if others or given["na_values"] or given["thousands"] or self.decimal == self._mark or not lines:
            return None
        if any(self._text[line - 1].count(self._mark) != width - 1 for line in lines):
            return None
        how: dict[str, Any] = {"sep": self._mark, "decimal": self.decimal, "quoting": csv.QUOTE_NONE}
        try:
            frame = pd.read_csv(BytesIO(text), header=None, dtype=np.float64, na_filter=False, **how)
        except ValueError:
            return None
        values = frame.to_numpy()
        if values.shape != (len(lines), width) or not -_LARGEST <= values.min() <= values.max() <= _LARGEST:
            return None
        return lines, [Column(name, column) for name, column in zip(self.names, values.T, strict=True)]

    def _typed(self, start: int) -> tuple[list[int], list[Column]]:
        """The columns as numbers, perhaps with strays, or as texts."""
        lines, rows = list[int](), list[list[str]]()
        for line, cells in self._rows():
            if line >= start and len(cells) == len(self.names):
                lines.append(line)
                rows.append(cells)
            elif line >= start and (self._given["comment"] or not _COMMENT.match(cells[0])):
                what = f"{len(cells)} columns, but other lines have {len(self.names)}"
                raise self.error(line, f"{what}{self._hint(cells)}")
            else:
                self._comments += line >= start
        na = MISSING.union(map(str, self._given["na_values"]))
        columns = []
        for name, column in zip(self.names, zip(*rows, strict=True), strict=False):
            cells = [cell.strip(" \t") for cell in column]
            columns.append(Column(name, None, cells, [row for row, cell in enumerate(cells) if cell in na]))
        self.decimal = self._detected_decimal(columns, na, lines)
        for one in columns:
            self._to_numbers(one, na)
        return lines, columns

    def _detected_decimal(self, columns: Sequence[Column], na: frozenset[str], lines: Sequence[int]) -> str:
        """The decimal mark that more of the cells in columns of numbers need."""
        decimal, thousands = self._given["decimal"], self._given["thousands"]
        if decimal or thousands in (",", "."):
            return decimal or _OTHER[thousands]
        need, doubt = {".": 0, ",": 0}, None
        for column in columns:
            has_commas = any("," in cell for cell in column.cells)
            cells = column.cells if has_commas else column.cells[:_SAMPLE]
            counts = Counter(cell for cell in cells if cell not in na)
            reads = {
                cell: [mark for mark in need if _number(mark, thousands).fullmatch(cell)] for cell in counts
            }
            if 2 * sum(counts[cell] for cell in counts if reads[cell]) < counts.total():
                continue
            for cell, marks in reads.items():
                if len(marks) == 1:
                    need[marks[0]] += counts[cell]
                elif marks and "," in cell:
                    doubt = doubt or (
                        lines[column.cells.index(cell)],
                        f"column {column.name!r}: {shortened(cell)}",
                    )
        if doubt and not any(need.values()):
            both = f"{setting('decimal', ',')} or {setting('thousands', ',')}"
            raise self.error(
                doubt[0], f"{doubt[1]} has a decimal comma, or one between thousands: say {both}"
            )
        return "," if need[","] > need["."] else "."

    def _to_numbers(self, column: Column, na: frozenset[str]) -> None:
        """Make a column one of numbers if half of its values are."""
        present, thousands = [cell for cell in column.cells if cell not in na], self._given["thousands"]
        values = None if self.decimal == "," and any("." in cell for cell in present) else _floats(present)
        if values is None:
            found, numeric, units = dict[str, re.Match[str]](), 0, Counter[str]()
            for cell, count in Counter(present).items():
                if match := _number(self.decimal, thousands).fullmatch(cell):
                    found[cell] = match
                    units[match["before"] or match["after"] or ""] += count
                numeric += count if match or _number(_OTHER[self.decimal], thousands).fullmatch(cell) else 0
            if 2 * numeric < len(present):
                return
            column.unit = units.most_common(1)[0][0] if units else ""
            of_cell = {
                cell: float(re.sub(rf"[^0-9eE+\-{self.decimal}]", "", cell).replace(",", "."))
                for cell, match in found.items()
                if (match["before"] or match["after"] or "") == column.unit
            }
            values = np.array([of_cell.get(cell, np.inf) for cell in present])
            self._marks.update(found[cell]["mark"] for cell in of_cell if found[cell]["mark"])
        rows = np.delete(np.arange(len(column.cells)), np.array(column.missing, int))
        column.strays = rows[np.abs(values) > _LARGEST].tolist()
        column.numbers = np.full(len(column.cells), np.nan)
        column.numbers[rows] = values
        lacking = np.isin(
            column.numbers, [value for value in self._given["na_values"] if not isinstance(value, str)]
        )
        column.numbers[lacking] = np.nan
        column.missing = sorted({*column.missing, *np.flatnonzero(lacking).tolist()})


@cache
def _number(decimal: str, thousands: str | None = None) -> re.Pattern[str]:
    """A number with this decimal mark, perhaps with marks between thousands, and a unit's sign."""
    between = re.escape(thousands or (_OTHER[decimal] + "'’" + _SPACES))
    return re.compile(
        rf"(?P<minus>[+-])?((?P<before>[{_UNITS}])[{_SPACES}]?)?(?(minus)|[+-]?)(?=[.,]?[0-9])"
        rf"([1-9][0-9]{{0,2}}(?P<mark>[{between}])[0-9]{{3}}((?P=mark)[0-9]{{3}})*|[0-9]*)"
        rf"([{decimal}][0-9]*)?([eE][+-]?[0-9]+)?([{_SPACES}]?(?P<after>[{_UNITS}]))?"
    )


def _is_number(cell: str) -> bool:
    return bool(_number(".").fullmatch(cell) or _number(",").fullmatch(cell))


def _floats(cells: Sequence[str]) -> np.ndarray | None:
    """The cells as float64, if all are plain decimal numbers."""
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        return None
    return None if re.search(r"[^0-9eE+\-. ]", "".join(cells)) else numbers


def _names(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool | None:
    """Whether a row has the names of the columns below it; None if it may as well be data.

    It has if it holds texts above numbers, and no numbers there but whole ones, such as years.
    """
    below = list(
        zip(*(row for row in body[: 1 + 200_000 // len(first)] if len(row) == len(first)), strict=True)
    )
    over = [cell.strip() for cell, column in zip(first, below, strict=False) if _has_numbers(column)]
    numbers = list(filter(_is_number, over if below else first))
    whole = [int(cell) for cell in numbers if cell.isascii() and cell.isdecimal()]
    if any(cell not in MISSING and not _is_number(cell) for cell in over):
        return len(set(whole)) == len(numbers) or None
    if len(whole) > 1 and whole == list(range(whole[0], whole[0] + len(numbers))):
        return None
    return not numbers and not (
        below and all(cell in column for cell, column in zip(first, below, strict=True))
    )


def _has_numbers(cells: Sequence[str]) -> bool:
    present = [cell.strip() for cell in cells if cell.strip() not in MISSING]
    return bool(present) and 2 * sum(map(_is_number, present)) >= len(present)


def detected_delimiter(lines: Sequence[str]) -> str:
    """What separates the columns of most lines so that a cell is a number, or has no other such mark."""
    some = list(islice((line for line in lines if line.strip() and not _COMMENT.match(line)), _SAMPLE))

    def score(delimiter: str) -> tuple[float, float]:
        rows = loose_rows(some, delimiter)
        width, count = Counter(map(len, rows)).most_common(1)[0] if rows else (0, 0)
        cells = [cell.strip() for row in rows if len(row) == width > 1 for cell in row] or [",,"]
        numbers = sum(map(_is_number, cells))
        texts = sum(not _is_number(cell) and not re.search(r"[,;|\t]", cell) for cell in cells)
        return count * (numbers + texts) / len(cells), numbers / len(cells)

    return max(_MARKS, key=score)


def loose_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of lines as far as they can be read; none after a cell that is too long for that."""
    rows = list[list[str]]()
    text = map(_tabbed, lines) if delimiter == BLANKS else lines
    with suppress(csv.Error):
        rows.extend(
            row for row in csv.reader(text, delimiter="\t" if delimiter == BLANKS else delimiter) if row
        )
    return rows


def _tabbed(line: str) -> str:
    """A line with a tab where blanks are between columns."""
    if '"' not in line:
        return "\t".join(line.split())
    return re.sub(r'("[^"]*"?)|\s+', lambda at: at[1] or "\t", line.strip())


def _decoded(file: Path, content: bytes, given: str | None) -> tuple[str, str]:
    """The text of a file, and its encoding."""
    for encoding in (given,) if given else _encodings(content):
        try:
            return content.decode(encoding).removeprefix("\ufeff"), encoding
        except UnicodeError as error:
            at = getattr(error, "start", 0)
    line, detects = content.count(b"\n", 0, at) + 1, f"{setting('encoding', None)} detects the encoding"
    raise DataError(f"{file}, line {line}: the byte 0x{content[at]:02x} is not {given}; {detects}")


def _encodings(content: bytes) -> Iterator[str]:
    """Encodings that a file may have, the likeliest first; the last can read every byte."""
    yield "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    from charset_normalizer import from_bytes  # which is large

    odd = b"\n".join(line for line in content.splitlines() if not line.isascii())[: 1 << 16]
    letters = re.sub(rb"[^A-Za-z\x80-\xff]", b"", odd)
    # of a few letters among many of ASCII it finds only whether they are Western or Central European
    few = 2 * sum(byte > 127 for byte in letters) < len(letters) or len(letters) < 8
    others = ["cp1251", "cp1253", "koi8_r", "cp932", "gb18030", "big5", "euc_kr"]
    best = from_bytes(odd, cp_isolation=["cp1252", "cp1250"] if few else others).best()
    if best and not (few and str(best) == odd.decode("cp1252", "replace")):
        yield best.encoding
    yield from ("cp1252", "cp850")
