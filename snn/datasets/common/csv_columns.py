"""The columns of a CSV file: detects how the file is written, and reads each as numbers or as texts."""

import csv
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice
from pathlib import Path

import numpy as np

from snn.datasets.common.file_types import check_is_text
from snn.errors import DataError

MISSING = frozenset("NA na N/A n/a #N/A <NA> NaN nan NAN None NONE null NULL ?".split()) | {""}  # noqa: SIM905
"""Cells without a value, with those of ``dataset.na_values``."""
BLANKS = r"\s+"
"""The delimiter, as pandas has it, of columns with any number of blanks between them."""
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
"""Digits with a zero before them, as in a code."""
_Rows = list[tuple[int, list[str]]]


@dataclass
class Column:
    """A column of ``cells``, as float64 ``numbers`` (NaN if a cell has none); None for a text.

    ``missing`` and ``strays`` (rows,) tell which have no value, and which no number with the ``unit``, as %.
    """

    name: str
    cells: np.ndarray
    numbers: np.ndarray | None
    missing: np.ndarray
    strays: np.ndarray
    unit: str = ""

    def share_of_strays(self) -> float:
        """Of its values; 1 for a text."""
        return 1.0 if self.numbers is None else np.sum(self.strays) / max(1, np.sum(~self.missing))


def setting(key: str, value: object) -> str:
    """A setting of ``dataset=csv`` to paste on a command line, quoted for Hydra and for a shell."""
    is_word = isinstance(value, str) and re.fullmatch(r"[a-z]+[0-9_-]\w*|drop", value)
    return shlex.quote(f"dataset.{key}={value if is_word else _quoted(value)}")


def _quoted(value: object) -> str:
    """A value as both Hydra and YAML read it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    if isinstance(value, str) and re.fullmatch(r"(\\?[^\\'])+", value) and "\\" in value:
        return f"'{value}'"  # a backslash as it is, for example of \N; that is an escape in double quotes
    return json.dumps(value, ensure_ascii=False)


def shortened(text: str) -> str:
    """A cell as a message shows it."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


