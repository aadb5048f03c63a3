"""Reduced precision: training time and final loss, each beside fp32's."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout, rows
from snn.figures.style import BLACK, BLUE, GREY, ORANGE, Look, texts, varied
from snn.figures.ticks import linear_axis

_LOOKS = {"fp32": Look(GREY, "o"), "tf32": Look(BLUE, "s"), "bf16": Look(ORANGE, "D")}
_NOTE = (
    "Left: mean time of a training; bars: standard deviation of the runs. Right: final loss over that of "
    "fp32, less one; bars: 95% confidence interval over the seeds, and whether the training converges as "
    "that in fp32."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``precision.csv``: on the left times with the standard deviation of the runs, on the right the
    relative difference of the final loss from fp32's, with its 95% interval over seeds. A pair of panels per
    network. The paper has no such figure, so its device is not named.
    """
    if not table["mean_s"].notna().any():
        return layout.nothing("precision: no cell has a time")
    points = texts(table, varied(table, ("dataset", "network")))
    names = texts(table, ("kernel", "precision"))
    titles, order = list(dict.fromkeys(points)), list(dict.fromkeys(names))
    figure, panels = rows.grid(order, 2 * len(titles), most=2)
    for number, point in enumerate(titles):
        left, right = panels[2 * number : 2 * number + 2]
        cells = table[points == point]
        _times(left, cells, names, order)
        _losses(right, cells, names, order)
    key = rows.key({name: _LOOKS[name] for name in table["precision"] if name in _LOOKS})
    said = [_titled(point, what) for point in titles for what in ("time", "loss")]
    about = layout.about(table, trained)
    return rows.framed(figure, panels, said, "Reduced precision", about, _NOTE, key)


def _titled(point: str, what: str) -> str:
    return f"{point}: {what}" if point else what


def _times(axes: Axes, cells: pd.DataFrame, names: pd.Series, order: list[str]) -> None:
    for i, cell in cells.iterrows():
        row, mean = order.index(names[i]), cell["mean_s"]
        if pd.isna(mean):
            rows.status(axes, row, cell["status"])
            continue
        rows.dot(axes, row, mean, (mean - cell["std_s"], mean + cell["std_s"]), *_look(cell["precision"]))
    rows.scale(axes, cells["mean_s"] + cells["std_s"].fillna(0), log=False)
    axes.set_xlabel("training time (s)")


def _losses(axes: Axes, cells: pd.DataFrame, names: pd.Series, order: list[str]) -> None:
    rows.rule(axes, 0.0)
    for i, cell in cells.iterrows():
        row, value = order.index(names[i]), cell["relative_difference"]
        if pd.isna(value) or not isinstance(cell["convergence"], str):
            continue
        ends = cell["relative_difference_ci_low"], cell["relative_difference_ci_high"]
        rows.dot(axes, row, 100 * value, (100 * ends[0], 100 * ends[1]), *_look(cell["precision"]))
        rows.beside(axes, row, cell["convergence"])
    axes.margins(x=0.08)
    linear_axis(axes.xaxis, 4)
    axes.set_xlabel("final loss relative to fp32 (%)")


def _look(precision: str) -> Look:
    return _LOOKS.get(precision, Look(BLACK, "^"))
