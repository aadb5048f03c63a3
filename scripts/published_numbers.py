"""Write the numbers of published tables into README and docs/.

A comment names the rows and columns behind the numbers above it, or in its row of a table:

    <!-- from DEVICE/SET/TABLE: key=value,value column column; DEVICE/SET/TABLE: ... -->

Numbers are written as ``2.06 (95% CI 1.84 to 2.29)``, ``8.49 ± 0.13 s``, ``about 12.1 µs``, ``0.16 µs`` (or
with another unit, such as ``%``) or ``[1.66]``, in the order of the text. A column ``faster``, ``slower`` or
``not~significant`` has no number: it states what the text says about the rows.

After new results are published, this rewrites the numbers, each in the same form, with ``not significant`` if
its interval contains 1, and ``untouched`` if the row's verdict is. The words around them stay:
tests/test_prose.py finds words that contradict the rows, and numbers without a comment.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import click  # noqa: E402

from snn import command  # noqa: E402
from snn.arguments import Command, main_of  # noqa: E402
from snn.errors import ConfigError, SnnError  # noqa: E402
from snn.files import outputs  # noqa: E402
from snn.files.published_sets import PUBLISHED  # noqa: E402
from snn.report.write import read  # noqa: E402

PAGES = [
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if not {"_generated", "_build"} & set(page.parts)
    ),
]

Row = Mapping[str, str]

UNITS = {"s": 1.0, "ms": 1e3, "µs": 1e6}
VERDICTS = ("faster", "slower", "not significant")
_NUMBER = r"\d+(?:\.\d+)?"
VALUE = re.compile(
    rf"(?P<mean>{_NUMBER})(?P<of>(?:\s+times|\s+µs)?)\s+\((?P<word>(?:not\s+significant|untouched),\s+)?(?P<ci>(?:95%\s+CI\s+)?)"
    rf"(?P<low>{_NUMBER})\s+to\s+(?P<high>{_NUMBER})\)"
    rf"|(?P<time>{_NUMBER})\s+±\s+(?P<spread>{_NUMBER})\s+(?P<unit>s|ms|µs)\b"
    rf"|about\s+(?P<about>{_NUMBER})\s+(?P<about_unit>s|ms|µs)\b"
    rf"|about\s+(?P<share>{_NUMBER})%"
    rf"|(?<![\w.,-])(?!95%\s+(?:CI|confidence|coverage|interval))(?P<exact>{_NUMBER})"
    r"(?:\s*(?P<percent>%)|[\s-]+(?P<exact_unit>(?:seconds|minutes|hours|cycles|times|s|ms|µs|ns)\b))"
    rf"|\[(?P<bracketed>{_NUMBER})\](?!\()"
)
COMMENT = re.compile(r"<!--\s+from\s+(.*?)\s+-->", re.DOTALL)
_MOST_DIGITS = 9
_CODE = re.compile(r"^ {4}.*$", re.MULTILINE)
BETWEEN = re.compile(r"(\n\s*\n|\n(?=\||\d\. |- ))")  # paragraphs, list items and rows of tables


@cache
def table(name: str) -> list[dict[str, str]]:
    """The rows of a published table, DEVICE/SET/TABLE or ``cards``. Raises RecordError if there is none."""
    folder, _, file = name.rpartition("/")
    path = PUBLISHED / folder / ("tables" if folder else "") / f"{file}.csv"
    return read(path, file, dtype=str, keep_default_na=False).to_dict("records")


def named(comment: str) -> Iterator[tuple[Row, str]]:
    """The rows and columns that a comment names, in the order of the text: one for each number or verdict.

    Raises ConfigError if a selection has no row, or more than one.
    """
    for part in comment.split(";"):
        name, _, rest = part.partition(":")
        words = rest.replace(":", " ").split()
        keys = [word.partition("=")[::2] for word in words if "=" in word]
        columns = [word.replace("~", " ") for word in words if "=" not in word]
        if not columns:
            raise ConfigError(f"'<!-- from {comment} -->' names no column in {part.strip()!r}")
        values = [[(key, value.replace("~", " ")) for value in several.split(",")] for key, several in keys]
        for chosen in product(*values):
            row = _row(name.strip(), dict(chosen))
            yield from ((row, column) for column in columns)


def _row(name: str, chosen: Mapping[str, str]) -> Row:
    rows = [row for row in table(name) if all(row.get(key) == value for key, value in chosen.items())]
    if len(rows) != 1:
        raise ConfigError(f"{name} has {len(rows)} rows with {dict(chosen)}: a number must be of one")
    return rows[0]


def blocks(text: str) -> Iterator[tuple[str, list[tuple[Row, str]]]]:
    """Paragraphs, list items and rows of tables in one line each, with the rows and columns they name."""
    for block in BETWEEN.split(_CODE.sub("", text))[::2]:
        line = " ".join(block.split())
        yield COMMENT.sub("", line), [pair for comment in COMMENT.findall(line) for pair in named(comment)]


def interval(row: Row, column: str) -> tuple[float, float]:
    """The ends of the 95% interval of a column."""
    low, high = (
        float(row[f"step_ci_{end}_us" if column == "step_us" else f"{column}_ci_{end}"])
        for end in ("low", "high")
    )
    return low, high


def significant(row: Row, column: str) -> bool:
    """Whether a row's ratio is significant; True for a time, which compares nothing."""
    if column == "step_us":
        return True
    verdict = row.get("verdict") if "speedup" in column else None
    low, high = interval(row, column)
    return verdict != "not significant" if verdict else not low <= 1 <= high


