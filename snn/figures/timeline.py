"""Two steps of each strategy: a lane for the host and one per stream, with the bytes held below."""

from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from snn.figures import layout
from snn.figures.attribution import PARTS
from snn.figures.style import BLACK, PALE
from snn.figures.ticks import linear_axis

_PART_OF = {
    "malloc": "allocation",
    "free": "allocation",
    "host_alloc": "host_allocation",
    "host_free": "host_allocation",
    "stream_create": "streams",
    "stream_destroy": "streams",
    "copy_in": "copy_in",
    "copy_out": "copy_out",
    "synchronize": "waiting",
    "stream_synchronize": "waiting",
    "event_synchronize": "waiting",
    "event_create": "streams",
    "event_destroy": "streams",
    "event_record": "streams",
    "event_wait": "streams",
}
_WORK = "launch"  # all other calls: kernels, by their names, and graph launches
_HALF = 0.38  # of the height of a lane's boxes, as the lanes are 1 apart
_PLACES = {
    "allocation": (-_HALF, _HALF),
    "host_allocation": (-_HALF, 0),
    "streams": (0, _HALF),
    "copy_in": (-_HALF, 0.5 * _HALF),
    "copy_out": (-0.5 * _HALF, _HALF),
    "launch": (-0.25 * _HALF, 0.25 * _HALF),
    "kernels": (-0.5 * _HALF, 0.5 * _HALF),
    "waiting": (-0.12 * _HALF, 0.12 * _HALF),
}
"""Where the boxes of a part begin and end in their lane, from the top: most are too narrow for hatches."""
_KIB = 1024
_DEVICE: dict[str, Any] = {"color": PALE, "label": "device memory"}  # an area, paler than any part of a time
_PINNED: dict[str, Any] = {
    "color": BLACK,
    "linewidth": 1.2,
    "label": "pinned memory",
}  # a line, over the area
_NOTE = (
    "One trace of one training, without an interval. Host: the calls; streams: the work of the device, by"
    " its clock. Device allocations fill the height of a lane; in its upper part are copies to the device"
    " and, shorter, host allocations; in its lower part copies to the host and, shorter, streams; in the"
    " middle launches, kernels and waits. Below each: bytes that are allocated; both kinds of memory are"
    " counted from zero, neither on top of the other."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``timeline.csv``; the paper has no such figure, so its device is not named."""
    strategies = list(dict.fromkeys(table["strategy"]))
    if not strategies:
        return layout.nothing("no trace: nothing ran")
    lanes = [2 + table.loc[table["strategy"] == name, "stream"].nunique() for name in strategies]
    ratios = [ratio for count in lanes for ratio in (0.18 * count, 0.34)]
    figure, panels = layout.panels(
        2 * len(strategies), 1, sum(ratios) + 0.4 * len(strategies), height_ratios=ratios, sharex=True
    )
    for i, strategy in enumerate(strategies):
        rows = table[table["strategy"] == strategy]
        _lanes(panels[2 * i][0], rows)
        panels[2 * i][0].set_title(strategy, loc="left", fontweight="bold")
        _bytes(panels[2 * i + 1][0], rows)
        for axes in panels[2 * i : 2 * i + 2, 0]:
            axes.tick_params(labelbottom=False, length=2)
    last = panels[-1][0]
    last.tick_params(labelbottom=True)
    last.set_xlabel("time (µs)")
    last.set_xlim(0, table[["end_us", "device_end_us"]].max().max() * 1.01)
    linear_axis(last.xaxis, 8)
    key: list[Artist] = [
        Patch(color=PARTS[each][0], label=PARTS[each][1])
        for each in [*dict.fromkeys(_PART_OF.values()), _WORK]
    ]
    key += [Patch(color=PARTS["kernels"][0], label="kernels")]  # of the device, by its clock
    key += [Patch(**_DEVICE)]
    key += [Line2D([], [], **_PINNED)] if table["pinned_bytes"].any() else []
    return layout.framed(
        figure, "Two steps of training, call by call", layout.about(table, trained), _NOTE, key
    )


def _lanes(axes: Axes, rows: pd.DataFrame) -> None:
    """The host's calls on top; below, a lane per stream with the device's work."""
    worked = rows[rows["device_start_us"].notna()]
    streams = sorted(worked["stream"].dropna().unique())
    for call in dict.fromkeys(rows["call"]):
        part = _PART_OF.get(call, _WORK)
        asked, done = rows[rows["call"] == call], worked[worked["call"] == call]
        _bars(axes, 0, asked["start_us"], asked["end_us"], part)
        work = "kernels" if part == _WORK else part
        for lane, stream in enumerate(streams, 1):
            some = done[done["stream"] == stream]
            _bars(axes, lane, some["device_start_us"], some["device_end_us"], work)
    names = ["host", *("default stream" if s == 0 else f"stream {s:.0f}" for s in streams)]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False)


def _bars(axes: Axes, lane: int, start: pd.Series, end: pd.Series, part: str) -> None:
    boxes = list(zip(start, end - start, strict=True))
    top, bottom = _PLACES[part]
    look: dict[str, Any] = {"color": PARTS[part][0], "linewidth": 0.3, "rasterized": True}
    axes.broken_barh(boxes, (lane + top, bottom - top), **look)


def _bytes(axes: Axes, rows: pd.DataFrame) -> None:
    """Device memory as an area and pinned memory as a line, each from zero: neither hides the other."""
    axes.fill_between(rows["end_us"], rows["device_bytes"] / _KIB, step="post", linewidth=0, **_DEVICE)
    if rows["pinned_bytes"].any():
        axes.step(rows["end_us"], rows["pinned_bytes"] / _KIB, where="post", **_PINNED)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("KiB")
    linear_axis(axes.yaxis, 2)
