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
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from snn.errors import DataError

MISSING = frozenset("NA na N/A n/a #N/A <NA> NaN nan NAN None NONE null NULL ?".split()) | {""}  # noqa: SIM905
"""Cells without a value, with those of ``dataset.na_values``."""
BLANKS = r"\s+"
"""The delimiter, as pandas has it, of columns with any number of blanks between them."""
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufeff]")
MOST_COLUMNS = 100_000

_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", BLANKS: "blanks"}
_BLOCK = 1 << 24
"""Characters that pandas is given at once."""
_SAMPLE = 1000
"""Rows from which the delimiter and the header are detected."""
_LARGEST = float(np.finfo(np.float32).max)
_UNITS, _SPACES = "%‰$¢£¤¥฿\u20a0-\u20cf", " \u00a0\u2009\u202f"
_OTHER = {",": ".", ".": ","}
_POINT = re.compile(r"(?<![0-9])0?\.|[0-9]{4}\.|\.(?![0-9]{3}(?![0-9]))")
"""A point that cannot be between thousands."""

_CODE = re.compile(r"\s*0[0-9]+\s*")
"""Digits with a zero before them, as in a code."""


@dataclass
class Column:
    """A column of ``cells``, as float64 ``numbers``, NaN where there is none; these are None for a text.

    ``missing`` and ``strays`` (rows,) tell which have no value, and which no number with the ``unit``, as %.
    """

    name: str
    cells: Sequence[str]
    numbers: np.ndarray | None
    missing: np.ndarray
    strays: np.ndarray
    unit: str = ""

    def values(self, most: int | None = None) -> list[str]:
        """Cells, among the first ``most``, that have a value."""
        return [cell for cell, lacks in zip(self.cells[:most], self.missing, strict=False) if not lacks]


