"""Figures of the parts of the training time, and of two training steps call by call."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from snn.figures import layout, style
from snn.figures.form import AROUND, Drawing, about, name_rows, set_titles
from snn.figures.names import differing, varied
from snn.figures.style import Look
from snn.figures.ticks import linear_axis
from snn.tables.attribution import LABELS

_STREAMS = ("stream_create", "stream_destroy")
_EVENTS = ("event_create", "event_destroy", "event_record", "event_wait")
_PARTS = {
    "allocation": (style.VERMILLION, "", "", -1.0, 1.0, ("malloc", "free")),
    "host_allocation": (style.ORANGE, "/////", "white", -1.0, 0.0, ("host_alloc", "host_free")),
    "copy_in": (style.BLUE, "\\\\\\\\\\", "white", -1.0, 0.5, ("copy_in",)),
    "copy_out": (style.SKY, "-----", style.BLACK, -0.5, 1.0, ("copy_out",)),
    "waiting": ("#4b5563", "", "", -0.12, 0.12, ("synchronize", "stream_synchronize", "event_synchronize")),
    "streams": (style.YELLOW, "xxxxx", style.BLACK, 0.0, 1.0, (*_STREAMS, *_EVENTS)),
    "launch": (style.PURPLE, "|||||", "white", -0.25, 0.25, ()),
    "kernels": (style.GREEN, "+++++", "white", -0.5, 0.5, ()),
    "host_arithmetic": ("#c4c8ce", "", "", 0.0, 0.0, ()),
}
"""For each part: its colour; its hatch and the hatch's colour, which distinguish parts without colours; the
beginning and end of its boxes in a lane of a timeline, from the top; its calls (all other calls launch).

The three parts without a hatch differ in lightness. Hatches are lines, because dots take half a megabyte in
an SVG file.
"""
_PART_OF = {call: part for part, (*_, calls) in _PARTS.items() for call in calls}
_OUTLINE, _ROW = "#374151", 0.26  # inches
PARTS = {part: (_PARTS[part][0], label) for part, label in LABELS.items()}
"""The colour and the label of each part."""

_MEAN = Look(style.BLACK, "|", "-", size=7.0)
_PREDICTED = Look(style.BLACK, "D", face="white")
_ADD_UP = "the parts add up"  # beginning of the table's note on a row


def box(part: str) -> dict[str, Any]:
    """The style of a part's box, in a bar and in a key."""
    shade, hatch, lines, *_ = _PARTS[part]
    return {"facecolor": shade, "edgecolor": "white", "hatch": hatch, "hatchcolor": lines or "white"}


def attribution(table: pd.DataFrame, paper_device: str = "", trained: str = "") -> Figure:
    """Draw the parts of one run as a stacked bar per strategy, in a panel per data set and network, with the
    measured mean, its standard deviation, and the time predicted from per-call costs."""
    table = table[table["attributed_s"].notna()]
    if table.empty:
        return layout.nothing("no time breakdown: nothing ran")
    table = table.assign(network=table["network"].astype(str))
    order, panel = list(dict.fromkeys(table["strategy"])), differing(table, ("dataset", "network"))
    panel = panel.where(panel != "", table["dataset"])
    names = list(dict.fromkeys(panel))
    figure, panels = layout.panels(len(names), AROUND + _ROW * len(order), sharey=True)
    for axes, name in zip(panels, names, strict=True):
        _stack(axes, table[panel == name], order)
    set_titles(figure, panels, names)
    key: list[Artist] = [Patch(**box(part), label=label) for part, (_, label) in PARTS.items()]
    key += [_MEAN.entry("mean of the runs"), _PREDICTED.entry("predicted")]
    title = "Time breakdown of one training run"
    if varied(table, ["network"]):
        networks = set(table["network"])
        depths = {name.count("-") for name in networks}
        words = {1: "hidden neurons", len(networks): "depth"}
        title += f" by {words.get(len(depths), 'network')}"
    notes = table.get("note", pd.Series("", table.index)).astype(object).fillna("")
    sums = [
        f"{cell['attributed_s'] / cell['mean_s']:.3g} times the mean in {cell['strategy']}, {panel[i]}"
        for i, cell in table[notes.str.contains(_ADD_UP)].iterrows()
    ]
    note = (
        "Coloured: parts of one training run, the median of instrumented passes. Black: mean of the "
        "uninstrumented runs; its bars: standard deviation of the runs. Diamonds: time predicted from "
        "per-call costs, without an interval."
    )
    note += f" The parts add up to {'; to '.join(sums)}." if sums else ""
    return layout.framed(figure, title, about(table, trained), note, key)


