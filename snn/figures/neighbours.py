"""What a busy neighbour does: the slow-down of each strategy, with its interval."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.analysis.verdicts import TOUCHED, UNTOUCHED
from snn.config.groups import CONFIG, read_yaml
from snn.figures import layout, rows
from snn.figures.style import BLUE, texts, times

_NEITHER = "neither"
_LOOKS = {UNTOUCHED: ("o", True), TOUCHED: ("D", True), _NEITHER: ("o", False)}
"""Marker, and whether it is filled, of each verdict."""

_ENDS = ["slowdown", "slowdown_ci_low", "slowdown_ci_high"]
_NOTE = (
    "Dots: time beside a training on another device of the same host over time alone, on a log axis, and "
    "as a number on the right; bars: 95% confidence interval of the ratio; dashed line: an unchanged time. "
    "Untouched: the whole interval lies within {margin:.0%} around 1, by which the times are shown to be "
    "equivalent. Touched: it does not, nor does it contain 1. Neither: the interval leaves both open, at the "
    "level of 95%; ? marks these."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``neighbours.csv``: time beside the neighbour over time alone, with its 95% interval on a log
    axis, a panel per neighbour; the dashed line is an unchanged time. The paper has no such figure, so its
    device is not named.
    """
    if not table["slowdown"].notna().any():
        return layout.nothing("neighbours: no cell has a time beside a neighbour")
    names = _names(table)
    order = list(dict.fromkeys(names))
    neighbours = list(dict.fromkeys(table["neighbour"]))
    figure, panels = rows.grid(order, len(neighbours), most=2)
    for axes, name in zip(panels, neighbours, strict=True):
        _panel(axes, table[table["neighbour"] == name], names, order)
        rows.scale(axes, [1.0, *table[_ENDS].to_numpy(float).ravel()], log=True)
    verdicts = set(table.loc[table["slowdown"].notna(), "verdict"].map(_said))
    key = [
        Line2D([], [], color=BLUE, marker=marker, linestyle="", label=label, mfc=BLUE if filled else "white")
        for label, (marker, filled) in _LOOKS.items()
        if label in verdicts
    ]
    note = _NOTE.format(margin=read_yaml(CONFIG / "verdicts.yaml")[UNTOUCHED])
    note += rows.of_blanks(names, table["neighbour"]) + rows.usual_kernel(table)
    return rows.framed(
        figure,
        panels,
        [f"beside {name}" for name in neighbours],
        "Time beside a busy neighbour over time alone",
        layout.about(table, trained),
        note,
        key,
    )


def _said(verdict: str) -> str:
    return verdict if verdict in _LOOKS else _NEITHER


def _panel(axes: Axes, cells: pd.DataFrame, names: pd.Series, order: list[str]) -> None:
    """A row per cell, in the order of the table; one without a time has its status."""
    rows.rule(axes, 1.0)
    for i, cell in cells.iterrows():
        row, value = order.index(names[i]), cell["slowdown"]
        if pd.isna(value):
            rows.status(axes, row, cell["status"])
            continue
        ends = cell["slowdown_ci_low"], cell["slowdown_ci_high"]
        rows.dot(axes, row, value, ends, BLUE, *_LOOKS[_said(cell["verdict"])])
        rows.beside(axes, row, times(value, cell["verdict"]))
    axes.set_xlabel("time beside the neighbour / time alone")


def _names(table: pd.DataFrame) -> pd.Series:
    """The strategies' names, with what tells them apart from others."""
    differing = [name for name in ("dataset", "network") if table[name].nunique() > 1]
    return texts(table.assign(strategy=rows.named(table)), ["strategy", *differing])
