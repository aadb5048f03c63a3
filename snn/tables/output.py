"""A table as files: CSV for programs, a page of HTML for readers and for the report."""

import html
from pathlib import Path

import pandas as pd

_WHERE = {
    "device": "Measured on {}",
    "backend": "Backend: {}",
    "paper_device": "The paper's device: {}",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem; color: #1b1f24; background: #fff; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; font-size: 1.1rem; padding-bottom: .5rem; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #d8dee4; white-space: nowrap; }
th { border-bottom: 2px solid #57606a; }
th.paper, td.paper { color: #57606a; background: #f6f8fa; }
th.text, td.text { text-align: left; }
tbody tr:hover td { background: #eef6ff; }
p { color: #57606a; max-width: 60rem; }
"""


def write(table: pd.DataFrame, csv: str, page: str, title: str) -> None:
    """Write both files; numbers in the page are rounded, those of the CSV are not."""
    table.to_csv(csv, index=False)
    Path(page).write_text(to_html(table, title), encoding="utf-8")


def to_html(table: pd.DataFrame, title: str) -> str:
    """A self-contained page; the device, where it is one for all rows, stands under the table instead."""
    constant = [name for name in _WHERE if name in table and table[name].nunique() == 1]
    shown = table.drop(columns=constant)
    classes = {name: _classes(shown, name) for name in shown}
    head = "".join(f"<th{classes[name]}>{html.escape(_heading(name))}</th>" for name in shown)
    body = "\n".join(
        "<tr>" + "".join(f"<td{classes[n]}>{html.escape(_cell(n, v))}</td>" for n, v in row.items()) + "</tr>"
        for row in shown.to_dict("records")
    )
    facts = "".join(f"{_WHERE[name].format(table[name].iloc[0])}. " for name in constant)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n<table>\n<caption>{html.escape(title)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
        f"<p>{html.escape(facts)}Shaded columns are the paper's values.</p>\n</html>\n"
    )


def _classes(table: pd.DataFrame, name: str) -> str:
    kinds = []
    if name.startswith("paper_"):
        kinds.append("paper")
    if not pd.api.types.is_numeric_dtype(table[name]):
        kinds.append("text")
    return f' class="{" ".join(kinds)}"' if kinds else ""


def _heading(name: str) -> str:
    """``paper_reference_s`` is "paper reference (s)"."""
    unit = " (s)" if name.endswith("_s") else ""
    return name.removesuffix("_s").replace("_", " ") + unit


def _cell(name: str, value: object) -> str:
    """Four digits, but for errors, whose agreement in the eighth is the point."""
    if value is None or value is pd.NA or value != value:
        return "–"
    if isinstance(value, float):
        return f"{value:.8g}" if name.endswith("_mse") else f"{value:.4g}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)
