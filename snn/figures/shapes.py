"""Speedup of a training in one launch over ``graph``, by the time of ``graph``'s step: a dot per shape."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures import layout
from snn.figures.style import BLUE, GREEN, GREY, ORANGE, VERMILLION
from snn.figures.ticks import log_axis

_COLOURS = {1: BLUE, 2: ORANGE, 3: GREEN, 4: VERMILLION}
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
        axes.plot(each["graph_us"], each["speedup_over_graph"], "o", color=_COLOURS.get(count, GREY), ms=4)
    axes.axhline(1, color=GREY, linestyle="--", linewidth=0.8)
    log_axis(axes.xaxis)
    axes.set_xlabel("time per step of graph (µs)")
    axes.set_ylabel("speedup over graph")
    log_axis(axes.yaxis)
    key = [
        Line2D([], [], color=_COLOURS.get(count, GREY), linestyle="", marker="o", label=_name(count))
        for count in sorted(set(layers))
    ]
    slower, none = int((rows["speedup_over_graph"] < 1).sum()), int((table["status"] != "ok").sum())
    note = (
        f"Dots: shapes, ratio of two medians. Of {len(table)} shapes {len(rows)} are shown, {slower} of them "
        f"below the dashed line, where graph is faster; {none} have no plan in one launch."
    )
    about = [*layout.about(table[["device", "backend"]]), "Networks and batches drawn at random."]
    return layout.framed(figure, "Training in one launch beside a CUDA graph, by shape", about, note, key)


def _name(layers: int) -> str:
    return "one hidden layer" if layers == 1 else f"{layers} hidden layers"
