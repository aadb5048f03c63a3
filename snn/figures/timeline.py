"""Two steps of each strategy: a lane for the host and one per stream, with the bytes held below."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from snn.figures.attribution import PARTS
from snn.figures.style import nothing, where

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
_KIB = 1024


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``timeline.csv``; the paper has no such figure, so its device is not named."""
    strategies = list(dict.fromkeys(table["strategy"]))
    if not strategies:
        return nothing("no trace: nothing ran")
    figure, panels = plt.subplots(
        2 * len(strategies),
        1,
        figsize=(11, 2.1 * len(strategies) + 0.8),
        height_ratios=[2, 1] * len(strategies),
        sharex=True,
        squeeze=False,
    )
    for i, strategy in enumerate(strategies):
        rows = table[table["strategy"] == strategy]
        _lanes(panels[2 * i][0], rows)
        panels[2 * i][0].set_title(strategy, fontsize=10, loc="left")
        _bytes(panels[2 * i + 1][0], rows)
    panels[-1][0].set_xlabel("time (µs)")
    panels[-1][0].set_xlim(0, table[["end_us", "device_end_us"]].max().max() * 1.01)
    figure.suptitle(f"Two steps of training, call by call: {where(table)}", fontsize=10)
    keys = [*dict.fromkeys(_PART_OF.values()), _WORK, "kernels"]
    handles = [Patch(color=PARTS[key][0], label=PARTS[key][1]) for key in keys]
    handles.append(Patch(color="#374151", label="device memory"))
    handles.append(Patch(color="#d1d5db", label="pinned memory"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _lanes(axes: Axes, rows: pd.DataFrame) -> None:
    """The host's calls on top; below, a lane per stream with the device's work."""
    worked = rows[rows["device_start_us"].notna()]
    streams = sorted(worked["stream"].dropna().unique())
    for call in dict.fromkeys(rows["call"]):
        part = _PART_OF.get(call, _WORK)
        asked, done = rows[rows["call"] == call], worked[worked["call"] == call]
        _bars(axes, 0, asked["start_us"], asked["end_us"], PARTS[part][0])
        colour = PARTS["kernels" if part == _WORK else part][0]
        for lane, stream in enumerate(streams, 1):
            some = done[done["stream"] == stream]
            _bars(axes, lane, some["device_start_us"], some["device_end_us"], colour)
    names = ["host", *("default stream" if s == 0 else f"stream {s:.0f}" for s in streams)]
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False)


def _bars(axes: Axes, lane: int, start: pd.Series, end: pd.Series, colour: str) -> None:
    axes.broken_barh(list(zip(start, end - start, strict=True)), (lane - 0.38, 0.76), color=colour)


def _bytes(axes: Axes, rows: pd.DataFrame) -> None:
    for column, colour in (("pinned_bytes", "#d1d5db"), ("device_bytes", "#374151")):
        axes.fill_between(rows["end_us"], rows[column] / _KIB, step="post", color=colour, linewidth=0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("KiB held", fontsize=8)
    axes.tick_params(labelsize=8)
