"""Reduced precision: training time and final loss, each beside fp32's."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from snn.figures.style import missing, nothing, texts, where

_COLOURS = {"fp32": "#6b7280", "tf32": "#2563eb", "bf16": "#d97706"}


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``precision.csv``: above, times with the standard deviation of the runs; below, the relative
    difference of the final loss from fp32's, with its 95% interval over seeds. A column per network. The
    paper has no such figure, so its device is not named.
    """
    if not table["mean_s"].notna().any():
        return nothing("precision: no cell has a time")
    points = texts(table, ("dataset", "network"))
    columns = [table[points == point] for point in dict.fromkeys(points)]
    widths = [1 + len(rows) for rows in columns]
    size = (1.2 + 0.55 * sum(widths), 5.6)
    figure, grid = plt.subplots(
        2, len(columns), figsize=size, sharex="col", squeeze=False, width_ratios=widths
    )
    for (above, below), rows, point in zip(grid.T, columns, dict.fromkeys(points), strict=True):
        _times(above, rows)
        _losses(below, rows)
        above.set_title(point, fontsize=10)
    grid[0][0].set_ylabel("training time (s)")
    grid[1][0].set_ylabel("final loss relative to fp32 (%)")
    shown = [name for name in dict.fromkeys(table["precision"]) if name in _COLOURS]
    handles = [Patch(color=_COLOURS[name], label=name) for name in shown]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    figure.suptitle(f"Precision: {where(table)}", fontsize=10)
    return figure


def _times(axes: Axes, rows: pd.DataFrame) -> None:
    x = range(len(rows))
    axes.bar(x, rows["mean_s"], 0.8, yerr=rows["std_s"], capsize=2, color=_colours(rows))
    for at, status in zip(x, rows["status"].where(rows["mean_s"].isna()), strict=True):
        if isinstance(status, str):
            missing(axes, at, status)


def _losses(axes: Axes, rows: pd.DataFrame) -> None:
    axes.axhline(0, color=_COLOURS["fp32"], linewidth=1)
    for x, (_, row) in enumerate(rows.iterrows()):
        if pd.isna(row["relative_difference"]) or not isinstance(row["convergence"], str):
            continue
        low, high = (
            100 * abs(row[f"relative_difference_ci_{end}"] - row["relative_difference"])
            for end in ("low", "high")
        )
        axes.errorbar(
            x,
            100 * row["relative_difference"],
            yerr=[[low], [high]],
            fmt="o",
            capsize=3,
            color=_colour(row["precision"]),
        )
        axes.annotate(
            row["convergence"],
            (x, 0),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
            fontsize=7,
        )
    axes.margins(y=0.3)
    axes.set_xticks(range(len(rows)), rows["kernel"], rotation=45, ha="right", fontsize=8)


def _colours(rows: pd.DataFrame) -> list[str]:
    return [_colour(name) for name in rows["precision"]]


def _colour(precision: str) -> str:
    return _COLOURS.get(precision, "#111827")