def _stack(axes: Axes, cells: pd.DataFrame, order: list[str]) -> None:
    """Draw a stacked bar per strategy, with the measured and the predicted time on top."""
    name_rows(axes, order)
    places = np.array([order.index(strategy) for strategy in cells["strategy"]], dtype=float)
    start = np.zeros(len(cells))
    for part, (_, label) in PARTS.items():
        lengths = cells[f"{part}_s"].to_numpy(float)
        axes.barh(places, lengths, 0.6, left=start, label=label, linewidth=0.5, **box(part))
        start += lengths
    axes.barh(places, start, 0.6, fill=False, edgecolor=_OUTLINE, linewidth=0.5)
    mean, spread = cells["mean_s"], cells["std_s"]
    axes.errorbar(mean, places, xerr=spread, **_MEAN._replace(line="").options)
    axes.plot(cells["predicted_s"], places, label="predicted", **_PREDICTED.options)
    ends = [start.max(), (mean + spread.fillna(0)).max(), cells["predicted_s"].max()]
    axes.set_xlim(0, 1.05 * np.nanmax(ends))
    linear_axis(axes.xaxis, 4)
    axes.set_xlabel("training time (s)")


# ---- call by call


_HALF = 0.38  # height of a lane's boxes; lanes are 1 apart
_KIB = 1024
_DEVICE: dict[str, Any] = {
    "color": style.PALE,
    "label": "device memory",
}  # an area, paler than any part of the time
_PINNED = Look(style.BLACK, "", "-")  # a line, over the area


def timeline(table: pd.DataFrame, paper_device: str = "", trained: str = "") -> Figure:
    """Draw two steps of each strategy: a lane for the host and one per stream, and below the bytes in use."""
    strategies = list(dict.fromkeys(table["strategy"]))
    if not strategies:
        return layout.nothing("no trace: nothing ran")
    lanes = [2 + table.loc[table["strategy"] == name, "stream"].nunique() for name in strategies]
    ratios = [ratio for count in lanes for ratio in (0.18 * count, 0.34)]
    height = (sum(ratios) + 0.4 * len(strategies)) / len(ratios)
    figure, panels = layout.panels(len(ratios), height, 1, height_ratios=ratios, sharex=True)
    for strategy, above, below in zip(strategies, panels[::2], panels[1::2], strict=True):
        calls = table[table["strategy"] == strategy]
        _lanes(above, calls)
        above.set_title(strategy, loc="left", fontweight="bold")
        _bytes(below, calls)
        for axes in (above, below):
            axes.tick_params(labelbottom=axes is panels[-1], length=2)
    panels[-1].set_xlabel("time (µs)")
    panels[-1].set_xlim(0, table[["end_us", "device_end_us"]].max().max() * 1.01)
    linear_axis(panels[-1].xaxis, 8)
    parts = {part: PARTS[part][1] for part in (*_PART_OF.values(), "launch")}
    parts["kernels"] = "kernels"  # work of the device, by its clock
    key: list[Artist] = [Patch(color=PARTS[part][0], label=label) for part, label in parts.items()]
    key += [Patch(**_DEVICE)]
    key += [_PINNED.entry("pinned memory")] if table["pinned_bytes"].any() else []
    note = (
        "One trace of one training run, without an interval. Host: the calls; streams: the work of the "
        "device, by its clock. Device allocations fill the height of a lane; in its upper part are copies "
        "to the device and, shorter, host allocations; in its lower part copies to the host and, shorter, "
        "streams; in the middle launches, kernels and waits. Below each: bytes that are allocated; both "
        "kinds of memory are counted from zero, neither on top of the other."
    )
    return layout.framed(figure, "Two steps of training, call by call", about(table, trained), note, key)


def _lanes(axes: Axes, calls: pd.DataFrame) -> None:
    """Draw the host's calls on top; below, a lane per stream with the device's work."""
    worked = calls[calls["device_start_us"].notna()]
    streams = sorted(worked["stream"].dropna().unique())
    for call in dict.fromkeys(calls["call"]):
        part = _PART_OF.get(call, "launch")
        asked, done = calls[calls["call"] == call], worked[worked["call"] == call]
        _boxes(axes, 0, asked["start_us"], asked["end_us"], part)
        work = "kernels" if part == "launch" else part
        for lane, stream in enumerate(streams, 1):
            some = done[done["stream"] == stream]
            _boxes(axes, lane, some["device_start_us"], some["device_end_us"], work)
    names = ["host", *("default stream" if s == 0 else f"stream {s:.0f}" for s in streams)]
    name_rows(axes, names)
    axes.grid(visible=False)


def _boxes(axes: Axes, lane: int, start: pd.Series, end: pd.Series, part: str) -> None:
    boxes = list(zip(start, end - start, strict=True))
    shade, _, _, top, bottom, _ = _PARTS[part]
    place = (lane + _HALF * top, _HALF * (bottom - top))
    axes.broken_barh(boxes, place, color=shade, linewidth=0.3, rasterized=True)


def _bytes(axes: Axes, calls: pd.DataFrame) -> None:
    """Draw device memory as an area and pinned memory as a line, each from zero, so that both show."""
    axes.fill_between(calls["end_us"], calls["device_bytes"] / _KIB, step="post", linewidth=0, **_DEVICE)
    if calls["pinned_bytes"].any():
        options = _PINNED.options | {"zorder": 2}
        axes.step(calls["end_us"], calls["pinned_bytes"] / _KIB, where="post", **options)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("KiB")
    linear_axis(axes.yaxis, 2)


FORMS: dict[str, Drawing] = {"attribution": attribution, "timeline": timeline}
