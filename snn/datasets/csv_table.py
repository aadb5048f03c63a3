"""A user's own table, from a CSV file. Errors name file, line and column, and the setting that would help.

First the lines of a file become columns of numbers or texts; the format of the file is detected. Then the
columns become a table that can be trained on.
"""

import csv
import hashlib
import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snn.datasets import Table, counts
from snn.errors import DataError
from snn.files.regular import identity, opened, path_of, read_into_memory

_BEGINNINGS = {
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ\x00": "an xz file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"PAR1": "a Parquet file",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy file",
    b"SQLite format 3\x00": "an SQLite database",
    b"%PDF": "a PDF document",
    b"\xff\xfe\x00\x00": "text in UTF-32",
}

# ---- the columns of a file

MISSING = frozenset("NA na N/A n/a #N/A <NA> NaN nan NAN None NONE null NULL ?".split()) | {""}  # noqa: SIM905
"""Cells that count as missing, in addition to ``dataset.na_values``."""
BLANKS = r"\s+"
"""Pandas' delimiter of columns with any number of blanks between them."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff]")
MOST_COLUMNS = 100_000

_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}
_SAMPLE = 1000
"""Rows from which the delimiter and the header are detected."""
_LARGEST = float(np.finfo(np.float32).max)
_UNITS, _SPACES = "%‰$¢£¤¥฿\u20a0-\u20cf", " \u00a0\u2009\u202f"
_OTHER = {",": ".", ".": ","}
_POINT = re.compile(r"(?<![0-9])0?\.|[0-9]{4}\.|\.(?![0-9]{3}(?![0-9]))")
"""A point that cannot be between thousands."""
_CODE = re.compile(r"\s*0[0-9]+\s*")
"""Digits with a leading zero, as in a code."""
_Rows = list[tuple[int, list[str]]]


@dataclass
class Column:
    """A column of ``cells``, and its float64 ``numbers`` (NaN if a cell has none), or None for text.

    ``missing`` (rows,) marks cells without a value, ``strays`` (rows,) cells that are not a number with the
    ``unit``, such as %.
    """

    name: str
    cells: np.ndarray
    numbers: np.ndarray | None
    missing: np.ndarray
    strays: np.ndarray
    unit: str = ""


def setting(key: str, value: object) -> str:
    """A setting of ``dataset=csv`` to paste on a command line, quoted for Hydra and for a shell."""
    is_word = isinstance(value, str) and re.fullmatch(r"[a-z]+[0-9_-]\w*|drop", value)
    return shlex.quote(f"dataset.{key}={value if is_word else _quoted(value)}")


def _quoted(value: object) -> str:
    """A value as both Hydra and YAML read it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    if isinstance(value, str) and re.fullmatch(r"(\\?[^\\'])+", value) and "\\" in value:
        return f"'{value}'"  # keeps backslashes, which are escapes in double quotes
    return json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """A cell as a message shows it."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


class Sheet:
    """A file's ``columns``, the ``lines`` of its rows and ``header``, and in words the format ``found``.

    ``encoding`` is a detected one. Keys of ``dataset=csv`` that are None are detected. Raises DataError, with
    a line and a setting, if the file is not a table, or is ambiguous.
    """

    def __init__(
        self,
        file: Path,
        lines: list[str],
        encoding: str | None,
        target: str | int,
        delimiter: str | None = None,
        decimal: str | None = None,
        thousands: str | None = None,
        comment: str | None = None,
        header: bool | int | None = None,
        na_values: Sequence[str | float] = (),
        least_columns: int = 2,
    ) -> None:
        if decimal and decimal == thousands:
            raise DataError(f"{file}: dataset.decimal and dataset.thousands are both {decimal!r}")
        self.file, self._given, self._na, self._thousands = file, delimiter, na_values, thousands
        self._least_columns = least_columns
        self._skipped, self._spread, self._likely_header = Counter[str](), list[int](), 0
        self.lines, self.columns = list[int](), list[Column]()
        of_excel = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)
        if of_excel:
            lines[0] = ""
        self._comment = re.compile(re.escape(comment) if comment else r"\s*[#%]")
        if comment:
            self._skipped["comment line"] = sum(line.lstrip().startswith(comment) for line in lines)
            bare = re.compile(rf'(?:[^"{re.escape(comment)}]|"[^"]*"?)*')
            lines = [bare.match(line)[0] for line in lines]  # type: ignore[index]
        mark = delimiter or (of_excel[1] if of_excel else detected(lines))
        mark = BLANKS if mark == " " else mark
        self._text = [_tabbed(line) for line in lines] if mark == BLANKS else lines
        self._mark = "\t" if mark == BLANKS else mark
        named = 0 if header is None or isinstance(header, bool) else header
        rows = (row for row in self._rows() if row[0] >= named)
        sample = list(islice(rows, _SAMPLE))
        names, start = self._header(sample, target, header, named)
        self.header = sample[start - 1][0] if names else None
        self.names = names or [*map(str, range(self._width))]
        self._decimal = decimal or _OTHER.get(thousands or "")
        marks = set[str]()
        if thousands or na_values or not self._read_plain(sample[start][0]):
            self._read(chain(sample[start:], rows), sample[start - 1][1] if names else [])
            self._decimal = self._decimal or self._decimal_mark()
            marks = set().union(*(self._to_numbers(column) for column in self.columns))
        doubts = list(self._doubts(sample[start:]))
        self.columns = [one for one in self.columns if one.name or not one.missing.all()]
        self.names = [one.name for one in self.columns]
        self._skipped["nameless empty column"] = self._width - len(self.columns)
        spread = f"{len(self._spread)}, the first in line {min(self._spread, default=0)}"
        found = {
            _MARKS.get(mark, repr(mark)): mark != "," and not delimiter,
            "decimal commas": self._decimal == "," and not decimal,
            f"{' and '.join(map(repr, sorted(marks)))} between thousands": marks and not thousands,
            str(encoding): encoding,
            **{what: decimal is None or "decimal" not in what for what in doubts},
            **{f"{n} {what}{'s' * (n > 1)} skipped": n for what, n in self._skipped.items()},
            f"rows over several lines ({spread})": self._spread,
            f"header in line {self.header}": self.header and self.header > 1,
            f"no header, data from line {self.lines[0]}": not self.header and header is None,
        }
        self.found = ", ".join(what for what, is_so in found.items() if is_so)
        del self._text

    def _doubts(self, body: _Rows) -> Iterator[str]:
        """Doubts about the way the numbers in the first rows were read."""
        named = zip(self.columns, _below([cells for _, cells in body], self._width), strict=False)
        sampled = [(cell, one.name) for one, cells in named if one.numbers is not None for cell in cells]
        points = [cell for cell, _ in sampled if "." in cell and _is_number(cell.strip())]
        if self._decimal != "," and points and not any(map(_POINT.search, points)):
            yield f"decimal points (if they are between thousands, say {setting('thousands', '.')})"
        if code := next((f"{cell!r} in {name!r}" for cell, name in sampled if _CODE.fullmatch(cell)), None):
            yield f"numbers without the zeros before them, such as {code}"

    def error(self, line: int, what: str, column: str | None = None) -> DataError:
        """A DataError about a line, or about the cell of a column in it."""
        place = f"{self.file}, line {line}"
        return DataError(f"{place}: {what}" if column is None else f"{place}, column {column!r}: {what}")

    def hint(self, line: int, cells: Sequence[str] = ("",)) -> str:
        """A setting that may help if a row has too few or too many cells, or the header lacks the target."""
        if self._likely_header > line:
            way = setting("header", self._likely_header)
            return f"; if the header is in line {self._likely_header}, say {way}"
        if self._given:
            return f"; {setting('delimiter', None)} detects the delimiter"
        mark = cells[0][:1]
        is_comment = mark.strip() and mark.isprintable() and not mark.isalnum() and mark not in "+-."
        return f"; if this is a comment, say {setting('comment', mark)}" if is_comment else ""

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The first line (from 1) and the cells of each row that is not blank."""
        text, line = (f"{line}\n" for line in self._text), 1
        reader = csv.reader(text, delimiter=self._mark, skipinitialspace=True, strict=True)
        try:
            for cells in reader:
                if reader.line_num > line:
                    self._spread.append(line)
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            what = str(error).replace("\t", "a tab")
            raise self.error(line, f"not a line of a CSV file: {what}{self.hint(line)}") from error

    def _header(
        self, sample: _Rows, target: str | int, header: bool | int | None, named: int
    ) -> tuple[list[str], int]:
        """The names in the header (empty without one), and the index of the first row of data."""
        if not sample:
            raise DataError(f"{self.file}: no rows of data from line {named or 1} (dataset.header) on")
        with_target = (line for line, cells in sample if target in [cell.strip() for cell in cells])
        self._likely_header = next(with_target, 0)
        at = self._first(sample, target)
        line, names = sample[at][0], [name.strip() for name in sample[at][1]]
        if named and line != named:
            raise self.error(line, f"the table begins here, but dataset.header is {header}")
        for _, cells in sample[:at]:
            self._skipped["comment line" if self._comment.match(cells[0]) else "other line"] += 1
        below = [cells for _, cells in sample[at + 1 :]]
        is_header = bool(header) if header is not None else target in names or _names(names, below)
        if is_header is None:
            both = f"{setting('header', True)} or {setting('header', False)}"
            raise self.error(line, f"it may be a header, or data ({', '.join(names[:12])}): say {both}")
        if is_header and (bad := next(filter(CONTROL.search, names), None)):
            raise self.error(line, f"the name {bad!r} in the header has a control character")
        if is_header and not below:
            raise DataError(f"{self.file}: no rows of data")
        return (names, at + 1) if is_header else ([], at)

    def _first(self, sample: _Rows, target: str | int) -> int:
        """The index of the table's first row, after comments and lines with few cells."""
        line, width = sample[0][0], _width([cells for _, cells in sample])[0]
        self._width = width
        if width > MOST_COLUMNS:
            what = f"{width:,} columns, more than the {MOST_COLUMNS:,} that a table may have"
            raise self.error(line, f"{what}: remove columns, or give rows and columns the other way round")
        if width < self._least_columns:
            hint = self.hint(line) or f"; say what separates it: {setting('delimiter', ':')}"
            only = f"only one column ({shortened(self._text[line - 1])})"
            raise self.error(line, f"{only}, but a feature and a target are needed{hint}")
        for at, (line, cells) in enumerate(sample):
            body = [row for _, row in sample[at + 1 : at + 99]]
            filled = [cell for cell in map(str.strip, cells) if cell]
            if self._comment.match(cells[0]):
                is_before = len(cells) != width or (body and _names(body[0], body[1:]) is True)
            else:
                is_sparse = len(filled) < 2 < width or (2 * len(filled) <= width != len(cells))
                is_row = target in filled or (filled and all(map(_is_number, filled)))
                is_before = is_sparse and not is_row
            if not is_before and len(cells) != width:
                raise self._unequal(line, cells)
            if not is_before:
                return at
        raise self.error(line, f"no line has {width} cells, as others have")

    def _unequal(self, line: int, cells: list[str]) -> DataError:
        hint = self.hint(line, cells)
        if not hint and line == self._likely_header:
            hint = "; a header must name each column, also one of row names"
        return self.error(line, f"{len(cells)} columns, but other lines have {self._width}{hint}")

    def _read_plain(self, start: int) -> bool:
        """Read all columns in one pass if each cell is a plain number, without quotes or units."""
        self.lines = [line for line, row in enumerate(self._text[start - 1 :], start) if row.strip()]
        rows = [self._text[line - 1] for line in self.lines]
        decimal = self._decimal or "."
        if self._mark != "," and self._decimal != "." and not any("." in row for row in rows):
            if self._decimal or any(re.search(r",(?![0-9]{3}(?![0-9]))", row) for row in rows):
                decimal, rows = ",", [row.replace(",", ".") for row in rows]
        elif decimal == ",":
            return False
        if not rows or not all(row.isascii() and row.replace("\t", "").isprintable() for row in rows):
            return False
        try:
            values = np.loadtxt(rows, delimiter=self._mark, comments=None, ndmin=2).T
        except ValueError:
            return False
        if len(values) != self._width or not np.abs(values).max() <= _LARGEST:
            return False
        self._decimal, none = decimal, np.zeros(len(rows), bool)
        named = zip(self.names, values, strict=True)
        self.columns = [Column(name, np.array([]), column, none, none) for name, column in named]
        return True

    def _read(self, rows: Iterable[tuple[int, list[str]]], header: list[str]) -> None:
        self.lines, table, na = [], list[list[str]](), MISSING.union(map(str, self._na))
        for line, cells in rows:
            if cells == header:
                self._skipped["repeated header"] += 1
            elif len(cells) == self._width:
                self.lines.append(line)
                table.append(cells)
            elif self._comment.match(cells[0]):
                self._skipped["comment line"] += 1
            else:
                raise self._unequal(line, cells)
        if not table:
            raise DataError(f"{self.file}: no rows of data")
        for name, column in zip(self.names, zip(*table, strict=True), strict=True):
            texts = np.array([cell.strip(" \t") for cell in column], object)
            missing = np.array([cell in na for cell in texts])
            self.columns.append(Column(name, texts, None, missing, np.zeros(len(texts), bool)))

    def _decimal_mark(self) -> str:
        """The decimal mark that most cells in columns of numbers need."""
        need, doubt = Counter[str](), None
        forms = {mark: _number(mark, self._thousands) for mark in _OTHER}
        if not any("," in cell for column in self.columns for cell in column.cells):
            return "."
        for column in self.columns:
            counts = Counter(column.cells[~column.missing])
            reads = {cell: "".join(mark for mark in forms if forms[mark].fullmatch(cell)) for cell in counts}
            if 2 * sum(counts[cell] for cell in counts if reads[cell]) < counts.total():
                continue
            for cell, marks in reads.items():
                need[marks] += counts[cell]
                if len(marks) == 2 and "," in cell and not doubt:
                    doubt = self.lines[np.argmax(column.cells == cell)], shortened(cell), column.name
        if doubt and not need[","] + need["."]:
            both = f"{setting('decimal', ',')} or {setting('thousands', ',')}"
            what = f"{doubt[1]} has a decimal comma, or one between thousands: say {both}"
            raise self.error(doubt[0], what, doubt[2])
        return "," if need[","] > need["."] else "."

    def _to_numbers(self, column: Column) -> set[str]:
        """Turn a column into numbers if half of its values are. Returns its marks between thousands."""
        decimal, present, marks = self._decimal or ".", column.cells[~column.missing], set[str]()
        is_plain = not re.search(r"[^0-9eE+\-. ]", text := "".join(present))
        values = None
        if is_plain and (decimal == "." or "." not in text):
            with suppress(ValueError):
                values = [float(cell) for cell in present]
        if values is None:
            form, other = (_number(mark, self._thousands) for mark in (decimal, _OTHER[decimal]))
            counts, units = Counter(present), Counter[str]()
            found = {cell: match for cell in counts if (match := form.fullmatch(cell))}
            numbers = sum(counts[cell] for cell in counts if cell in found or other.fullmatch(cell))
            if 2 * numbers < len(present):
                return marks
            unit_of = {cell: match["before"] or match["after"] or "" for cell, match in found.items()}
            for cell, unit in unit_of.items():
                units[unit] += counts[cell]
            column.unit = max(units, key=lambda unit: units[unit], default="")
            used = [cell for cell, unit in unit_of.items() if unit == column.unit]
            digits, marks = re.compile(rf"[^0-9eE+\-{decimal}]"), {found[cell]["mark"] for cell in used}
            value = {cell: float(digits.sub("", cell).replace(",", ".")) for cell in used}
            values = [value.get(cell, np.nan) for cell in present]
        column.numbers = np.full(len(column.cells), np.nan)
        column.numbers[~column.missing] = values
        column.numbers[~(np.abs(column.numbers) <= _LARGEST)] = np.nan
        column.strays = np.isnan(column.numbers) & ~column.missing
        column.missing |= np.isin(column.numbers, [one for one in self._na if not isinstance(one, str)])
        column.numbers[column.missing] = np.nan
        return marks - {None}


