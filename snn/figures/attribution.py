"""Time breakdown of one training: a stacked bar per strategy, a panel per data set and network."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from snn.figures import layout, rows
from snn.figures.style import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, YELLOW
from snn.figures.ticks import linear_axis
from snn.tables.attribution import LABELS

_COLOURS = {
    "allocation": VERMILLION,
    "host_allocation": ORANGE,
    "streams": YELLOW,
    "copy_in": BLUE,
    "copy_out": SKY,
    "launch": PURPLE,
    "kernels": GREEN,
    "waiting": "#4b5563",
    "host_arithmetic": "#c4c8ce",
}
_HATCHES = {
    "host_allocation": ("/////", "white"),
    "streams": ("xxxxx", BLACK),
    "copy_in": ("\\\\\\\\\\", "white"),
    "copy_out": ("-----", BLACK),
    "launch": ("|||||", "white"),
    "kernels": ("+++++", "white"),
}
"""The hatch of a part and its colour: parts are told apart without their colours as well.

The three without one differ in lightness. Hatches are of lines: in an SVG file dots take half a megabyte.
"""
_OUTLINE = "#374151"
PARTS = {part: (_COLOURS[part], label) for part, label in LABELS.items()}
"""The colour and the label of each part."""

_NOTE = (
    "Coloured: parts of one training, the median of instrumented passes. Black: mean of the uninstrumented "
    "runs; its bars: standard deviation of the runs. Diamonds: time predicted from per-call costs, without "
    "an interval."
)


def box(part: str) -> dict[str, Any]:
    """How the box of a part is drawn, in a bar and in a key."""
    hatch, lines = _HATCHES.get(part, ("", "white"))
    return {"facecolor": PARTS[part][0], "edgecolor": "white", "hatch": hatch, "hatchcolor": lines}


_ADD_UP = "the parts add up"  # begins the table's note on a row


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``attribution.csv``: the parts of one run, the measured mean with its standard deviation, and the
    time predicted from per-call costs.

    The paper has no such figure, so its device is not named.
    """
    table = table[table["attributed_s"].notna()]
    if table.empty:
        return layout.nothing("no time breakdown: nothing ran")
    order, trained_on = list(dict.fromkeys(table["strategy"])), _trained_on(table)
    names = list(dict.fromkeys(trained_on))
    figure, panels = rows.grid(order, len(names), height=0.26)
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, table[trained_on == name], order)
    key: list[Artist] = [Patch(**box(part), label=label) for part, (_, label) in PARTS.items()]
    key += [
        Line2D([], [], color=BLACK, marker="|", label="mean of the runs"),
        Line2D([], [], color=BLACK, marker="D", markerfacecolor="white", linestyle="", label="predicted"),
    ]
    note = _NOTE + _of_sums(table, trained_on)
    return rows.framed(figure, panels, names, _title(table), layout.about(table, trained), note, key)


def _trained_on(table: pd.DataFrame) -> pd.Series:
    """What each row trains, by what differs: the data set, or the hidden layers, or both."""
    networks = table["network"].astype(str)
    if networks.nunique() == 1:
        return table["dataset"]
    return networks if table["dataset"].nunique() == 1 else table["dataset"] + ", " + networks


def _title(table: pd.DataFrame) -> str:
    """The title, with what the panels compare if that is networks."""
    networks = set(table["network"].astype(str))
    if len(networks) == 1:
        return "Time breakdown of one training"
    has_depths = len({network.count("-") for network in networks}) > 1
    return f"Time breakdown of one training by {'depth' if has_depths else 'hidden neurons'}"


def _of_sums(table: pd.DataFrame, trained_on: pd.Series) -> str:
    """What the note says of rows whose parts add up to another time than the mean, by the table's note."""
    notes = table.get("note", pd.Series("", table.index)).astype(object).fillna("")
    differ = table[notes.str.contains(_ADD_UP)]
    sums = [
        f"{row['attributed_s'] / row['mean_s']:.3g} times the mean in {row['strategy']}, {trained_on[i]}"
        for i, row in differ.iterrows()
    ]
    return f" The parts add up to {'; to '.join(sums)}." if sums else ""


def _panel(axes: Axes, cells: pd.DataFrame, order: list[str]) -> None:
    """A stacked bar per strategy; below it what was measured, above it what was predicted."""
    places = np.array([order.index(strategy) for strategy in cells["strategy"]], dtype=float)
    start = np.zeros(len(cells))
    for part, (_, label) in PARTS.items():
        lengths = cells[f"{part}_s"].to_numpy(float)
        axes.barh(places, lengths, 0.6, left=start, label=label, linewidth=0.5, **box(part))
        start += lengths
    axes.barh(places, start, 0.6, fill=False, edgecolor=_OUTLINE, linewidth=0.5)
    mean, spread = cells["mean_s"], cells["std_s"]
    axes.errorbar(mean, places, xerr=spread, fmt="|", color=BLACK, markersize=7, label="measured")
    diamonds: dict[str, Any] = {"markersize": 4, "mec": BLACK, "mfc": "white", "label": "predicted"}
    axes.plot(cells["predicted_s"], places, "D", **diamonds)
    axes.set_xlim(
        0, 1.05 * np.nanmax([start.max(), (mean + spread.fillna(0)).max(), cells["predicted_s"].max()])
    )
    linear_axis(axes.xaxis, 4)
    axes.set_xlabel("training time (s)")
