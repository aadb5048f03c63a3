"""Fragmentation by allocator and trace: memory reserved, memory that suffices, and time per call."""

from typing import Any

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
_APART = 0.2  # rows between the allocators of a trace
_AGAIN = 0.05  # rows by which the first time stands above the middle of both, and the second below
_ROW = 0.58  # inches
_ARROW = 10  # points
_NOTE = (
    "Memory: counted, without an interval. Times: median of the samples; bars: its 95% confidence "
    "interval. Traces of strategies have their names; the others are made by a rule."
)
_TESTED = " Middle: the least of the tested ratios ({ratios}) that sufficed, not an exact value."
_NONE_SUFFICED = " Open, with an arrow to the right: not even this ratio, the largest tested, sufficed."


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``fragmentation.csv``: a panel per quantity with a line per trace and a dot per allocator.

    Times have their 95% interval; hollow dots are those of an allocator that has served the trace before. Of
    the memory that suffices, an open marker with an arrow is the largest tested ratio, where that failed.
    The paper has no such figure, so its device is not named.
    """
    served = table[table["status"] == "ok"]
    if served.empty:
        return layout.nothing("fragmentation: no trace was replayed")
    known = served.assign(suffices=served["suffices"].fillna(served["fails"]))
    panels = {column: title for column, title in _PANELS.items() if known[column].notna().any()}
    traces = list(dict.fromkeys(served["trace"]))
    allocators = list(dict.fromkeys(served["allocator"]))
    figure, grid = layout.panels(1, len(panels), 0.5 + _ROW * len(traces), sharey=True)
    for axes, (column, title) in zip(grid[0], panels.items(), strict=True):
        for number, allocator in enumerate(allocators):
            each = known[(known["allocator"] == allocator) & known[column].notna()]
            heights = [
                traces.index(trace) + _APART * (number - len(allocators) / 2 + 0.5) for trace in each["trace"]
            ]
            if column == "first_us":
                _times(axes, each, heights, LOOKS[allocator])
            else:
                _counted(axes, each, column, heights, LOOKS[allocator])
        shown = ["first_us_high", "again_us_low", column] if column == "first_us" else [column]
        rows.scale(axes, known[shown].to_numpy(float).ravel(), log=True)
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
    note = _NOTE + (_of_ratios(served) if "suffices" in panels else "")
    return layout.framed(figure, "Fragmentation by trace and allocator", about, note, key)


def _of_ratios(served: pd.DataFrame) -> str:
    """What the note says of the ratios under which an allocator was tried."""
    tested = sorted({*served["suffices"].dropna(), *served["fails"].dropna()})
    said = _TESTED.format(ratios=", ".join(f"{ratio:g}" for ratio in tested))
    return said + (_NONE_SUFFICED if _none_sufficed(served).any() else "")


def _none_sufficed(cells: pd.DataFrame) -> pd.Series:
    """Which rows have no more than the largest ratio that was tried, and that failed."""
    return cells["fails"].notna() & ~(cells["suffices"] > cells["fails"])


def _counted(axes: Axes, cells: pd.DataFrame, column: str, heights: list[float], look: Look) -> None:
    """A dot per trace; an open one with an arrow where only ratios that failed are known."""
    beyond = _none_sufficed(cells) if column == "suffices" else pd.Series(False, cells.index)
    for value, height, failed in zip(cells[column], heights, beyond, strict=True):
        shown: dict[str, Any] = {"color": look.colour, "marker": look.marker, "linestyle": ""}
        axes.plot(value, height, markerfacecolor="white" if failed else look.colour, zorder=2.5, **shown)
        if failed:
            arrow = {"arrowstyle": "<-", "color": look.colour, "shrinkA": 0, "shrinkB": 0}
            end: dict[str, Any] = {"xytext": (_ARROW, 0), "textcoords": "offset points"}
            axes.annotate("", xy=(value, height), arrowprops=arrow, annotation_clip=False, **end)


def _times(axes: Axes, cells: pd.DataFrame, heights: list[float], look: Look) -> None:
    """Two dots per trace with their intervals: the first time, and a little below, hollow, the second."""
    for name, offset in (("again_us", _AGAIN), ("first_us", -_AGAIN)):
        ends = zip(cells[name], cells[f"{name}_low"], cells[f"{name}_high"], heights, strict=True)
        for value, low, high, height in ends:
            rows.dot(axes, height + offset, value, (low, high), *look, filled=name == "first_us")