@cache
def _number(decimal: str, thousands: str | None = None) -> re.Pattern[str]:
    """Parse a number with this decimal mark, optional marks between thousands, and a unit's sign."""
    between = re.escape(thousands or _OTHER[decimal] + "'’" + _SPACES)
    return re.compile(
        rf"(?P<minus>[+-])?((?P<before>[{_UNITS}])[{_SPACES}]?)?(?(minus)|[+-]?)(?=[.,]?[0-9])"
        rf"([1-9][0-9]{{0,2}}(?P<mark>[{between}])[0-9]{{3}}((?P=mark)[0-9]{{3}})*|[0-9]*)"
        rf"([{decimal}][0-9]*)?(?(mark)|([eE][+-]?[0-9]+)?)(?(before)|([{_SPACES}]?(?P<after>[{_UNITS}]))?)"
    )


def _is_number(cell: str) -> bool:
    return bool(_number(".").fullmatch(cell) or _number(",").fullmatch(cell))


def _names(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool | None:
    """Whether a row names the columns below it; None if it may also be data.

    It does if it holds texts above numbers, and no other numbers than whole ones, such as years.
    """
    below = _below(body, len(first))
    over = list[str]()
    for cell, column in zip(first, below, strict=False):
        present = [one.strip() for one in column if one.strip() not in MISSING]
        if present and 2 * sum(map(_is_number, present)) >= len(present):
            over.append(cell.strip())
    numbers = list(filter(_is_number, over if below else first))
    whole = [int(cell) for cell in numbers if re.fullmatch("[0-9]+", cell)]
    if any(cell not in MISSING and not _is_number(cell) for cell in over):
        return len(set(whole)) == len(numbers) or None
    if len(whole) > 1 and whole == list(range(whole[0], whole[0] + len(numbers))):
        return None
    recurs = bool(below) and all(cell in column for cell, column in zip(first, below, strict=True))
    return not numbers and not recurs


def _below(body: Sequence[Sequence[str]], width: int) -> list[tuple[str, ...]]:
    """The cells of each column in the first rows."""
    return list(zip(*(row for row in body[: 1 + 200_000 // width] if len(row) == width), strict=True))


def detected(lines: Sequence[str]) -> str:
    """The delimiter of most lines that leaves only numbers, or cells without another delimiter.

    Prefers the one with the fewest texts, and tabs to blanks, which may be between thousands.
    """
    some = list(islice((line for line in lines if line.strip() and line.lstrip()[0] not in "#%"), _SAMPLE))

    def score(mark: str) -> tuple[float, ...]:
        rows = loose_rows(some, mark)
        width, count = _width(rows)
        cells = [cell.strip() for row in rows if len(row) == width > 1 for cell in row] or [",,"]
        numbers = sum(map(_is_number, cells))
        texts = sum(not _is_number(cell) and not re.search(r"[,;|\t]", cell) for cell in cells)
        return count * (numbers + texts) / len(cells), -texts, mark == "\t", numbers / len(cells)

    return max(_MARKS, key=score)


def _width(rows: Sequence[Sequence[str]]) -> tuple[int, int]:
    """The usual number of cells in a row, and how many rows have it; lines of one cell may come first."""
    counts = Counter(len(row) for row in rows if not row[0].lstrip().startswith(("#", "%"))) or Counter([1])
    return max(counts.items(), key=lambda each: (each[1] / (1 if each[0] > 1 else 4), each[0]))


def loose_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of lines that are not blank, up to the first line that cannot be read."""
    rows = list[list[str]]()
    if delimiter in (BLANKS, " "):
        lines, delimiter = list(map(_tabbed, lines)), "\t"
    with suppress(csv.Error):
        rows.extend(filter(None, csv.reader(lines, delimiter=delimiter)))
    return rows


def _tabbed(line: str) -> str:
    """A line with its blanks between columns replaced by tabs."""
    return re.sub(r'("[^"]*"?)|\s+', lambda at: at[1] or "\t", line.strip())


def decoded(file: Path, content: bytes, given: str | None) -> tuple[list[str], str | None]:
    """The lines of a file, and its encoding if it was detected and is not UTF-8. Raises DataError."""
    start = content[:4096]
    if not given and (
        kind := next((kind for mark, kind in _BEGINNINGS.items() if start.startswith(mark)), "")
    ):
        raise DataError(f"{file}: it looks like {kind}: unpack it, or write its table as CSV in UTF-8")
    if not given and b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        order = "be" if start.startswith(b"\0") else "le"
        what = "text in UTF-16, or no text, for it holds NUL bytes"
        raise DataError(
            f"{file}: it looks like {what}: say dataset.encoding=utf-16-{order} or save it as UTF-8"
        )
    first = given or ("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")
    encoding = first
    try:
        text = content.decode(first)
    except UnicodeError as error:
        text = content.decode(first, errors="replace")
        at, way = getattr(error, "start", 0), "correct it"
        if given:
            way = f"{setting('encoding', None)} detects another"
        elif first == "utf-8":
            other, encoding = next(_others(content))
            way = f"correct it, or say {setting('encoding', encoding)} if that is the encoding"
        # if most letters beyond ASCII are UTF-8, the others are damaged
        if first == encoding or 2 * text.count("\ufffd") <= len(text) - len(text.encode("ascii", "ignore")):
            place = f"{file}, line {1 + content.count(10, 0, at)}"
            raise DataError(f"{place}: the byte 0x{content[at]:02x} is not {first}; {way}") from error
        text = other
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines, encoding if encoding not in ("utf-8", given) else None


def _others(content: bytes) -> Iterator[tuple[str, str]]:
    """Texts and encodings of a file that is not UTF-8, the likeliest first; cp850 decodes every byte."""
    from charset_normalizer import from_bytes  # which is large

    odd = b"\n".join(line for line in content.splitlines() if not line.isascii())[: 1 << 16]
    letters = re.sub(rb"[^A-Za-z\x80-\xff]", b"", odd)
    # with few letters beyond ASCII it only distinguishes Western from Central European
    is_latin = 2 * sum(byte > 127 for byte in letters) < len(letters) or len(letters) < 8
    others = ["cp1251", "cp1253", "koi8_r", "cp932", "gb18030", "big5", "euc_kr"]
    best = from_bytes(odd, cp_isolation=["cp1252", "cp1250", *([] if is_latin else others)]).best()
    found = [best.encoding] if best and str(best) != odd.decode("cp1252", "replace") else []
    for encoding in [*found, "cp1252", "cp850"]:
        with suppress(UnicodeError):
            yield content.decode(encoding), encoding


# ---- the table

LARGEST_FILE = 2 << 30
"""Bytes. The table takes as many again, and every cell of the grid loads it."""
MOST_VALUES, MOST_CLASSES = 100, 1000
"""Most columns that one_hot makes of one, and most classes of a target."""
_COPIES = 8
"""Copies of a file in memory while it is read: its bytes, its lines, the float64 numbers, and the table."""
LONGEST_VALUE = 200
"""Most characters of a text value; a record contains the classes."""
_SLIPS = 0.1
"""Largest share of texts in a column that still counts as numbers, and so is not left out as text."""
_FEW_ROWS, _FEW_CLASSES = 10, 20
"""Fewer rows may be numbered 1, 2, 3, ... by chance; at most this many whole numbers may be classes."""
_NUMBERS = "numbers are predicted without --classify, with mean_squared_error"
_LABELS = (
    "to tell these apart, add --classify to snn train or snn recommend; or say network=layers "
    "network.loss=cross_entropy, and end network.layers in as many outputs; or name another dataset.target"
)
_CLASSES = "classes are told apart with network.loss=cross_entropy (snn recommend --classify)"
_FEWER = "leave out the columns that lack most: dataset.drop=[NAME, NAME]"
_WRITTEN = ("delimiter", "decimal", "thousands", "comment", "header", "na_values")
"""Keys that say how a file is written, but the encoding."""


class _Source(NamedTuple):
    """A column's used rows as float64 numbers; if it has ``values``, these are indices into them."""

    name: str
    numbers: np.ndarray
    values: Sequence[str] = ()


def make(
    path: str,
    target: str | int,
    standardise: bool = False,
    held_out: float = 0.0,
    shuffle_seed: int | None = None,
    text_columns: str = "error",
    missing: str = "error",
    drop: Sequence[str | int] = (),
    task: str | None = None,
    sha256: str | None = None,
    encoding: str | None = None,
    **written: Any,
) -> Table:
    """Read a CSV file into a float32 table (rows, features + 1), with the target column moved to the end.

    config/dataset/csv.yaml describes the keys; ``Sheet`` takes those in ``written``. For the
    ``task`` ``classification`` the target's distinct values, in order, are the classes 0, 1, ... Rows are
    permuted with ``numpy.random.RandomState(shuffle_seed)``; the last, a share ``held_out``, are held out.

    Facts: ``classes``, ``majority_accuracy`` (on the held-out rows), ``one_hot_columns``, ``left_out_rows``,
    ``left_out_columns``, ``standardised_sha256`` (of all m and s), ``target_mean`` and ``target_scale``.
    Raises DataError if the file or a key is invalid.
    """
    file = path_of(path)
    if isinstance(target, bool) or not isinstance(target, (int, str)) or target == "":
        raise DataError(f"{file}: dataset.target is {target!r}: it must be a column's name or its number")
    content = read_into_memory(file, _COPIES, LARGEST_FILE)
    if sha256 is not None and hashlib.sha256(content).hexdigest() != sha256:
        raise DataError(f"{file}: the file has changed since the workflow was planned; run it again")
    lines, found = decoded(file, content, encoding)
    del content  # saves one copy of a large file
    sheet = Sheet(file, lines, found, target, **written)
    del lines
    index, columns = _index_of(sheet, "target", target), sheet.columns
    goal, has_classes = columns[index], task == "classification"
    if has_classes and len(goal.cells) and (goal.numbers is None or not np.isfinite(goal.numbers).any()):
        none = {"", *map(str, written.get("na_values") or ())}  # others, such as None and NA, are classes
        goal.numbers, goal.missing = None, np.array([cell in none for cell in goal.cells])
    texts = {
        i
        for i, one in enumerate(columns)
        if one.numbers is None or np.sum(one.strays) > _SLIPS * max(1, np.sum(~one.missing))
    }
    left_out = {_index_of(sheet, "drop", one) for one in drop}
    if index in left_out:
        raise DataError(f"{file}: dataset.drop leaves out the target, {goal.name!r}: name other columns")
    dropped = sorted(left_out | (texts - {index} if text_columns == "drop" else set()))
    used = sorted({*range(len(columns))}.difference(dropped))
    encodes = {i for i in used if (has_classes if i == index else text_columns == "one_hot")}
    _check(sheet, used, index, encodes, drops_rows=missing == "drop_rows")
    kept = np.flatnonzero(~np.any([columns[i].missing for i in used], axis=0))
    if not len(kept):
        raise DataError(f"{file}: each row lacks a value; {_lacking([columns[i] for i in used])}; {_FEWER}")
    features = [_source(sheet, columns[i], kept, MOST_VALUES) for i in used if i != index]
    if not features:
        raise DataError(f"{file}: no column but the target {goal.name!r} is left to train on")
    learned = _source(sheet, goal, kept, MOST_CLASSES, has_classes)
    order = np.arange(len(kept))
    if shuffle_seed is not None:
        order = np.random.RandomState(shuffle_seed).permutation(len(kept))
    training = counts(len(kept), {"name": f"csv, {file}", "held_out": held_out})[0]
    values, facts, used_as = _assembled(file, features, learned, order, training, standardise)
    if not sheet.header:
        used_as[-1]["columns_in_file"] = len(columns)
    if gone := len(sheet.lines) - len(kept):
        facts["left_out_rows"] = gone
    if dropped:
        facts["left_out_columns"] = [columns[i].name for i in dropped]
    said = _remarks(sheet, target, learned, features, facts, task)
    said += [] if standardise else _rounded(sheet, [*features, learned], kept)
    return Table(values, facts, tuple(f"{file}: {one}" for one in said), used_as)


def features(path: Path, choice: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """The features of all rows of another file, (rows, features) float32, as a table's ``columns`` made them.

    Columns are found by their names, and others are ignored; ``choice`` says how the first file was written.
    If the first file had no header, this one has its columns, with or without the target, or the features.
    Raises DataError for a column or header that is missing, and for a cell without a number or a known text.
    """
    used, written = columns[:-1], {key: choice[key] for key in _WRITTEN if key in choice}
    lines, found = decoded(path, read_into_memory(path, _COPIES, LARGEST_FILE), choice.get("encoding"))
    if not isinstance(written.get("header"), bool):  # the number of its line may be another
        written["header"] = None
    sheet = Sheet(path, lines, found, used[0]["name"], least_columns=1, **written)
    names = sheet.names
    if not sheet.header and not all(one["name"].isdecimal() for one in used):
        raise DataError(
            f"{path}: no header, but the network was trained with columns of these names: "
            f"{', '.join(one['name'] for one in used[:12])}{', ...' * (len(used) > 12)}: add a header"
        )
    of_first = columns[-1].get("columns_in_file", len(columns))
    if not sheet.header and len(names) == len(used):
        names = [one["name"] for one in used]
    elif not sheet.header and len(names) == of_first - 1:
        names = [str(i) for i in range(of_first) if str(i) != columns[-1]["name"]]
    elif not sheet.header and len(names) != of_first:
        raise DataError(
            f"{path}: no header, and {len(names)} columns: the network was trained with a file of {of_first} "
            f"columns, of which it uses {len(used)}"
        )
    by_name = dict(zip(names, sheet.columns, strict=True))
    if lacking := [repr(one["name"]) for one in used if one["name"] not in by_name]:
        raise DataError(
            f"{path}: no column {_some(lacking)}, which the network was trained with: its columns are "
            f"{', '.join(names[:12])}{', ...' * (len(names) > 12)}"
        )
    times = Counter(names)
    if twice := [repr(one["name"]) for one in used if times[one["name"]] > 1]:
        raise DataError(f"{path}: more than one column {_some(twice)}: rename or remove the others")
    return np.column_stack([_as_trained(sheet, by_name[one["name"]], one) for one in used])


def _as_trained(sheet: Sheet, column: Column, trained: Mapping[str, Any]) -> np.ndarray:
    """The float32 values of a column, or those that replace its texts, (rows, values)."""
    if values := trained.get("values"):
        cells = column.cells
        if not len(cells) and column.numbers is not None:
            cells = np.array([f"{number:.17g}" for number in column.numbers], object)
        encoded = cells[:, None] == np.array(values, object)
        wrong, right = ~encoded.any(axis=1), f"one of {_some(list(map(repr, values)))}"
    else:
        none = np.full(len(sheet.lines), np.nan)
        numbers = none if column.numbers is None else column.numbers
        scale = trained["scale"]
        with np.errstate(over="ignore"):
            z = (numbers - trained["mean"]) / scale if scale else np.where(np.isnan(numbers), numbers, 0)
            encoded = z.astype(np.float32)
        wrong, right = ~np.isfinite(encoded), "a number, as in the rows that the network was trained on"
    if wrong.any():
        row = int(wrong.argmax())
        cell = column.cells[row] if len(column.cells) else f"{column.numbers[row]:g}"  # type: ignore[index]
        raise sheet.error(sheet.lines[row], f"{shortened(str(cell))}: it must be {right}", trained["name"])
    return encoded.astype(np.float32)


def digest(choice: Mapping[str, Any]) -> str:
    """SHA-256 of the file's content, read again only if the file changed. Raises DataError."""
    file = path_of(choice["path"])
    return _digest(file, identity(file))


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    return [path_of(choice["path"])]


def at_most(choice: Mapping[str, Any]) -> tuple[int, int]:
    """Upper bounds of the rows of a file of this size and of its table's columns. Raises DataError."""
    with opened(path_of(choice["path"]), DataError) as content:
        lines = content.read(1 << 20).decode(errors="replace").splitlines()[:100]
        columns = max(map(len, loose_rows(lines, choice["delimiter"] or detected(lines))), default=1)
        made = columns * (MOST_VALUES if choice["text_columns"] == "one_hot" else 1)
        return content.seek(0, io.SEEK_END) // columns + 1, made


@cache
def _digest(file: Path, identity: tuple[int, ...]) -> str:
    return hashlib.sha256(read_into_memory(file, _COPIES, LARGEST_FILE)).hexdigest()


def _index_of(sheet: Sheet, key: str, target: str | int) -> int:
    """The index of the column that a key gives by its name (which may be 2020), or else by its number."""
    names, place = sheet.names, f"{sheet.file}: dataset.{key} is {target!r}"
    listed = f"{', '.join(names[:12])}{', ...' * (len(names) > 12)} ({len(names)} columns)"
    if sheet.header and names.count(str(target)) > 1:
        at = names.index(str(target)) - len(names)
        number = setting(key, [at] if key == "drop" else at)
        raise DataError(f"{place}, which is more than once in the header: rename one, or say {number}")
    if sheet.header and str(target) in names:
        return names.index(str(target))
    if isinstance(target, int) and -len(names) <= target < len(names):
        return target % len(names)
    if isinstance(target, int):
        named = f", or a name in the header: {listed}" if sheet.header else ""
        raise DataError(f"{place}: it must be between {-len(names)} and {len(names) - 1}{named}")
    if not sheet.header:
        way = f"give its number, 0 to {len(names) - 1}, or say {setting('header', True)}"
        raise DataError(f"{place}, a name, but line {sheet.lines[0]} is read as data, not a header: {way}")
    close = get_close_matches(target.lower(), [name.lower() for name in names], 1, 0.7)
    like = [name for name in names if name.lower() in close]
    hint = f"; did you mean {like[0]!r}?" if like else ""
    raise DataError(f"{place}, which is not in the header: {listed}{hint}{sheet.hint(sheet.header)}")


def _check(sheet: Sheet, used: Sequence[int], index: int, encodes: set[int], drops_rows: bool) -> None:
    """Raise DataError, with every problem, for columns that cannot be used."""
    columns = {i: sheet.columns[i] for i in used}
    strays = {i: one.strays for i, one in columns.items() if one.strays.any()}
    empty = {i: one.missing for i, one in columns.items() if one.missing.all()}
    lacking = {i: one.missing for i, one in columns.items() if one.missing.any() and i not in empty}
    texts = {i: ~one.missing for i, one in columns.items() if one.numbers is None}
    texts = {i: mask for i, mask in texts.items() if i not in empty and i not in encodes}
    goal = {index: texts.pop(index)} if index in texts else {}
    units = "".join(f", with {unit}" for unit in sorted({columns[i].unit for i in strays} - {""}))
    no_number = "is not a number, such as -1.5 or 2e-3, that fits into float32"
    one_hot = f"{setting('text_columns', 'one_hot')} replaces each by a column of 0 and 1 for each value"
    drop = f"{setting('text_columns', 'drop')} or {_without(sheet, texts)} leaves such columns out"
    drop_rows = f"{setting('missing', 'drop_rows')} leaves out the rows that lack one"
    complaints = (
        (strays, f"{no_number}, as others of this column are{units}", _of_strays(sheet, strays)),
        (goal, f"{no_number}, but the target", _LABELS),
        (texts, f"{no_number}, but a text", f"{one_hot}; {drop}"),
        (empty, "is missing, as all values are", f"{_without(sheet, empty)}, or name another target"),
        ({} if drops_rows else lacking, f"is missing; {_lacking([*columns.values()])}", drop_rows),
    )
    said = [_complaint(sheet, *each) for each in complaints if each[0]]
    if said:
        raise DataError("; and ".join(said))


def _complaint(sheet: Sheet, masks: Mapping[int, np.ndarray], what: str, way: str) -> str:
    """Error text for the first wrong cell in some columns."""
    row, i = min((int(mask.argmax()), i) for i, mask in masks.items())
    others = _named([sheet.columns[other] for other in masks if other != i])
    too = f" (as in {others})" if others else ""
    place = f"{sheet.file}, line {sheet.lines[row]}, column {sheet.columns[i].name!r}"
    return f"{place}: {shortened(sheet.columns[i].cells[row])} {what}{too}: {way}"


def _of_strays(sheet: Sheet, strays: Mapping[int, np.ndarray]) -> str:
    """Suggestion for cells that are not numbers in columns of numbers."""
    if not strays:
        return ""
    rows = np.flatnonzero(np.any([*strays.values()], axis=0)).tolist()
    cells = [sheet.columns[i].cells[row] for row in rows for i in strays if strays[i][row]]
    way = f"correct line {_some([sheet.lines[row] for row in rows])}"
    if shown := [cell for cell in dict.fromkeys(cells) if cell.isprintable()][:5]:
        missing = f"{setting('na_values', shown)} {setting('missing', 'drop_rows')}"
        way += f", or take it for missing: {missing}"
    if not sheet.header and not rows[0]:
        return f"if this is the header, say {setting('header', True)}; else {way}"
    if comment := re.match(r"[-+.0-9]\S*\s*([#%!;])\s*\w", cells[0]):
        return f"if a comment begins in it, say {setting('comment', comment[1])}; else {way}"
    return way


def _without(sheet: Sheet, columns: Iterable[int]) -> str:
    """The setting that leaves out some columns."""
    names, times = sheet.names, Counter(sheet.names)
    return setting("drop", [names[i] if names[i] and times[names[i]] == 1 else i for i in columns])


def _some(words: Sequence[object]) -> str:
    return ", ".join(map(str, words[:5])) + (f" and {len(words) - 5:,} more" if len(words) > 5 else "")


def _named(columns: Sequence[Column]) -> str:
    return _some([*dict.fromkeys(repr(one.name) if one.name else "one without a name" for one in columns)])


def _lacking(columns: Sequence[Column]) -> str:
    lacking = sorted((one for one in columns if one.missing.any()), key=lambda one: -one.missing.sum())
    return f"values are missing: {_some([f'{one.missing.sum()} in {one.name!r}' for one in lacking])}"


def _source(sheet: Sheet, column: Column, kept: np.ndarray, most: int, has_classes: bool = False) -> _Source:
    """The kept rows of a column: its numbers, or for texts and classes the indices of their values."""
    if column.numbers is not None and not has_classes:
        return _Source(column.name, column.numbers[kept])
    from pandas import factorize  # which takes 0.3 s

    is_text = column.numbers is None
    cells = (column.cells if is_text else column.numbers)[kept]  # type: ignore[index]
    numbers, found = factorize(cells, sort=True)
    values = list(found) if is_text else [f"{one + 0.0:.17g}" for one in found]
    for one, value in zip(found, values, strict=True):
        if (CONTROL.search(one) or len(one) > LONGEST_VALUE) if is_text else (one % 1 or abs(one) >= 2**53):
            line = sheet.lines[kept[np.argmax(cells == one)]]
            what = (
                f"must be a whole number below 2^53, or a printable text of {LONGEST_VALUE} letters at most"
            )
            shown = shortened(value) if is_text else value if one % 1 == 0 else repr(float(one))
            raise sheet.error(line, f"{shown} {what}; {_NUMBERS}", column.name)
    if len(values) > most:
        way = (
            f"with cross_entropy; {_NUMBERS}"
            if has_classes
            else f"group them, or leave the column out: {setting('drop', [column.name])}"
        )
        what = f"{len(values)} different values, and at most {most} are encoded: {way}"
        raise DataError(f"{sheet.file}, column {column.name!r}: {what}")
    return _Source(column.name, numbers.astype(float), values)


def _assembled(
    file: Path, features: list[_Source], target: _Source, order: np.ndarray, training: int, standardise: bool
) -> tuple[np.ndarray, dict[str, Any], list[dict[str, Any]]]:
    """The table, its facts and its columns. Raises DataError for a z beyond float32, and for a constant
    target."""
    blocks, moments, facts = list[np.ndarray](), list[tuple[float, float]](), dict[str, Any]()
    columns = list[dict[str, Any]]()
    for source in (*features, target):
        column = source.numbers[order]
        mean, scale = 0.0, 1.0
        place = f"{file}, column {source.name!r}"
        if source.values and source is not target:
            column = column[:, None] == np.arange(len(source.values))
        elif standardise and not source.values:
            mean, scale = _moments(column[:training])
            moments.append((mean, scale))
            z = (column - mean) / scale if scale else np.zeros_like(column)
            if (far := np.abs(z) > np.finfo(np.float32).max).any():
                what = f"{column[far.argmax()]:g} is too far from the rows that are trained on"
                raise DataError(f"{place}: {what}, with mean {mean:g} and standard deviation {scale:g}")
            column = z
        how = {"values": list(source.values)} if source.values else {"mean": mean, "scale": scale}
        columns.append({"name": source.name, **how})
        blocks.append(column.astype(np.float32))
    if standardise:
        facts["standardised_sha256"] = hashlib.sha256(np.array(moments, "<f8").tobytes()).hexdigest()
    constant = target.values[0] if standardise and len(target.values) == 1 else ""
    if standardise and not target.values:
        facts |= {"target_mean": mean, "target_scale": scale}
        constant = "" if scale else f"{mean:g}"
    if constant:
        what = f"the target is {constant} in each of the {training} rows that are trained on"
        raise DataError(f"{place}: {what}: there is nothing to predict")
    if encoded := [one.name for one in features if one.values]:
        facts["one_hot_columns"] = encoded
    if target.values:
        facts["classes"] = list(target.values)
    if target.values and training < len(order):
        commonest = np.bincount(column[:training].astype(np.intp)).argmax()
        facts["majority_accuracy"] = float(np.mean(column[training:] == commonest))
    return np.column_stack(blocks), facts, columns


def _moments(column: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation sqrt(sum((x - m)^2) / n), which is 0 only for a constant column.

    Deviations are divided by the largest before they are squared, so that no square is infinite or 0.
    """
    if column.min() == column.max():
        return float(column[0]), 0.0
    mean = float(np.mean(column))
    largest = float(np.abs(column - mean).max())
    return mean, largest * float(np.sqrt(np.mean(np.square((column - mean) / largest))))


def _remarks(
    sheet: Sheet, given: str | int, target: _Source, features: list[_Source], facts: Any, task: str | None
) -> list[str]:
    """Remarks on data that are valid, but that the user may not have meant."""
    (found, count), rows = np.unique(target.numbers, return_counts=True), len(target.numbers)
    may_be_classes = task is None and 2 <= len(found) <= min(_FEW_CLASSES, rows // 2) and found[0] in (0, 1)
    may_be_classes = may_be_classes and np.array_equal(found, np.arange(len(found)) + found[0])
    alone = int((count == 1).sum()) if target.values else 0
    words = sorted(MISSING.intersection(target.values))
    numbers = [one.numbers for one in (*features, target) if not one.values]
    has_totals = numbers and all(one[-1] and np.isclose(one[:-1].sum(), one[-1]) for one in numbers)
    gone, names = facts.get("left_out_rows", 0), facts.get("left_out_columns", [])
    lacking = _lacking([one for one in sheet.columns if one.name not in names])
    units = [f"{one.unit} in {one.name!r}" for one in sheet.columns if one.unit]
    encoded = [f"{one.name!r} ({len(one.values)} values)" for one in features if one.values]
    doubts = {one.name: what for one in features if (what := _doubtful(one, target.numbers))}
    doubtful = _some([f"{name!r} {what}" for name, what in doubts.items()])
    leaving_out = _without(sheet, map(sheet.names.index, doubts))
    goal = repr(target.name)
    whole = f"the target {goal} holds the whole numbers {found[0]:.0f} to {found[-1]:.0f}, and is predicted"
    said = {
        f"read as: {sheet.found}": sheet.found,
        f"the target, given as {given}, is the column {goal}": sheet.header and isinstance(given, int),
        f"{whole} as a number; {_CLASSES}": may_be_classes,
        f"{alone:,} of {rows:,} rows are the only one of their class of {goal}": 2 * alone > rows,
        f"{_some(words)} are classes of {goal}; {setting('na_values', words)} makes them missing": words,
        f"numbers are read without their signs: {_some(units)}": units,
        f"texts are replaced by columns of 0 and 1: {_some(encoded)}": encoded,
        "the last row is the sum of the others: remove it if it is a row of totals": rows > 3 and has_totals,
        f"left out: {gone:,} of {len(sheet.lines):,} rows, which lack a value; {lacking}": gone,
        f"left out: column{'s' * (len(names) > 1)} {_some(list(map(repr, names)))}": names,
        f"{doubtful}: is that meant to be a feature? {leaving_out} leaves it out": doubts,
    }
    return [what for what, is_so in said.items() if is_so]


def _doubtful(feature: _Source, target: np.ndarray) -> str | None:
    """A remark on an odd feature, or None."""
    numbers, rows = feature.numbers, len(feature.numbers)
    if rows > 1 and np.array_equal(numbers, target):
        return "equals the target"
    if rows > 1 and numbers.min() == numbers.max():
        return "is the same in all rows"
    is_whole = not feature.values and rows >= _FEW_ROWS and not (numbers % 1).any()
    counts_rows = is_whole and numbers.max() - numbers.min() == rows - 1 == len(np.unique(numbers)) - 1
    return "numbers the rows" if counts_rows else None


def _rounded(sheet: Sheet, sources: Sequence[_Source], kept: np.ndarray) -> list[str]:
    """A remark on whole numbers that float32 rounds; decimals are rounded anyway."""
    said = []
    for one in sources:
        x = one.numbers
        wrong = (np.abs(x) > 2**24) & (np.abs(x) < 1e21) & (x % 1 == 0) & (x != x.astype(np.float32))
        if not one.values and wrong.any():
            value, line = x[wrong.argmax()], sheet.lines[kept[wrong.argmax()]]
            said.append(f"{one.name!r}, where {value:.0f} (line {line}) becomes {np.float32(value):.0f}")
    way = "if the last digits matter, subtract a constant"
    return [f"float32 rounds whole numbers in {len(said)} column(s): {_some(said)}; {way}"] if said else []
