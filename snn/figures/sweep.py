"""The figure of any sweep: time of every cell, grouped by what varied, coloured by strategy."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from snn.figures.style import colour, device_text, nothing

_LOG_FROM = 20  # largest over smallest time
_INCHES = 0.28  # of a bar


def draw(table: pd.DataFrame, axes_of_sweep: Sequence[str], title: str) -> Figure:
    """From a sweep's tidy table: a bar a cell with the standard deviation of its runs, a panel a device.

    Where a cell has no time, its status stands.
    """
    timed = table["mean_s"].notna()
    if not timed.any():
        return nothing(f"{title}: no cell has a time")
    named = {"network.hidden": "network"}
    varied = [named.get(axis, axis) for axis in axes_of_sweep]
    groups = [axis for axis in varied if axis != "strategy" and axis in table] or ["dataset"]
    devices = table[["device", "backend"]].drop_duplicates().sort_values("backend", ascending=False)
    panels = [table[table["device"] == device] for device in devices["device"]]
    widths = [max(4.0, _INCHES * _bars(rows, groups)) for rows in panels]
    figure, found = plt.subplots(
        1,
        len(panels),
        figsize=(max(6.0, sum(widths)), 4.2),
        width_ratios=widths,
        sharey=True,
        squeeze=False,
    )
    for axes, rows, device in zip(found[0], panels, devices.itertuples(index=False), strict=True):
        _panel(axes, rows, groups)
        axes.set_title(device_text(*device), fontsize=9)
        axes.set_xlabel(", ".join(groups))
    if table["mean_s"].max() > _LOG_FROM * table["mean_s"].min():
        found[0][0].set_yscale("log")
    found[0][0].set_ylabel("training time (s)")
    figure.suptitle(title, fontsize=10)
    strategies = list(dict.fromkeys(table["strategy"]))
    handles = [Patch(color=colour(strategy), label=strategy) for strategy in strategies]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(strategies), 8), fontsize=8)
    return figure


def _points(rows: pd.DataFrame, groups: Sequence[str]) -> pd.Series:
    shown = rows[list(groups)].astype(object)
    return shown.where(shown.notna(), "–").astype(str).agg("\n".join, axis=1)


def _bars(rows: pd.DataFrame, groups: Sequence[str]) -> int:
    """How many bars a panel holds, with one of space between two groups."""
    return len(rows) + _points(rows, groups).nunique()


def _panel(axes: Axes, rows: pd.DataFrame, groups: Sequence[str]) -> None:
    """Side by side what is at one point, in the order of the sweep; the middle of each group is named."""
    points = _points(rows, groups)
    position, middles = 0.0, {}
    for point in dict.fromkeys(points):
        some = rows[points == point]
        x = position + np.arange(len(some))
        colours = [colour(strategy) for strategy in some["strategy"]]
        axes.bar(x, some["mean_s"], 0.9, yerr=some["std_s"], capsize=2, color=colours)
        for at, status in zip(x, some["status"].where(some["mean_s"].isna()), strict=True):
            if isinstance(status, str):
                axes.text(
                    at,
                    0.02,
                    status,
                    rotation=90,
                    ha="center",
                    va="bottom",
                    fontsize=7,
                    color="#6b7280",
                    transform=axes.get_xaxis_transform(),
                )
        middles[point] = x.mean()
        position += len(some) + 1
    axes.set_xticks(list(middles.values()), list(middles))
