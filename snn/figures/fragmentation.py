"""Fragmentation by allocator and trace: memory reserved, memory that suffices, and time per call."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures.allocators import COLOURS, label
from snn.figures.style import nothing, plain_numbers, where

_PANELS = {
    "reserved_over_used": "peak reserved / peak in use",
    "suffices": "least memory that sufficed / peak in use",
    "first_us": "time per call (µs)",
}
_APART = 0.16  # rows between the allocators of a trace


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``fragmentation.csv``: a panel per quantity with a line per trace and a dot per allocator.

    Times have their 95% interval; hollow dots are those of an allocator that has served the trace before.
    The paper has no such figure, so its device is not named.
    """
    rows = table[table["status"] == "ok"]
    if rows.empty:
        return nothing("fragmentation: no trace was replayed")
    panels = {column: title for column, title in _PANELS.items() if rows[column].notna().any()}
    traces = list(dict.fromkeys(rows["trace"]))
    allocators = list(dict.fromkeys(rows["allocator"]))
    size = (1.6 + 3.4 * len(panels), 1.2 + 0.5 * len(traces))
    figure, grid = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for axes, (column, title) in zip(grid[0], panels.items(), strict=True):
        for number, allocator in enumerate(allocators):
            each = rows[(rows["allocator"] == allocator) & rows[column].notna()]
            heights = [
                traces.index(trace) + _APART * (number - len(allocators) / 2 + 0.5) for trace in each["trace"]
            ]
            _dots(axes, each, column, heights, COLOURS[allocator])
        axes.set_xscale("log")
        plain_numbers(axes.xaxis)
        axes.set_xlabel(title)
        axes.grid(axis="x", color="#e5e7eb")
    grid[0][0].set_yticks(range(len(traces)), [trace.replace("_", " ") for trace in traces])
    grid[0][0].invert_yaxis()
    backend = rows["backend"].iloc[0]
    handles = [
        Line2D([], [], color=COLOURS[name], marker="o", linestyle="", label=label(name, backend))
        for name in allocators
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
    figure.suptitle(f"Fragmentation: {where(table)}", fontsize=10)
    return figure


def _dots(axes: Axes, rows: pd.DataFrame, column: str, heights: list[float], colour: str) -> None:
    """A dot per trace; of times with their intervals, and hollow ones of the second time."""
    if column != "first_us":
        axes.plot(rows[column], heights, color=colour, marker="o", markersize=4, linestyle="")
        return
    for name, fill in (("again_us", "white"), ("first_us", colour)):
        spread = [rows[name] - rows[f"{name}_low"], rows[f"{name}_high"] - rows[name]]
        axes.errorbar(
            rows[name],
            heights,
            xerr=spread,
            color=colour,
            marker="o",
            markersize=4,
            markerfacecolor=fill,
            linestyle="",
            capsize=2,
        )
