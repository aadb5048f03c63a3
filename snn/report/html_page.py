"""HTML of tables: self-contained pages whose rows sort, with a tone for every word that a table says."""

import html
import math
import numbers
from pathlib import Path

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.report.glossary import WORD_COLUMNS, WORDS, badge

_HERE = Path(__file__).parent
_LONG = 45
"""Characters above which a column's cells are broken into lines."""


def badges() -> str:
    """The rules for badges: all that a fragment within another page needs."""
    return (_HERE / "word.css").read_text(encoding="utf-8")


def document(title: str, body: str) -> str:
    """A whole page that needs no other file."""
    css = (_HERE / "page.css").read_text(encoding="utf-8") + badges()
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<style>\n{css}</style>\n<h1 id="title">{html.escape(title)}</h1>\n{body}\n'
        f"<script>\n{script}</script>\n</html>\n"
    )


def sortable(table: pd.DataFrame) -> str:
    """The table in a frame that scrolls; a heading is a button that sorts by it."""
    classes = {name: _classes(table, name) for name in table}
    head = "".join(
        f'<th scope="col"{_attribute("class", classes[name])}>'
        f'<button type="button">{html.escape(heading(name))}</button></th>'
        for name in table
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(name, value, classes[name]) for name, value in row.items()) + "</tr>"
        for row in table.to_dict("records")
    )
    return (
        '<div class="frame" role="region" aria-labelledby="title" tabindex="0">\n<table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def legend(table: pd.DataFrame) -> str:
    """What the words mean that this table says."""
    said = {
        word
        for name in WORD_COLUMNS
        if name in table
        for cell in table[name].dropna()
        for word in cell.split(", ")
    }
    lines = "".join(
        f"<dt>{badge(word)}</dt><dd>{html.escape(meaning)}</dd>"
        for word, (_, meaning) in WORDS.items()
        if word in said and meaning
    )
    return f"<dl>{lines}</dl>" if lines else ""


def heading(name: str) -> str:
    """``paper_reference_s`` is "paper reference (s)"."""
    for unit in ("us", "s"):
        if name.endswith(f"_{unit}"):
            return f"{name.removesuffix(f'_{unit}').replace('_', ' ')} ({unit})"
    return name.replace("_", " ")


def _classes(table: pd.DataFrame, name: str) -> list[str]:
    kinds = []
    if name.startswith("paper_"):
        kinds.append("paper")
    if not pd.api.types.is_numeric_dtype(table[name]):
        kinds.append("text")
        if any(len(value) > _LONG and " " in value for value in map(str, table[name])):
            kinds.append("long")
    return kinds


def _cell(name: str, value: object, classes: list[str]) -> str:
    if is_empty(value):
        return f"<td{_attribute('class', [*classes, 'empty'])}>–</td>"
    kind = _attribute("class", classes)
    if isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value):
        exact = int(value) if isinstance(value, numbers.Integral) else float(value)
        return f'<td{kind} data-value="{exact!r}">{_rounded(name, exact)}</td>'
    if name in WORD_COLUMNS:
        return f"<td{kind}>{', '.join(badge(word) for word in str(value).split(', '))}</td>"
    return f"<td{kind}>{html.escape(str(value))}</td>"


def _rounded(name: str, value: int | float) -> str:
    """Four digits, but for errors, whose agreement in the eighth is the point."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.8g}" if name.endswith("_mse") else f"{value:.4g}"


def _attribute(name: str, values: list[str]) -> str:
    return f' {name}="{" ".join(values)}"' if values else ""
