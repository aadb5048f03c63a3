"""Bandwidth by pattern of memory access: useful and moved bytes per second, beside the device's limits."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from snn.backends.access import AOS, OFFSET, SOA, STRIDE, VECTOR
from snn.figures.style import nothing, plain_numbers, where

_COLOURS = {"read": "#2563eb", "copy": "#d97706"}
_PANELS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "strides": ((STRIDE,), "stride (floats)"),
    "structures": ((AOS, SOA), "used fields of 8"),
    "alignment": ((OFFSET,), "offset (floats)"),
    "vector loads": ((VECTOR,), "floats per load"),
}
_MARKERS = {AOS: "s", SOA: "^"}


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``memory_access.csv``: a panel per pattern, useful bytes per second with their 95% interval.

    Pale lines are the moved bytes, dashed ones the limits of the device. The paper has no such figure, so its
    device is not named.
    """
    rows = table[table["median"].notna()]
    panels = {title: rows[rows["pattern"].isin(patterns)] for title, (patterns, _) in _PANELS.items()}
    panels = {title: each for title, each in panels.items() if len(each)}
    if not panels:
        return nothing("memory_access: no access was measured")
    size = (1.0 + 3.1 * len(panels), 4.0)
    figure, grid = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for axes, (title, each) in zip(grid[0], panels.items(), strict=True):
        _panel(axes, each)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel(_PANELS[title][1])
    first = grid[0][0]
    first.set_yscale("log")
    plain_numbers(first.yaxis)
    first.set_ylabel("bandwidth (GB/s)")
    grey = "#6b7280"
    handles = [
        Line2D([], [], color=_COLOURS[each], marker="o", label=each) for each in dict.fromkeys(rows["access"])
    ]
    handles += [
        Line2D([], [], color=grey, alpha=0.35, label="moved"),
        Line2D([], [], color=grey, linestyle="--", label="limit"),
    ]
    handles += [
        Line2D([], [], color=grey, linestyle="", marker=marker, label=pattern)
        for pattern, marker in _MARKERS.items()
        if pattern in set(rows["pattern"])
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8)
    figure.suptitle(f"Bandwidth by pattern of memory access: {where(table)}", fontsize=10)
    return figure


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """A line per pattern and access; of useful bytes with markers, of moved bytes pale."""
    for (pattern, access), each in rows.groupby(["pattern", "access"], sort=False):
        each = each.sort_values("value")
        shade = _COLOURS[access]
        spread = [each["median"] - each["low"], each["high"] - each["median"]]
        style: dict[str, Any] = {
            "color": shade,
            "marker": _MARKERS.get(pattern, "o"),
            "markersize": 4,
            "capsize": 2,
        }
        axes.errorbar(each["value"], each["median"], yerr=spread, **style)
        axes.plot(each["value"], each["moved_gb_s"], color=shade, alpha=0.35, zorder=1)
        if each["limit_gb_s"].notna().any():
            axes.axhline(each["limit_gb_s"].iloc[0], color=shade, linestyle="--", linewidth=1)
    values = sorted(set(rows["value"]))
    if values[0] > 0:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(values, [f"{value:,}" for value in values], fontsize=8)
