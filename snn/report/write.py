"""A table as two files: CSV for programs, and a self-contained HTML page for readers and the report.

The page templates are in this folder. A page can be sorted by column, and colours the words of verdicts.
"""

import io
import math
import numbers
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from snn.analysis.grouping import is_empty
from snn.config.groups import read_yaml
from snn.errors import OutputError, RecordError
from snn.files import regular, sealed
from snn.tables.columns import describe

FACTS = {
    "device": "Measured on {}",
    "backend": "Backend: {}",
    "driver": "Driver {}",
    "cuda_runtime": "CUDA runtime {}",
    "cupy": "CuPy {}",
    "numpy": "NumPy {}",
    "torch": "PyTorch {}",
    "jax": "JAX {}",
    "python": "Python {}",
    "system": "{}",
    "cpus": "{} CPUs",
    "device_uuid": "UUID {}",
    "data": "Trained on {}",
    "commit": "Commit {}",
    "dirty": "Dirty working tree: {}",
    "paper_device": "The paper's device: {}",
}
"""Columns that become a sentence above the table if their value is the same in every row."""

_WORDS = Path(__file__).with_name("words.yaml")
_WORD_COLUMNS = (
    *("verdict", "lead_verdict", "against_fastest", "on_all", "agreement", "convergence", "prediction"),
    *("verdict_over_sequential", "verdict_over_fastest_cpu", "machine", "status"),
)
"""The columns that hold such words, separated by commas."""

MOST_ROWS = 500
"""Rows that a page shows at once: a browser lays out ten thousand of them in some ten seconds."""

_LONG = 45
"""Texts with more characters than this are wrapped."""

_MOST_BYTES = 64 << 20


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Check that a folder can be written before the context starts, and report errors of writing in it.

    Raises OutputError, naming the folder, if it is something else or not writable, or the disk is full.
    """
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if not there.is_dir():
            raise OutputError(
                f"{folder}: cannot be written: {there} is not a folder: give a folder, or a new name"
            )
        if not os.access(there, os.W_OK | os.X_OK):
            raise OutputError(f"{folder}: cannot be written: {there} is read-only: give another folder")
        yield
    except BrokenPipeError:  # from printing inside the context
        raise
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written: {error.strerror or error}") from error


def read(path: Path, name: str, columns: Iterable[str] = (), **options: Any) -> pd.DataFrame:
    """The table of this name in a CSV file that anyone may have made, with these columns at least.

    ``options`` are passed to ``pandas.read_csv``. Raises RecordError, naming the file, if it is not a table
    or another one.
    """
    content = regular.read(path, RecordError, _MOST_BYTES)
    try:
        table = pd.read_csv(io.BytesIO(content), **options)
    except ValueError as error:
        raise RecordError(f"{path}: not a table: {error}") from error
    for column in columns:
        if column not in table:
            raise RecordError(f"{path}: it has no column {column}: it must be the table {name}")
    return table


def write(table: pd.DataFrame, csv: str, path: str, title: str) -> None:
    """Write both files; numbers are rounded in the page, not in the CSV."""
    write_page(table, csv, path, to_html(table, title, name=Path(csv).stem))


def write_page(table: pd.DataFrame, csv: str, path: str, page: str) -> None:
    """Write a table as CSV, and a page of it."""
    sealed.write(Path(path), page.encode(), {Path(csv): table.to_csv(index=False).encode()})


@cache
def glossary() -> dict[str, tuple[str, str]]:
    """The tone and the meaning of each verdict, machine state and status, from words.yaml."""
    return {word: next(iter(of_word.items())) for word, of_word in read_yaml(_WORDS).items()}


def badges(words: str) -> Markup:
    """Words separated by commas, each coloured by its tone; the text alone carries the meaning."""
    badge = Markup('<span class="word {}">{}</span>')
    tones = {word: glossary().get(word, ("none", ""))[0] for word in words.split(", ")}
    shown = (word if tone == "none" else badge.format(tone, word) for word, tone in tones.items())
    return Markup(", ").join(shown)


@cache
def template(name: str, **known: Any) -> Any:
    """A template of this folder with these names defined; values are escaped, unless they are markup."""
    import jinja2  # which only a page waits for

    pages = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=jinja2.select_autoescape(["html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["badges"] = badges
    return pages.get_template(name, globals={"is_empty": is_empty, **known})


def to_html(table: pd.DataFrame, title: str, before: str = "", name: str = "") -> str:
    """A page: title, ``before`` (HTML) or else the facts common to all rows, the table, its words.

    ``name`` is the table's name, by which its columns are described at the end. Rows after the first
    ``MOST_ROWS`` follow the table as text; the page's script sorts them, too, and shows them page by page.
    """
    constant = [name for name in FACTS if name in table and table[name].nunique() <= 1]
    known = [name for name in constant if len(table) and table[name].notna().all()]
    shown = table.drop(columns=constant)
    columns = [(column, _classes(column, shown[column])) for column in shown]
    words = {
        word
        for column in shown
        if _holds_words(column)
        for text in shown[column].dropna()
        for word in text.split(", ")
    }
    return template("table.html").render(
        title=title,
        before=before,
        facts=[FACTS[name].format(table[name].iloc[0]) for name in known],
        headings=[(heading(column), classes) for column, classes in columns],
        rows=[
            [_cell(column, value, classes) for (column, classes), value in zip(columns, row, strict=True)]
            for row in shown.itertuples(index=False, name=None)
        ],
        most=MOST_ROWS,
        has_paper=any(column.startswith("paper_") for column in shown),
        has_published=any(column.startswith("published_") for column in shown),
        words={word: meaning for word, (_, meaning) in glossary().items() if word in words and meaning},
        described={heading(column): text for column in shown if name and (text := describe(name, column))},
    )


def heading(name: str) -> str:
    """A column's header: ``paper_reference_s`` is "paper reference (s)".

    A column of one device has its name after a space, which stays as it is.
    """
    column, _, device = name.partition(" ")
    if device:
        return f"{heading(column)} {device}"
    for suffix, unit in (("_us", " (µs)"), ("_s", " (s)")):
        if name.endswith(suffix):
            return heading(name.removesuffix(suffix)) + unit
    return name.replace("_ci_", "_95%_CI_").replace("_", " ")


def _holds_words(name: str) -> bool:
    return name.partition(" ")[0] in _WORD_COLUMNS


def _classes(name: str, values: pd.Series) -> list[str]:
    classes = ["paper"] if name.startswith(("paper_", "published_")) else []
    if not pd.api.types.is_numeric_dtype(values):
        classes.append("text")
        if any(len(value) > _LONG and " " in value for value in map(str, values)):
            classes.append("long")
    return classes


def _cell(name: str, value: object, classes: list[str]) -> tuple[str, str, str]:
    """The classes of a cell, the number that it is sorted by, if it is one, and what it shows."""
    if is_empty(value):
        return " ".join([*classes, "empty"]), "", "–"
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
        exact = int(value) if isinstance(value, numbers.Integral) else float(value)
        # Four significant digits; eight of errors, which are meant to agree in as many.
        form = "," if isinstance(exact, int) else ".8g" if name.endswith("_mse") else ".4g"
        return " ".join(classes), repr(exact), f"{exact:{form}}"
    return " ".join(classes), "", badges(str(value)) if _holds_words(name) else str(value)
