"""HTML pages of tables: self-contained, sortable by column, with verdict words coloured by their tone."""

import html
import math
import numbers
import re
from pathlib import Path

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.report.glossary import WORD_COLUMNS, WORDS, badge
from snn.tables.columns import describe

_HERE = Path(__file__).parent
_LONG = 45
"""Texts with more characters than this are wrapped."""

MOST_ROWS = 500
"""Rows that a page shows at once: a browser lays out ten thousand of them in some ten seconds."""


def badges() -> str:
    """The CSS rules for badges, which is all that a fragment of another page needs."""
    return (_HERE / "word.css").read_text(encoding="utf-8")


def document(title: str, body: str) -> str:
    """A whole HTML page that needs no other file."""
    css = (_HERE / "page.css").read_text(encoding="utf-8") + badges()
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{css}</style>\n"
        f'<main>\n<h1 id="title">{html.escape(title)}</h1>\n{body}\n</main>\n'
        f"<script>\n{script}</script>\n</html>\n"
    )


def sortable(table: pd.DataFrame) -> str:
    """The table in a scrolling frame; a column header is a button that sorts, a first cell heads its row.

    Of a long table the first ``MOST_ROWS`` rows are laid out; the others stand behind it as text, which the
    page's script sorts with them and shows as many at a time.
    """
    classes = {name: _classes(table, name) for name in table}
    head = "".join(
        f'<th scope="col"{_attribute("class", classes[name])}>'
        f'<button type="button">{html.escape(heading(name))}</button></th>'
        for name in table
    )
    rows = [
        "<tr>"
        + "".join(_cell(name, value, classes[name], not i) for i, (name, value) in enumerate(row.items()))
        + "</tr>"
        for row in table.to_dict("records")
    ]
    first = "\n".join(rows[:MOST_ROWS])
    return (
        '<div class="frame" role="region" aria-labelledby="title" tabindex="0">\n'
        '<table aria-labelledby="title">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{first}\n</tbody>\n</table>\n</div>{_others(rows)}"
    )


def _others(rows: list[str]) -> str:
    """The rows behind the first ones, as text that no browser parses before it is asked for them."""
    if len(rows) <= MOST_ROWS:
        return ""
    buttons = "".join(f'<button type="button">{name}</button>' for name in ("first", "back", "next", "last"))
    return (
        '\n<div class="pager" role="group" aria-label="Rows that are shown" hidden>'
        f"Rows <output>1 to {MOST_ROWS}</output> of {len(rows):,} {buttons}</div>\n"
        f"<noscript><p>The first {MOST_ROWS} of {len(rows):,} rows: this page needs JavaScript to show more. "
        "The CSV file of the same name has all of them.</p></noscript>\n"
        '<script type="text/plain" class="others">\n' + "\n".join(rows[MOST_ROWS:]) + "\n</script>"
    )


def legend(table: pd.DataFrame) -> str:
    """The meanings of the words that occur in this table."""
    words = {
        word
        for name in table
        if _holds_words(name)
        for cell in table[name].dropna()
        for word in cell.split(", ")
    }
    lines = "".join(
        f"<dt>{badge(word)}</dt><dd>{html.escape(meaning)}</dd>"
        for word, (_, meaning) in WORDS.items()
        if word in words and meaning
    )
    return f"<dl>{lines}</dl>" if lines else ""


def columns(table: pd.DataFrame, name: str) -> str:
    """What each column of the table of this name contains, folded; empty where it has no name."""
    described = {column: describe(name, column) for column in table if name}
    lines = "".join(
        f"<dt>{html.escape(heading(column))}</dt><dd>{_literals(text)}</dd>"
        for column, text in described.items()
        if text
    )
    if not lines:
        return ""
    return f"<details><summary>What the columns contain</summary>\n<dl>{lines}</dl></details>"


def _literals(text: str) -> str:
    """A description as HTML: what stands in backquotes is a name."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


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
    return name.partition(" ")[0] in WORD_COLUMNS


def _classes(table: pd.DataFrame, name: str) -> list[str]:
    classes = []
    if name.startswith(("paper_", "published_")):
        classes.append("paper")
    if not pd.api.types.is_numeric_dtype(table[name]):
        classes.append("text")
        if any(len(value) > _LONG and " " in value for value in map(str, table[name])):
            classes.append("long")
    return classes


def _cell(name: str, value: object, classes: list[str], heads_its_row: bool) -> str:
    """A cell, with the value to sort by where it is a number."""
    tag, scope = ("th", ' scope="row"') if heads_its_row else ("td", "")
    data = ""
    if is_empty(value):
        classes, content = [*classes, "empty"], "–"
    elif isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
        exact = int(value) if isinstance(value, numbers.Integral) else float(value)
        data, content = f' data-value="{exact!r}"', _rounded(name, exact)
    elif _holds_words(name):
        content = ", ".join(badge(word) for word in str(value).split(", "))
    else:
        content = html.escape(str(value))
    return f"<{tag}{scope}{_attribute('class', classes)}{data}>{content}</{tag}>"


def _rounded(name: str, value: int | float) -> str:
    """Four significant digits; eight of errors, which are meant to agree in as many."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.8g}" if name.endswith("_mse") else f"{value:.4g}"


def _attribute(name: str, values: list[str]) -> str:
    return f' {name}="{" ".join(values)}"' if values else ""
