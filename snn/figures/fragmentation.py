"""Fragmentation by allocator and trace: memory reserved, memory that suffices, and time per call."""

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures import layout, rows
from snn.figures.allocators import LOOKS, label
from snn.figures.style import GREY, Look

_PANELS = {
    "reserved_over_used": "peak reserved / peak in use",
    "suffices": "least that sufficed / peak in use",
    "first_us": "time per call (µs)",
}
_APART = 0.18  # rows between the allocators of a trace
_NOTE = (
    "Memory: counted, without an interval. Times: median of the samples; bars: its 95% confidence "
    "interval. Traces of strategies have their names; the others are made by a rule."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``fragmentation.csv``: a panel per quantity with a line per trace and a dot per allocator.

    Times have their 95% interval; hollow dots are those of an allocator that has served the trace before.
    The paper has no such figure, so its device is not named.
    """
    served = table[table["status"] == "ok"]
    if served.empty:
        return layout.nothing("fragmentation: no trace was replayed")
    panels = {column: title for column, title in _PANELS.items() if served[column].notna().any()}
    traces = list(dict.fromkeys(served["trace"]))
    allocators = list(dict.fromkeys(served["allocator"]))
    figure, grid = layout.panels(1, len(panels), 0.5 + 0.4 * len(traces), sharey=True)
    for axes, (column, title) in zip(grid[0], panels.items(), strict=True):
        for number, allocator in enumerate(allocators):
            each = served[(served["allocator"] == allocator) & served[column].notna()]
            heights = [
                traces.index(trace) + _APART * (number - len(allocators) / 2 + 0.5) for trace in each["trace"]
            ]
            _dots(axes, each, column, heights, LOOKS[allocator])
        shown = ["first_us_high", "again_us_low", column] if column == "first_us" else [column]
        rows.scale(axes, served[shown].to_numpy(float).ravel(), log=True)
        axes.set_xlabel(title)
    rows.name_rows(grid[0][0], [trace.replace("_", " ") for trace in traces])
    for axes in grid[0]:
        rows.bands(axes, len(traces))
        rows.lines_of_values(axes)
    backend = served["backend"].iloc[0]
    key: list[Artist] = [
        Line2D([], [], color=shade, marker=marker, linestyle="", label=label(name, backend))
        for name in allocators
        for shade, marker in [LOOKS[name]]
    ]
    if "first_us" in panels:
        key.append(
            Line2D([], [], color=GREY, marker="o", mfc="white", linestyle="", label="trace served again")
        )
    about = [*layout.about(table[["device", "backend"]]), "Microbenchmark, without a training."]
    return layout.framed(figure, "Fragmentation by trace and allocator", about, _NOTE, key)


def _dots(axes: Axes, cells: pd.DataFrame, column: str, heights: list[float], look: Look) -> None:
    """A dot per trace; of times with their intervals, and hollow ones of the second time."""
    if column != "first_us":
        axes.plot(cells[column], heights, color=look.colour, marker=look.marker, linestyle="")
        return
    for name, filled in (("again_us", False), ("first_us", True)):
        ends = zip(cells[name], cells[f"{name}_low"], cells[f"{name}_high"], heights, strict=True)
        for value, low, high, height in ends:
            rows.dot(axes, height, value, (low, high), *look, filled=filled)
