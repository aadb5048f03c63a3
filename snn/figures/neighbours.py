"""What a busy neighbour does: the slow-down of each strategy, with its interval."""

from typing import Literal

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.analysis.verdicts import UNTOUCHED
from snn.figures.style import colour, list_rows, nothing, plain_numbers, texts, where

_FILLED = {True: UNTOUCHED, False: "not shown to be untouched"}
_ROOM = 1.03
"""The axis ends at this factor beyond the smallest and the largest end of an interval."""


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``neighbours.csv``: time beside the neighbour over time alone, with its 95% interval on a log
    axis, a panel per neighbour; the dashed line is no slow-down. The paper has no such figure, so its device
    is not named.
    """
    if not table["slowdown"].notna().any():
        return nothing("neighbours: no cell has a time beside a neighbour")
    panels = {name: rows.reset_index(drop=True) for name, rows in table.groupby("neighbour", sort=False)}
    size = (1.5 + 4.2 * len(panels), 1.6 + 0.3 * max(map(len, panels.values())))
    figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False)
    for axes, (name, rows) in zip(grid[0], panels.items(), strict=True):
        _panel(axes, rows)
        axes.set_title(f"beside {name}", fontsize=10)
    handles = [
        Line2D([], [], color="#374151", marker="o", linestyle="", label=label, fillstyle=_style(filled))
        for filled, label in _FILLED.items()
        if ((table["verdict"] == UNTOUCHED) == filled)[table["slowdown"].notna()].any()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8)
    figure.suptitle(f"Time beside a busy neighbour over time alone\n{where(table)}", fontsize=10)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """A row per cell, in the order of the table; one without a time has its status."""
    axes.axvline(1, color="#9ca3af", linewidth=1, linestyle="--")
    for i, row in rows.iterrows():
        value, low, high = row["slowdown"], row["slowdown_ci_low"], row["slowdown_ci_high"]
        if pd.isna(value):
            at = axes.get_yaxis_transform()
            axes.text(0.02, i, row["status"], transform=at, fontsize=7, va="center", color="#6b7280")
            continue
        spread = None if pd.isna(low) else [[max(0, value - low)], [max(0, high - value)]]
        axes.errorbar(
            value,
            i,
            xerr=spread,
            fmt="o",
            markersize=5,
            capsize=3,
            color=colour(row["strategy"]),
            fillstyle=_style(row["verdict"] == UNTOUCHED),
        )
        axes.annotate(
            f"{value:.3g}×", (value, i), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_xscale("log")
    if rows["slowdown"].notna().any():
        ends = rows[["slowdown", "slowdown_ci_low", "slowdown_ci_high"]].to_numpy(float)
        axes.set_xlim(min(pd.Series(ends.ravel()).min(), 1) / _ROOM, pd.Series(ends.ravel()).max() * _ROOM)
    plain_numbers(axes.xaxis)
    axes.set_xlabel("time beside the neighbour / time alone")
    list_rows(axes, _names(rows))


def _style(filled: bool) -> Literal["full", "none"]:
    return "full" if filled else "none"


def _names(rows: pd.DataFrame) -> list[str]:
    """The strategies' names, of those that occur twice with what tells them apart."""
    differing = [name for name in ("dataset", "network", "kernel") if rows[name].nunique() > 1]
    return texts(rows, ["strategy", *differing]).tolist()