_Read = tuple[list[int], list[Column], str, set[str]]
"""The lines of a table's rows, its columns, the decimal mark, and the marks between thousands."""


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
        self.file, self._given, self._na, self._thousands = file, delimiter, na_values, thousands
        self._text, self._repeated, self._likely_header, self._spread = lines, 0, 0, set[int]()
        if decimal and decimal == thousands:
            raise DataError(f"{file}: dataset.decimal and dataset.thousands are both {decimal!r}")
        if of_excel := re.fullmatch(r'"?sep=(.)"?\s*', self._text[0], re.IGNORECASE):
            self._text[0] = ""
        self._comment = re.compile(re.escape(comment) if comment else r"\s*[#%]")
        self._comments = self._cut(comment) if comment else 0
        mark = delimiter or (of_excel[1] if of_excel else detected(self._text))
        mark = BLANKS if mark == " " else mark
        if mark == BLANKS:
            self._text = [_tabbed(line) for line in self._text]
        self._mark = "\t" if mark == BLANKS else mark
        named = 0 if header is None or isinstance(header, bool) else header
        sample = [row for row in islice(self._rows(strict=False), _SAMPLE) if row[0] >= named]
        with_target = (line for line, cells in sample if target in [cell.strip() for cell in cells])
        self._likely_header = next(with_target, 0)
        if named and not sample:
            raise DataError(f"{file}: dataset.header is {header}, but no table begins in this line")
        self._width, at = self._layout(sample, target)
        line, first = sample[at]
        if named and line != named:
            raise self.error(line, f"the table begins here, but dataset.header is {header}")
        skipped = sum(not self._comment.match(cells[0]) for _, cells in sample[:at])
        self._comments += at - skipped
        names, below = [name.strip() for name in first], [cells for _, cells in sample[at + 1 :]]
        is_header = bool(header) if header is not None else target in names or _names(names, below)
        if is_header is None:
            both = f"{setting('header', True)} or {setting('header', False)}"
            raise self.error(line, f"it may be a header, or data ({', '.join(names[:12])}): say {both}")
        self.header = line if is_header else None
        self.names = names if is_header else [*map(str, range(self._width))]
        if bad := next(filter(CONTROL.search, self.names), None):
            raise self.error(line, f"the name {bad!r} in the header has a control character")
        start = line if not is_header else next((n for n, _ in sample[at + 1 :]), len(self._text) + 1)
        plain = None if na_values or thousands else self._plain(start, decimal)
        read = plain or self._typed(start, decimal, first if is_header else None)
        self.lines, self.columns, point, marks = read
        if not self.lines:
            raise DataError(f"{file}: there are no rows of data")
        numeric = (one.values() for one in self.columns if one.numbers is not None)
        cells = chain.from_iterable([self._text[start - 1 :]] if plain else numeric)
        points = (cell for cell in cells if "." in cell)
        in_doubt = point == "." and not decimal
        in_doubt = in_doubt and not any(map(_POINT.search, chain([next(points, "0.")], points)))
        del self._text
        codes = [
            f"{cell!r} in {one.name!r}"
            for one, column in zip(self.columns, _below(below, self._width), strict=False)
            if one.numbers is not None and (cell := next(filter(_CODE.fullmatch, column), None))
        ]
        self.columns = [one for one in self.columns if one.name or not one.missing.all()]
        self.names = [one.name for one in self.columns]
        spread = min(self._spread, default=0)
        skips = {
            "comment line": self._comments,
            "other line": skipped,
            "repeated header": self._repeated,
            "nameless empty column": self._width - len(self.columns),
        }
        found = {
            _MARKS.get(mark, repr(mark)): mark != "," and not delimiter,
            "decimal commas": point == "," and not decimal,
            f"decimal points (if they are between thousands, say {setting('thousands', '.')})": in_doubt,
            f"{' and '.join(map(repr, sorted(marks)))} between thousands": marks and not thousands,
            str(encoding): encoding,
            f"numbers without the zeros before them, such as {', '.join(codes[:5])}": codes,
            **{f"{n} {what}{'s' * (n > 1)} skipped": n for what, n in skips.items()},
            f"rows over several lines ({len(self._spread)}, the first in line {spread})": self._spread,
            f"header in line {line}": is_header and line > 1,
            f"no header, data from line {line}": not is_header and header is None,
        }
        self.found = ", ".join(what for what, is_so in found.items() if is_so)

    def error(self, line: int, what: str, column: str | None = None) -> DataError:
        """What is wrong in a line, or in the cell of a column."""
        place = f"{self.file}, line {line}"
        return DataError(f"{place}: {what}" if column is None else f"{place}, column {column!r}: {what}")

    def _cut(self, comment: str) -> int:
        """Cut comments off the lines. How many lines are nothing else."""
        bare, lines = re.compile(rf'(?:[^"{re.escape(comment)}]|"[^"]*"?)*'), self._text
        self._text = [bare.match(line)[0] if comment in line else line for line in lines]  # type: ignore[index]
        return sum(
            bool(line.strip()) > bool(cut.strip()) for line, cut in zip(lines, self._text, strict=True)
        )

    def _rows(self, strict: bool = True) -> Iterator[tuple[int, list[str]]]:
        """The line in which each row begins, from 1, and its cells, without blank rows."""
        text, line = (f"{line}\n" for line in self._text), 1
        reader = csv.reader(text, delimiter=self._mark, skipinitialspace=True, strict=strict)
        try:
            for cells in reader:
                if reader.line_num > line:
                    self._spread.add(line)
                if len(cells) > 1 or (cells and cells[0].strip()):
                    yield line, cells
                line = reader.line_num + 1
        except csv.Error as error:
            what = str(error).replace("\t", "a tab")
            raise self.error(line, f"not a line of a CSV file: {what}{self.hint(line)}") from error

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

    def _layout(self, sample: list[tuple[int, list[str]]], target: str | int) -> tuple[int, int]:
        """How many columns there are, and where the table begins: after comments and lines of few cells."""
        if not sample:
            raise DataError(f"{self.file}: there are no rows of data")
        line, (width, _) = sample[0][0], _width([cells for _, cells in sample])
        if width > MOST_COLUMNS:
            what = f"{width:,} columns, more than the {MOST_COLUMNS:,} that a table may have"
            raise self.error(line, f"{what}: remove columns, or give rows and columns the other way round")
        if width < 2:
            hint = self.hint(line) or f"; say what separates it: {setting('delimiter', ':')}"
            only = f"only one column ({shortened(self._text[line - 1])})"
            raise self.error(line, f"{only}, but a feature and a target are needed{hint}")
        for at, (line, cells) in enumerate(sample):
            body, is_comment = [row for _, row in sample[at + 1 : at + 99]], self._comment.match(cells[0])
            filled = [cell for cell in map(str.strip, cells) if cell]
            is_sparse = len(filled) < 2 < width or (2 * len(filled) <= width != len(cells))
            is_row = target in filled or (bool(filled) and all(map(_is_number, filled)))
            is_before = is_sparse and not is_row
            if is_comment and len(cells) == width:
                is_before = bool(body) and _names(body[0], body[1:]) is True
            if not is_before and len(cells) == width:
                return width, at
            if not is_before and not is_comment:
                raise self._unequal(line, cells, width)
        raise self.error(line, f"no line has {width} cells, as others have")

    def _unequal(self, line: int, cells: list[str], width: int) -> DataError:
        hint = self.hint(line, cells)
        if not hint and line == self._likely_header:
            hint = "; a header must name each column, also one of row names"
        return self.error(line, f"{len(cells)} columns, but other lines have {width}{hint}")

    def _plain(self, start: int, decimal: str | None) -> _Read | None:
        """The columns as pandas reads them, if each cell is a number without quotes, units and such."""
        import pandas as pd  # which takes 0.3 s

        lines = [line for line, row in enumerate(self._text[start - 1 :], start) if row.strip()]
        rows = [self._text[line - 1] for line in lines]
        if not rows or any(row.count(self._mark) != self._width - 1 for row in rows):
            return None
        if not decimal:
            is_comma = self._mark != "," and not any("." in row for row in rows)
            is_comma = is_comma and any(re.search(r",(?![0-9]{3}(?![0-9]))", row) for row in rows)
            decimal = "," if is_comma else "."
        how: dict[str, Any] = {"sep": self._mark, "decimal": decimal, "quoting": csv.QUOTE_NONE}
        values, step = np.empty((self._width, len(rows))), 1 + _BLOCK // (len(rows[0]) + 1)
        for at in range(0, len(rows), step):
            text = "\n".join(rows[at : at + step]).encode(errors="replace")
            text = re.sub(rb"([eE])\+(?=[0-9])", rb"\1", text)  # pandas does not read these exactly
            if text.translate(None, f"0123456789eE- \t\n{decimal}{self._mark}".encode()):
                return None
            try:
                frame = pd.read_csv(BytesIO(text), header=None, dtype=np.float64, na_filter=False, **how)
                values[:, at : at + step] = frame.to_numpy().T
            except ValueError:
                return None
        if decimal == self._mark or not np.abs(values).max() <= _LARGEST:
            return None
        none = np.zeros(len(lines), bool)
        named = zip(self.names, values, strict=True)
        return lines, [Column(name, (), column, none, none) for name, column in named], decimal, set()

    def _typed(self, start: int, decimal: str | None, header: Sequence[str] | None) -> _Read:
        """The columns as numbers, perhaps with strays, or as texts."""
        lines, rows, na = list[int](), list[list[str]](), MISSING.union(map(str, self._na))
        for line, cells in self._rows():
            if cells == header:
                self._repeated += line >= start
            elif line >= start and len(cells) == self._width:
                lines.append(line)
                rows.append(cells)
            elif line >= start and not self._comment.match(cells[0]):
                raise self._unequal(line, cells, self._width)
            else:
                self._comments += line >= start
        columns = []
        for name, column in zip(self.names, zip(*rows, strict=True), strict=False):
            cells = [cell.strip(" \t") for cell in column]
            missing = np.array([cell in na for cell in cells])
            columns.append(Column(name, cells, None, missing, np.zeros(len(cells), bool)))
        if self._thousands and self._thousands in _OTHER:
            decimal = _OTHER[self._thousands]
        decimal, marks = decimal or self._decimal(columns, lines), set[str]()
        for one in columns:
            marks |= self._to_numbers(one, decimal)
        return lines, columns, decimal, marks

    def _decimal(self, columns: Sequence[Column], lines: Sequence[int]) -> str:
        """The decimal mark that more of the cells in columns of numbers need."""
        need, doubt = {".": 0, ",": 0}, None
        if not any("," in cell for column in columns for cell in column.cells):
            return "."
        for column in columns:
            whole = any("," in cell for cell in column.cells)
            counts = Counter(column.values(None if whole else _SAMPLE))
            forms = {mark: _number(mark, self._thousands) for mark in need}
            reads = {cell: [mark for mark in need if forms[mark].fullmatch(cell)] for cell in counts}
            if 2 * sum(counts[cell] for cell in counts if reads[cell]) < counts.total():
                continue
            for cell, marks in reads.items():
                if len(marks) == 1:
                    need[marks[0]] += counts[cell]
                elif marks and "," in cell and not doubt:
                    doubt = lines[column.cells.index(cell)], shortened(cell), column.name
        if doubt and not any(need.values()):
            both = f"{setting('decimal', ',')} or {setting('thousands', ',')}"
            what = f"{doubt[1]} has a decimal comma, or one between thousands: say {both}"
            raise self.error(doubt[0], what, doubt[2])
        return "," if need[","] > need["."] else "."

    def _to_numbers(self, column: Column, decimal: str) -> set[str]:
        """Make a column one of numbers if half of its values are. The marks between thousands in these."""
        missing, marks = column.missing, set[str]()
        present = column.values()
        values = _floats(present) if decimal == "." or not any("." in cell for cell in present) else None
        if values is None:
            form, other = (_number(mark, self._thousands) for mark in (decimal, _OTHER[decimal]))
            counts, units = Counter(present), Counter[str]()
            found = {cell: match for cell in counts if (match := form.fullmatch(cell))}
            if 2 * sum(counts[cell] for cell in counts if cell in found or other.fullmatch(cell)) < len(
                present
            ):
                return marks
            unit_of = {cell: match["before"] or match["after"] or "" for cell, match in found.items()}
            for cell, unit in unit_of.items():
                units[unit] += counts[cell]
            column.unit = units.most_common(1)[0][0] if units else ""
            digits = re.compile(rf"[^0-9eE+\-{decimal}]")
            used = [cell for cell, unit in unit_of.items() if unit == column.unit]
            value = {cell: float(digits.sub("", cell).replace(",", ".")) for cell in used}
            marks = {found[cell]["mark"] for cell in used if found[cell]["mark"]}
            values = [value.get(cell, np.nan) for cell in present]
        numbers = np.full(len(missing), np.nan)
        numbers[~missing] = values
        numbers[~(np.abs(numbers) <= _LARGEST)] = np.nan
        column.strays = np.isnan(numbers) & ~missing
        column.missing = missing | np.isin(numbers, [one for one in self._na if not isinstance(one, str)])
        numbers[column.missing] = np.nan
        column.numbers = numbers
        return marks


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


