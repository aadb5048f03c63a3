"""The figure of any sweep: the time of every cell, grouped by what varies, coloured by strategy."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from snn.figures.style import colour, device_text, missing, nothing, texts
from snn.tables.sweep import SHOWN_BY_NETWORK

_LOG_FROM = 20  # largest over smallest time
_INCHES = 0.28  # per bar
_MOST_COLOURS = 6  # that a reader can tell apart; with more strategies, each bar is labelled
_MOST_BARS = 400  # more are no figure that anyone reads, and its PNG file would be too wide to be written


def draw(table: pd.DataFrame, axes_of_sweep: Sequence[str], title: str) -> Figure:
    """From a sweep's table: a bar per cell with the standard deviation of its runs, a panel per device.

    Bars are grouped by all that the sweep varies except strategy, kernel, precision and their options, and
    labelled with these where colours would not tell them apart. A cell without a time shows its status. Of a
    sweep of very many cells only the first are drawn, which the title says.
    """
    if len(table) > _MOST_BARS:
        title = f"{title}: the first {_MOST_BARS} of {len(table):,} cells; its table has all"
        table = table.head(_MOST_BARS)
    if not table["mean_s"].notna().any():
        return nothing(f"{title}: no cell has a time")
    varied = ["network" if axis in SHOWN_BY_NETWORK else axis for axis in axes_of_sweep]
    groups = [axis for axis in varied if not _is_choice(axis) and axis in table] or ["dataset"]
    choices = [axis for axis in varied if _is_choice(axis) and axis in table]
    choices.sort(key=lambda axis: axis != "strategy")
    strategies = list(dict.fromkeys(table["strategy"]))
    if set(choices) <= {"strategy"} and len(strategies) <= _MOST_COLOURS:
        choices = []
    devices = table[["device", "backend"]].drop_duplicates().sort_values("backend", ascending=False)
    panels = [table[table["device"] == device] for device in devices["device"]]
    widths = [max(4.0, _INCHES * (len(rows) + texts(rows, groups, "\n").nunique())) for rows in panels]
    size = (max(6.0, 0.7 + sum(widths)), 5.6 if choices else 4.2)
    figure, grid = plt.subplots(1, len(panels), figsize=size, width_ratios=widths, sharey=True, squeeze=False)
    for axes, rows, device in zip(grid[0], panels, devices.itertuples(index=False), strict=True):
        _panel(axes, rows, groups, choices)
        axes.set_title(device_text(*device), fontsize=9, pad=6 + 10 * len(groups) if choices else 6)
        axes.set_xlabel(", ".join(_plain(axis) for axis in choices or groups))
    if table["mean_s"].max() > _LOG_FROM * table["mean_s"].min():
        grid[0][0].set_yscale("log")
    grid[0][0].set_ylabel("training time (s)")
    figure.suptitle(title, fontsize=10)
    if 1 < len(strategies) <= _MOST_COLOURS:
        handles = [Patch(color=colour(strategy), label=strategy) for strategy in strategies]
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 6), fontsize=8)
    return figure


def _is_choice(axis: str) -> bool:
    return axis in ("strategy", "kernel", "precision") or axis.startswith(("strategy.", "kernel."))


def _plain(axis: str) -> str:
    return axis.rpartition(".")[2].replace("_", " ")


def _panel(axes: Axes, rows: pd.DataFrame, groups: Sequence[str], choices: Sequence[str]) -> None:
    """Bars of one point side by side, in the order of the sweep; labels name each group, or each bar."""
    points, bars = texts(rows, groups, "\n"), texts(rows, choices)
    position = 0.0
    ticks: dict[float, str] = {}
    for point in dict.fromkeys(points):
        some = rows[points == point]
        x = position + np.arange(len(some))
        colours = [colour(strategy) for strategy in some["strategy"]]
        axes.bar(x, some["mean_s"], 0.9, yerr=some["std_s"], capsize=2, color=colours)
        for at, status in zip(x, some["status"].where(some["mean_s"].isna()), strict=True):
            if isinstance(status, str):
                missing(axes, at, status)
        if choices:
            ticks |= dict(zip(x, bars[some.index], strict=True))
            above = axes.get_xaxis_transform()
            axes.text(x.mean(), 1.01, point, ha="center", va="bottom", fontsize=8, transform=above)
        else:
            ticks[x.mean()] = point
        position += len(some) + 1
    axes.set_xlim(-1, position - 1)
    turned: dict[str, Any] = {"rotation": 90, "fontsize": 8} if choices else {}
    axes.set_xticks(list(ticks), list(ticks.values()), **turned)
