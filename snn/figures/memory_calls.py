"""Time of memory calls by size, on log axes, and the overlap that streams reach."""

from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from snn.figures.style import nothing, plain_numbers, where
from snn.microbenchmarks.overlap import FROM_PAGEABLE, FROM_PINNED

_PANELS = {
    "allocation and free": ("allocation", None),
    "copy to the device": ("copy", "to_device"),
    "copy to the host": ("copy", "to_host"),
    "first touch of managed pages": ("first_touch", None),
}
_COLOURS = {  # of allocators and of kinds of host memory: those of the strategies that use them
    "malloc": "#6b7280",
    "malloc_async": "#84cc16",
    "cupy_pool": "#059669",
    "host_alloc": "#2563eb",
    "managed_alloc": "#7c2d12",
    "pageable": "#6b7280",
    "pinned": "#2563eb",
    "managed": "#7c2d12",
    "managed_prefetch": "#c2845a",
    "by_device": "#d97706",
    "by_host": "#111827",
}
_FROM = {FROM_PINNED: "pinned", FROM_PAGEABLE: "pageable"}
_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``memory_calls.csv``: a panel per kind of call with a line per call, and one of the overlap.

    Lines are medians with their 95% interval. The paper has no such figure, so its device is not named.
    """
    rows = table[table["median"].notna()]
    panels = {}
    for title, (kind, direction) in _PANELS.items():
        each = rows[(rows["kind"] == kind) & (direction is None or rows["direction"] == direction)]
        if len(each):
            panels[title] = each
    overlap = rows[rows["call"] == "overlap"].replace({"kind": _FROM})
    count = len(panels) + bool(len(overlap))
    if not count:
        return nothing("memory_calls: no call was measured")
    columns = min(3, count)
    lines = -(-count // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(0.8 + 3.9 * columns, 0.4 + 3.5 * lines), squeeze=False
    )
    places = list(grid.flat)
    for axes, (title, each) in zip(places, panels.items(), strict=False):
        _by_size(axes, each)
        axes.set_title(title, fontsize=9)
    if len(overlap):
        _by_streams(places[len(panels)], overlap)
    for axes in places[count:]:
        axes.axis("off")
    figure.suptitle(f"Time of memory calls: {where(table)}", fontsize=10)
    return figure


def _by_size(axes: Axes, rows: pd.DataFrame) -> None:
    """A line per call, and per number of blocks that are alive meanwhile: dashed beside one."""
    is_touch = rows["kind"].iloc[0] == "first_touch"
    keys = [rows["direction"] if is_touch else rows["call"], rows["live"].fillna(0)]
    for (name, live), each in rows.groupby(keys, sort=False):
        each = each.sort_values("bytes")
        label = name.replace("_", " ") + (", beside another" if live else "")
        spread = [each["median"] - each["low"], each["high"] - each["median"]]
        style: dict[str, Any] = {
            "color": _COLOURS[name],
            "marker": "o",
            "markersize": 3,
            "capsize": 2,
            "label": label,
        }
        axes.errorbar(each["bytes"], each["median"], yerr=spread, linestyle="--" if live else "-", **style)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    plain_numbers(axes.yaxis)
    sizes = sorted(set(rows["bytes"]))[::2]
    axes.set_xticks(sizes, [_size(nbytes) for nbytes in sizes], fontsize=7, rotation=45)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("bytes")
    axes.set_ylabel("time (µs)")
    axes.legend(fontsize=7, handlelength=3)


def _by_streams(axes: Axes, rows: pd.DataFrame) -> None:
    for memory, each in rows.groupby("kind", sort=False):
        each = each.sort_values("streams")
        spread = [each["median"] - each["low"], each["high"] - each["median"]]
        style: dict[str, Any] = {"color": _COLOURS[memory], "marker": "o", "markersize": 4, "capsize": 2}
        axes.errorbar(each["streams"], each["median"], yerr=spread, label=f"{memory} memory", **style)
    axes.legend(fontsize=7)
    axes.axhline(1.0, color="#9ca3af", linestyle="--", linewidth=1)
    axes.set_ylim(min(-0.05, rows["median"].min() - 0.1), max(1.1, rows["median"].max() + 0.1))
    axes.set_xticks(rows["streams"])
    axes.set_xlabel("streams")
    axes.set_ylabel("fraction hidden")
    axes.set_title("overlap of copies and kernels", fontsize=9)


def _size(nbytes: float) -> str:
    shift, unit = next((shift, unit) for shift, unit in _UNITS if nbytes >= 1 << shift)
    return f"{nbytes / (1 << shift):g} {unit}"