def word_of(row: Row, column: str) -> str:
    """Word before the interval of a ratio: ``untouched``, ``not significant`` or nothing."""
    if column == "slowdown" and row.get("verdict") == "untouched":
        return "untouched, "
    return "" if significant(row, column) else "not significant, "


def spread_of(column: str) -> str:
    """The column of the standard deviation of a mean."""
    return "std_s" if column == "mean_s" else f"{column.removesuffix('_s')}_std_s"


def seconds_of(row: Row, column: str) -> float:
    """A time, or COLUMN/NUMBER of one."""
    name, _, divisor = column.partition("/")
    scale = UNITS["µs"] if name.endswith("_us") or row.get("unit") == "us" else 1
    return float(row[name]) / float(divisor or 1) / scale


def written(form: re.Match[str], row: Row, column: str) -> str:
    """A number of a row in the form that another had in its place."""
    if form["mean"]:
        value, (low, high) = float(row[column]), interval(row, column)
        mean, *ends = _told_apart(value, low, high, significant(row, column))
        return f"{mean}{form['of']} ({word_of(row, column)}{form['ci']}{' to '.join(ends)})"
    if form["time"]:
        unit = _unit(float(row[column]))
        value, spread = (UNITS[unit] * float(row[name]) for name in (column, spread_of(column)))
        digits = _digits(value)
        while digits < _MOST_DIGITS and 0 < spread < 10**-digits:
            digits += 1
        return f"{value:.{digits}f} ± {spread:.{digits}f} {unit}"
    if form["share"]:
        return f"about {100 * float(row[column]):.0f}%"
    if form["exact"] or form["bracketed"]:
        return form[0].replace(form["exact"] or form["bracketed"], _exact(form, row, column))
    exact = seconds_of(row, column)
    unit = _unit(exact)
    return f"about {UNITS[unit] * exact:.{_digits(UNITS[unit] * exact)}f} {unit}"


def _exact(form: re.Match[str], row: Row, column: str) -> str:
    """The number of a row with the unit and as many digits as that of the text."""
    unit = form["exact_unit"]
    digits = len((form["exact"] or form["bracketed"]).partition(".")[2])
    if unit in UNITS:
        return f"{UNITS[unit] * seconds_of(row, column):.{digits}f}"
    return f"{float(row[column]) * (100 if form['percent'] else 1):.{digits}f}"


def _unit(seconds: float) -> str:
    return next((unit for unit in ("s", "ms") if UNITS[unit] * seconds >= 1), "µs")


def _digits(value: float) -> int:
    """Decimals for three significant digits; two for values below one."""
    return 2 if value < 10 else 1 if value < 100 else 0


def _told_apart(value: float, low: float, high: float, is_beside_1: bool) -> list[str]:
    """A value and its interval in three digits, or more if needed to tell the ends apart, and from 1."""
    more = 0
    while True:
        texts = [f"{one:.{max(_digits(one), more)}f}" for one in (value, low, high)]
        apart = low == high or high - low >= 1.5 * 10 ** -max(_digits(value), more)
        if more == _MOST_DIGITS or (apart and not (is_beside_1 and 1 in map(float, texts))):
            return texts
        more = max(more, _digits(value)) + 1


def filled(text: str) -> str:
    """A page with its numbers rewritten. Raises ConfigError if their count differs from the comments'."""
    return "".join(block if i % 2 else _filled(block) for i, block in enumerate(BETWEEN.split(text)))


def _filled(block: str) -> str:
    comments = list(COMMENT.finditer(block))
    pairs = [
        (row, column)
        for comment in comments
        for row, column in named(" ".join(comment[1].split()))
        if column not in VERDICTS
    ]
    aside = [found.span() for found in (*comments, *_CODE.finditer(block))]
    said = [one for one in VALUE.finditer(block) if not any(a <= one.start() < b for a, b in aside)]
    if not comments:
        return block
    if len(said) != len(pairs):
        raise ConfigError(f"{len(said)} numbers, and {len(pairs)} in the comment:\n{block}")
    for one, (row, column) in reversed(list(zip(said, pairs, strict=True))):
        try:
            new = written(one, row, column)
        except (KeyError, ValueError, ZeroDivisionError) as error:
            why = f"its table has no column {error}" if isinstance(error, KeyError) else str(error)
            raise ConfigError(f"{one[0]!r} cannot be written from {column!r}: {why}:\n{block}") from error
        block = block[: one.start()] + _broken_as(one[0], new) + block[one.end() :]
    return block


def _broken_as(old: str, new: str) -> str:
    """A text with the white space of another between its words, as far as it goes."""
    gaps = [*re.findall(r"\s+", old), *[" "] * len(new)]
    first, *others = new.split()
    return first + "".join(gap + word for gap, word in zip(gaps, others, strict=False))


@click.command("published_numbers", cls=Command, help=__doc__)
def write_pages() -> None:
    before = {page: page.read_text(encoding="utf-8") for page in PAGES}
    after = {page: _filled_page(page, text) for page, text in before.items()}
    for page, text in after.items():
        if text != before[page]:
            with outputs.replaced(page) as file:
                file.write(text.encode())
            print(f"{page.relative_to(ROOT)}: rewritten")


main = main_of(write_pages)


def _filled_page(page: Path, text: str) -> str:
    try:
        return filled(text)
    except SnnError as error:
        raise ConfigError(f"{page}: {error}") from error


if __name__ == "__main__":
    sys.exit(command.run(main))
