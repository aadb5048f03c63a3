"""Speedup of a training in one launch over ``graph``, by the time of ``graph``'s step: a marker per shape."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures import layout
from snn.figures.style import BLUE, GREEN, GREY, ORANGE, VERMILLION
from snn.figures.ticks import log_axis

_LOOKS = {1: (BLUE, "o"), 2: (ORANGE, "s"), 3: (GREEN, "^"), 4: (VERMILLION, "D")}
_DEEPER = (GREY, "v")
"""By the number of hidden layers."""


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``shapes.csv``: shapes that both train, coloured by their number of hidden layers.

    Above the dashed line the one launch is faster. The paper has no such figure, so its device is not named.
    """
    rows = table[table["speedup_over_graph"].notna()]
    if not len(rows):
        return layout.nothing("shapes: no shape was trained both in one launch and by graph")
    layers = rows["hidden"].astype(str).str.count("-") + 1
    figure, grid = layout.panels(1, 1, 3.4)
    axes = grid.flat[0]
    for count, each in rows.groupby(layers):
        colour, marker = _LOOKS.get(count, _DEEPER)
        axes.plot(each["graph_us"], each["speedup_over_graph"], marker, color=colour, ms=4)
    axes.axhline(1, color=GREY, linestyle="--", linewidth=0.8)
    log_axis(axes.xaxis)
    axes.set_xlabel("time per step of graph (µs)")
    axes.set_ylabel("speedup over graph")
    log_axis(axes.yaxis)
    key = [
        Line2D([], [], color=colour, linestyle="", marker=marker, label=_name(count))
        for count in sorted(set(layers))
        for colour, marker in [_LOOKS.get(count, _DEEPER)]
    ]
    slower, none = int((rows["speedup_over_graph"] < 1).sum()), int((table["status"] != "ok").sum())
    note = (
        f"Markers: ratio of two medians, without an interval. Of {len(table)} shapes {len(rows)} are shown, "
        f"{slower} of them below the dashed line, where graph is faster; {none} have no plan in one launch."
    )
    about = [*layout.about(table[["device", "backend"]]), "Microbenchmark: random networks and batches."]
    return layout.framed(figure, "Training in one launch beside a CUDA graph, by shape", about, note, key)


def _name(layers: int) -> str:
    return "one hidden layer" if layers == 1 else f"{layers} hidden layers"
