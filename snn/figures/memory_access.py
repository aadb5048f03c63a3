"""Bandwidth by pattern of memory access: bytes used and asked for per second, beside the device's limits."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.backends.access import AOS, OFFSET, SOA, STRIDE, VECTOR
from snn.figures import layout
from snn.figures.style import BLUE, GREY, ORANGE
from snn.figures.ticks import at_values, log_axis

_COLOURS = {"read": BLUE, "copy": ORANGE}
_PANELS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "strides": ((STRIDE,), "stride (floats)"),
    "structures": ((AOS, SOA), "used fields of 8"),
    "alignment": ((OFFSET,), "offset (floats)"),
    "vector loads": ((VECTOR,), "floats per load"),
}
_MARKERS = {AOS: "s", SOA: "^"}
_NOTE = (
    "Markers: median of the samples, of the bytes that the program uses; bars: its 95% confidence interval. "
    "Dotted: with the rest of the sectors (on a CPU, cache lines) that hold them. What neighbours share "
    "counts for each, but a cache may have it: so this can exceed the limit. "
    "Dashed: the device's measured limit."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``memory_access.csv``: a panel per pattern, useful bytes per second with their 95% interval.

    Dotted lines are the bytes of whole sectors, dashed ones the limits of the device. The paper has no such
    figure, so its device is not named.
    """
    rows = table[table["median"].notna()]
    panels = {title: rows[rows["pattern"].isin(patterns)] for title, (patterns, _) in _PANELS.items()}
    panels = {title: each for title, each in panels.items() if len(each)}
    if not panels:
        return layout.nothing("memory_access: no access was measured")
    lines, columns = layout.arranged(len(panels), 2)
    figure, grid = layout.panels(lines, columns, 2.1 * lines, sharey=True)
    places = list(grid.flat)
    for axes, (title, each) in zip(places, panels.items(), strict=False):
        _panel(axes, each)
        axes.set_title(title, fontweight="bold")
        axes.set_xlabel(_PANELS[title][1])
    for axes in places[len(panels) :]:
        axes.remove()
    log_axis(places[0].yaxis)
    for axes in grid[:, 0]:
        axes.set_ylabel("bandwidth (GB/s)")
    key = [
        Line2D([], [], color=_COLOURS[each], marker="o", label=each) for each in dict.fromkeys(rows["access"])
    ]
    key += [
        Line2D([], [], color=GREY, linestyle=":", label="whole sectors"),
        Line2D([], [], color=GREY, linestyle="--", linewidth=0.8, label="limit"),
    ]
    key += [
        Line2D([], [], color=GREY, linestyle="", marker=marker, label=pattern)
        for pattern, marker in _MARKERS.items()
        if pattern in set(rows["pattern"])
    ]
    about = [*layout.about(table[["device", "backend"]]), "Microbenchmark, without a training."]
    return layout.framed(figure, "Bandwidth by pattern of memory access", about, _NOTE, key)


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    """A line per pattern and access; of useful bytes with markers, of whole sectors dotted."""
    for (pattern, access), each in rows.groupby(["pattern", "access"], sort=False):
        each = each.sort_values("value")
        shade = _COLOURS[access]
        spread = [each["median"] - each["low"], each["high"] - each["median"]]
        axes.errorbar(
            each["value"], each["median"], yerr=spread, color=shade, marker=_MARKERS.get(pattern, "o")
        )
        axes.plot(each["value"], each["moved_gb_s"], color=shade, linestyle=":", zorder=1)
        if each["limit_gb_s"].notna().any():
            axes.axhline(each["limit_gb_s"].iloc[0], color=shade, linestyle="--", linewidth=0.8)
    values = sorted(set(rows["value"]))
    if values[0] > 0:
        axes.set_xscale("log", base=2)
    at_values(axes.xaxis, values)
