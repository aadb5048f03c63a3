"""CPU and GPU of one machine: the speedup of each strategy over one CPU core."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures.style import colour, list_rows, nothing, texts, times, where


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``cpu.csv``: speedups over one CPU core with their 95% intervals on a log axis, a panel per data
    set, the fastest on top; the dashed line is the fastest CPU baseline. The paper has no such figure, so its
    device is not named.
    """
    if not table["speedup_over_sequential"].notna().any():
        return nothing("cpu: there is no time of one core to compare with")
    points = texts(table, ("dataset", "network"))
    panels = [table[points == point] for point in dict.fromkeys(points)]
    size = (1.5 + 3.6 * len(panels), 1.8 + 0.26 * max(map(len, panels)))
    figure, grid = plt.subplots(1, len(panels), figsize=size, squeeze=False)
    for axes, rows, point in zip(grid[0], panels, dict.fromkeys(points), strict=True):
        _panel(axes, rows.sort_values("mean_s", kind="stable").reset_index(drop=True))
        axes.set_title(point, fontsize=10)
    handles = [
        Line2D([], [], color="#374151", marker=_MARKERS[kind], linestyle="", label=f"on the {kind}")
        for kind in dict.fromkeys(table["ran_on"])
    ]
    handles.append(Line2D([], [], color="#9ca3af", linestyle="--", label="the fastest CPU baseline"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8)
    figure.suptitle(f"Speedup over one CPU core: {where(table)}", fontsize=10)
    return figure


_MARKERS = {"host": "s", "device": "o"}


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """A row per cell, in the order given; those without a time are last."""
    host = rows.loc[rows["ran_on"] == "host", "speedup_over_sequential"]
    axes.axvline(host.max(), color="#9ca3af", linewidth=1, linestyle="--")
    for i, row in rows.iterrows():
        ratio = row["speedup_over_sequential"]
        if pd.isna(ratio):
            at = axes.get_yaxis_transform()
            axes.text(0.02, i, row["status"], transform=at, fontsize=7, va="center", color="#6b7280")
            continue
        low, high = (row[f"speedup_over_sequential_ci_{end}"] for end in ("low", "high"))
        spread = None if pd.isna(low) else [[max(0, ratio - low)], [max(0, high - ratio)]]
        shade = colour(row["strategy"])
        axes.errorbar(
            ratio, i, xerr=spread, fmt=_MARKERS[row["ran_on"]], markersize=5, capsize=3, color=shade
        )
        axes.annotate(
            times(ratio), (ratio, i), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_xlabel("speedup over one core (sequential)")
    options = rows["options"].astype(object).fillna("")
    names = [
        f"{name} ({option})" if option else name
        for name, option in zip(rows["strategy"], options, strict=True)
    ]
    list_rows(axes, names)
