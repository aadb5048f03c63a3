"""Time of memory calls by size, on log axes, and the overlap that streams reach."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures import allocators, layout
from snn.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILLION
from snn.figures.ticks import at_values, linear_axis, log_axis
from snn.microbenchmarks.allocators import ALLOCATORS
from snn.microbenchmarks.memory_calls import FROM_PAGEABLE, FROM_PINNED

_PANELS = {
    "allocation and free": ("allocation", None),
    "copy to the device": ("copy", "to_device"),
    "copy to the host": ("copy", "to_host"),
    "first touch of managed pages": ("first_touch", None),
}
_LOOKS = {  # of allocators and of kinds of host memory
    "malloc": (GREY, "o"),
    "malloc_async": (ORANGE, "^"),
    "cupy_pool": (GREEN, "D"),
    "host_alloc": (BLUE, "s"),
    "managed_alloc": (VERMILLION, "v"),
    "pageable": (GREY, "o"),
    "pinned": (BLUE, "s"),
    "managed": (VERMILLION, "v"),
    "managed_prefetch": (PURPLE, "D"),
    "by_device": (SKY, "^"),
    "by_host": (BLACK, "o"),
}
_CALLS = {"host_alloc": "cudaHostAlloc (pinned)", "managed_alloc": "cudaMallocManaged"}
_FROM = {FROM_PINNED: "pinned", FROM_PAGEABLE: "pageable"}
_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))
_NOTE = (
    "Markers: median of the samples; bars: its 95% confidence interval. Dashed lines of allocation: while"
    " another block is alive."
)
_HIDDEN = (
    " Fraction hidden: the time that both together save, over the shorter of copies alone and kernels alone; "
    "1: all of it. Below 0: both together take longer than one after the other, as alternating between them "
    "has an overhead. Above 1: noise of the three times."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
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
        return layout.nothing("memory_calls: no call was measured")
    lines, columns = layout.arranged(count, 2)
    figure, grid = layout.panels(lines, columns, 2.7 * lines)
    places = list(grid.flat)
    for axes, (title, each) in zip(places, panels.items(), strict=False):
        _by_size(axes, each)
        axes.set_title(title, fontweight="bold")
    if len(overlap):
        _by_streams(places[len(panels)], overlap)
    for axes in places[count:]:
        axes.remove()
    about = [*layout.about(table[["device", "backend"]]), "Microbenchmark, without a training."]
    title = "Time of memory calls" if len(panels) else ""
    if len(overlap):
        title = f"{title}, and overlap of copies and kernels" if title else "Overlap of copies and kernels"
    return layout.framed(figure, title, about, _NOTE + (_HIDDEN if len(overlap) else ""))


def _label(call: str, backend: str) -> str:
    """The name of a call, or of a kind of host memory, for a reader."""
    if call in ALLOCATORS:
        return allocators.label(call, backend)
    return _CALLS.get(call, call.replace("_", " ")) if backend == "cuda" else call.replace("_", " ")


def _by_size(axes: Axes, rows: pd.DataFrame) -> None:
    """A line per call, and per number of blocks that are alive meanwhile: dashed beside one."""
    is_touch = rows["kind"].iloc[0] == "first_touch"
    keys = [rows["direction"] if is_touch else rows["call"], rows["live"].fillna(0)]
    key: dict[str, Line2D] = {}
    for (name, live), each in rows.groupby(keys, sort=False):
        each = each.sort_values("bytes")
        spread = [each["median"] - each["low"], each["high"] - each["median"]]
        shade, marker = _LOOKS[name]
        look: dict[str, Any] = {"color": shade, "marker": marker, "markersize": 3}
        look["linestyle"] = "--" if live else "-"
        axes.errorbar(each["bytes"], each["median"], yerr=spread, **look)
        if name not in key:
            key[name] = Line2D([], [], label=_label(name, each["backend"].iloc[0]), **look)
    axes.set_xscale("log", base=2)
    log_axis(axes.yaxis)
    at_values(axes.xaxis, rows["bytes"], _size)
    axes.set_xlabel("size of the block")
    axes.set_ylabel("time (µs)")
    layout.key_below(axes, handles=key.values())


def _by_streams(axes: Axes, rows: pd.DataFrame) -> None:
    for memory, each in rows.groupby("kind", sort=False):
        each = each.sort_values("streams")
        spread = [each["median"] - each["low"], each["high"] - each["median"]]
        shade, marker = _LOOKS[memory]
        look: dict[str, Any] = {"color": shade, "marker": marker, "label": f"{memory} memory"}
        axes.errorbar(each["streams"], each["median"], yerr=spread, **look)
    axes.axhline(1.0, color=GREY, linestyle="--", linewidth=0.8)
    axes.set_ylim(min(-0.05, rows["low"].min() - 0.1), max(1.1, rows["high"].max() + 0.1))
    linear_axis(axes.yaxis)
    at_values(axes.xaxis, rows["streams"])
    axes.set_xlabel("streams")
    axes.set_ylabel("fraction hidden")
    axes.set_title("overlap of copies and kernels", fontweight="bold")
    layout.key_below(axes)


def _size(nbytes: float) -> str:
    shift, unit = next((shift, unit) for shift, unit in _UNITS if nbytes >= 1 << shift)
    return f"{nbytes / (1 << shift):g} {unit}"
