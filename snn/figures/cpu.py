"""The processor and the GPU of one machine: how many times faster than one core, and than all that it has."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures.style import colour, nothing, texts, where


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``cpu.csv``: speedups over the host's one core with their 95% intervals on a log axis, a panel a
    data set, the fastest on top; the dashed line is the host's fastest. The paper has no such figure, so its
    device is not named.
    """
    if not table["over_sequential"].notna().any():
        return nothing("cpu: no time of one core to divide by")
    points = texts(table, ("dataset", "network"))
    panels = [table[points == point] for point in dict.fromkeys(points)]
    size = (1.5 + 3.6 * len(panels), 1.8 + 0.26 * max(map(len, panels)))
    figure, found = plt.subplots(1, len(panels), figsize=size, squeeze=False)
    for axes, rows, point in zip(found[0], panels, dict.fromkeys(points), strict=True):
        _panel(axes, rows.sort_values("mean_s", kind="stable").reset_index(drop=True))
        axes.set_title(point, fontsize=10)
    kinds = [
        Line2D([], [], color="#374151", marker=_MARKERS[kind], linestyle="", label=f"on the {kind}")
        for kind in dict.fromkeys(table["where"])
    ]
    kinds.append(Line2D([], [], color="#9ca3af", linestyle="--", label="the host's fastest"))
    figure.legend(handles=kinds, loc="outside lower center", ncols=3, fontsize=8)
    figure.suptitle(f"Speedup over one core of the host: {where(table)}", fontsize=10)
    return figure


_MARKERS = {"host": "s", "device": "o"}


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """A row a cell, in the order given; those without a time are last."""
    host = rows.loc[rows["where"] == "host", "over_sequential"]
    axes.axvline(host.max(), color="#9ca3af", linewidth=1, linestyle="--")
    for i, row in rows.iterrows():
        ratio = row["over_sequential"]
        if pd.isna(ratio):
            at = axes.get_yaxis_transform()
            axes.text(0.02, i, row["status"], transform=at, fontsize=7, va="center", color="#6b7280")
            continue
        low, high = row["over_sequential_low"], row["over_sequential_high"]
        spread = None if pd.isna(low) else [[max(0, ratio - low)], [max(0, high - ratio)]]
        shade = colour(row["strategy"])
        axes.errorbar(ratio, i, xerr=spread, fmt=_MARKERS[row["where"]], markersize=5, capsize=3, color=shade)
        axes.annotate(
            f"{ratio:.3g}×", (ratio, i), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_xlabel("times as fast as one core (sequential)")
    options = rows["options"].fillna("")
    names = [
        f"{name} ({option})" if option else name
        for name, option in zip(rows["strategy"], options, strict=True)
    ]
    axes.set_yticks(range(len(rows)), names, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.8)
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