def _floats(cells: Sequence[str]) -> list[float] | None:
    """The numbers of cells, if all are plain decimal numbers."""
    with suppress(ValueError):
        return None if re.search(r"[^0-9eE+\-. ]", "".join(cells)) else [float(cell) for cell in cells]
    return None


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
    """The delimiter of most lines, so that each cell is a number, or has no other delimiter in it."""
    some = list(islice((line for line in lines if line.strip() and line.lstrip()[0] not in "#%"), _SAMPLE))

    def score(mark: str) -> tuple[float, float]:
        rows = loose_rows(some, mark)
        width, count = _width(rows)
        cells = [cell.strip() for row in rows if len(row) == width > 1 for cell in row] or [",,"]
        numbers = sum(map(_is_number, cells))
        texts = sum(not _is_number(cell) and not re.search(r"[,;|\t]", cell) for cell in cells)
        return count * (numbers + texts) / len(cells), numbers / len(cells)

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
    if '"' not in line:
        return "\t".join(line.split())
    return re.sub(r'("[^"]*"?)|\s+', lambda at: at[1] or "\t", line.strip())


def decoded(file: Path, content: bytes, given: str | None) -> tuple[str, str]:
    """The text of a file, and its encoding. Raises DataError, with the line, for a byte that is not of it."""
    failed, way = dict[str, int](), f"{setting('encoding', None)} detects another"
    for encoding in (given,) if given else _encodings(content):
        try:
            text = content.decode(encoding)
            if not failed or not _is_damaged(content):
                return text.removeprefix("\ufeff"), encoding
            way = f"correct it, or say {setting('encoding', encoding)} if that is the encoding"
            break
        except UnicodeError as error:
            failed[encoding] = getattr(error, "start", 0)
            way = way if given else "correct it"
    code, at = next(iter(failed.items()))
    line = 1 + content[:at].count(b"\n")
    raise DataError(f"{file}, line {line}: the byte 0x{content[at]:02x} is not {code}; {way}")


def _is_damaged(content: bytes) -> bool:
    """Whether a text that is not UTF-8 is so in most of its letters beyond ASCII."""
    text = content.decode(errors="replace")
    return 2 * text.count("\ufffd") <= len(text) - len(text.encode("ascii", "ignore"))


def _encodings(content: bytes) -> Iterator[str]:
    """Encodings that a file may have, the likeliest first; the last can read every byte."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        yield "utf-16"
        return
    yield "utf-8"
    from charset_normalizer import from_bytes  # which is large

    odd = b"\n".join(line for line in content.splitlines() if not line.isascii())[: 1 << 16]
    letters = re.sub(rb"[^A-Za-z\x80-\xff]", b"", odd)
    # of a few letters among many of ASCII it finds only whether they are Western or Central European
    is_latin = 2 * sum(byte > 127 for byte in letters) < len(letters) or len(letters) < 8
    others = ["cp1251", "cp1253", "koi8_r", "cp932", "gb18030", "big5", "euc_kr"]
    best = from_bytes(odd, cp_isolation=["cp1252", "cp1250", *([] if is_latin else others)]).best()
    if best and str(best) != odd.decode("cp1252", "replace"):
        yield best.encoding
    yield from ("cp1252", "cp850")