class Sheet:
    """The ``columns`` of a file, the ``lines`` of its rows and ``header``, and in words what was ``found``.

    ``encoding`` is one that was detected. Of the keys of ``dataset=csv``, None is detected. Raises DataError,
    with a line and a setting, for a file that is not a table, or that may be read in two ways.
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
    ) -> None:
        if decimal and decimal == thousands:
            raise DataError(f"{file}: dataset.decimal and dataset.thousands are both {decimal!r}")
        self.file, self._given, self._na, self._thousands = file, delimiter, na_values, thousands
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
        """What may be wrong with how the numbers in the first rows are read."""
        named = zip(self.columns, _below([cells for _, cells in body], self._width), strict=False)
        sampled = [(cell, one.name) for one, cells in named if one.numbers is not None for cell in cells]
        points = [cell for cell, _ in sampled if "." in cell and _is_number(cell.strip())]
        if self._decimal != "," and points and not any(map(_POINT.search, points)):
            yield f"decimal points (if they are between thousands, say {setting('thousands', '.')})"
        if code := next((f"{cell!r} in {name!r}" for cell, name in sampled if _CODE.fullmatch(cell)), None):
            yield f"numbers without the zeros before them, such as {code}"

    def error(self, line: int, what: str, column: str | None = None) -> DataError:
        """What is wrong in a line, or in the cell of a column."""
        place = f"{self.file}, line {line}"
        return DataError(f"{place}: {what}" if column is None else f"{place}, column {column!r}: {what}")

    def hint(self, line: int, cells: Sequence[str] = ("",)) -> str:
        """Which setting may help if a row has too few or too many cells, or the header lacks the target."""
        if self._likely_header > line:
            way = setting("header", self._likely_header)
            return f"; if the header is in line {self._likely_header}, say {way}"
        if self._given:
            return f"; {setting('delimiter', None)} detects the delimiter"
        mark = cells[0][:1]
        is_comment = mark.strip() and mark.isprintable() and not mark.isalnum() and mark not in "+-."
        return f"; if this is a comment, say {setting('comment', mark)}" if is_comment else ""

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """The line in which each row begins, from 1, and its cells, without blank rows."""
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
        """The names in the header, none if there is none, and at which of the first rows data begin."""
        if not sample:
            raise DataError(
                f"{self.file}: there are no rows of data from line {named or 1} (dataset.header) on"
            )
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
            raise DataError(f"{self.file}: there are no rows of data")
        return (names, at + 1) if is_header else ([], at)

    def _first(self, sample: _Rows, target: str | int) -> int:
        """Which row is the first of the table: after comments and lines of few cells."""
        line, width = sample[0][0], _width([cells for _, cells in sample])[0]
        self._width = width
        if width > MOST_COLUMNS:
            what = f"{width:,} columns, more than the {MOST_COLUMNS:,} that a table may have"
            raise self.error(line, f"{what}: remove columns, or give rows and columns the other way round")
        if width < 2:
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
        """Read the columns at once, if each cell is a number without quotes, units and such."""
        self.lines = [line for line, row in enumerate(self._text[start - 1 :], start) if row.strip()]
        rows = [self._text[line - 1] for line in self.lines]
        decimal = self._decimal or "."
        if self._mark != "," and self._decimal != "." and not any("." in row for row in rows):
            if self._decimal or any(re.search(r",(?![0-9]{3}(?![0-9]))", row) for row in rows):
                decimal, rows = ",", [row.replace(",", ".") for row in rows]
        elif decimal == ",":
            return False
        if not all(row.isascii() and row.replace("\t", "").isprintable() for row in rows):
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
        """Read the columns as texts."""
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
            raise DataError(f"{self.file}: there are no rows of data")
        for name, column in zip(self.names, zip(*table, strict=True), strict=True):
            texts = np.array([cell.strip(" \t") for cell in column], object)
            missing = np.array([cell in na for cell in texts])
            self.columns.append(Column(name, texts, None, missing, np.zeros(len(texts), bool)))

    def _decimal_mark(self) -> str:
        """The decimal mark that more of the cells in columns of numbers need."""
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
        """Make a column one of numbers if half of its values are. The marks between thousands in these."""
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
    """A number with this decimal mark, perhaps with marks between thousands, and the sign of a unit."""
    between = re.escape(thousands or _OTHER[decimal] + "'’" + _SPACES)
    return re.compile(
        rf"(?P<minus>[+-])?((?P<before>[{_UNITS}])[{_SPACES}]?)?(?(minus)|[+-]?)(?=[.,]?[0-9])"
        rf"([1-9][0-9]{{0,2}}(?P<mark>[{between}])[0-9]{{3}}((?P=mark)[0-9]{{3}})*|[0-9]*)"
        rf"([{decimal}][0-9]*)?(?(mark)|([eE][+-]?[0-9]+)?)(?(before)|([{_SPACES}]?(?P<after>[{_UNITS}]))?)"
    )


def _is_number(cell: str) -> bool:
    return bool(_number(".").fullmatch(cell) or _number(",").fullmatch(cell))


def _names(first: Sequence[str], body: Sequence[Sequence[str]]) -> bool | None:
    """Whether a row has the names of the columns below it; None if it may as well be data.

    It has if it holds texts above numbers, and no numbers there but whole ones, such as years.
    """
    below = _below(body, len(first))
    over = [cell.strip() for cell, column in zip(first, below, strict=False) if _are_numbers(column)]
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


def _are_numbers(cells: Sequence[str]) -> bool:
    present = [cell.strip() for cell in cells if cell.strip() not in MISSING]
    return bool(present) and 2 * sum(map(_is_number, present)) >= len(present)


def detected(lines: Sequence[str]) -> str:
    """The delimiter of most lines, so that each cell is a number, or has no other delimiter in it.

    Of several, the one with the fewest texts; tabs before blanks, which may be between thousands.
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
    """How many cells most rows have, and how many rows these are; lines of one cell may be before a table."""
    counts = Counter(len(row) for row in rows if not row[0].lstrip().startswith(("#", "%"))) or Counter([1])
    return max(counts.items(), key=lambda each: (each[1] / (1 if each[0] > 1 else 4), each[0]))


def loose_rows(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """The cells of lines that are not blank, up to a line that cannot be read."""
    rows = list[list[str]]()
    if delimiter in (BLANKS, " "):
        lines, delimiter = list(map(_tabbed, lines)), "\t"
    with suppress(csv.Error):
        rows.extend(filter(None, csv.reader(lines, delimiter=delimiter)))
    return rows


def _tabbed(line: str) -> str:
    """A line with a tab where blanks are between columns."""
    return re.sub(r'("[^"]*"?)|\s+', lambda at: at[1] or "\t", line.strip())


def decoded(file: Path, content: bytes, given: str | None) -> tuple[list[str], str | None]:
    """The lines of a file, and its encoding if that is detected and is not UTF-8. Raises DataError, with the
    line, for a byte that is not of it.
    """
    if not given:
        check_is_text(file, content)
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
    """The text of a file that is not UTF-8, and its encoding, the likeliest first; cp850 has every byte."""
    from charset_normalizer import from_bytes  # which is large

    odd = b"\n".join(line for line in content.splitlines() if not line.isascii())[: 1 << 16]
    letters = re.sub(rb"[^A-Za-z\x80-\xff]", b"", odd)
    # of a few letters among many of ASCII it finds only whether they are Western or Central European
    is_latin = 2 * sum(byte > 127 for byte in letters) < len(letters) or len(letters) < 8
    others = ["cp1251", "cp1253", "koi8_r", "cp932", "gb18030", "big5", "euc_kr"]
    best = from_bytes(odd, cp_isolation=["cp1252", "cp1250", *([] if is_latin else others)]).best()
    found = [best.encoding] if best and str(best) != odd.decode("cp1252", "replace") else []
    for encoding in [*found, "cp1252", "cp850"]:
        with suppress(UnicodeError):
            yield content.decode(encoding), encoding
