"""The figure of any sweep: the time of every cell, over a number that varies, or a row per cell."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from snn.figures import layout, numbers, rows
from snn.figures.style import texts
from snn.figures.ticks import is_wide
from snn.tables.sweep import SHOWN_BY_NETWORK

_MOST_CELLS = 400  # more are no figure that anyone reads
_MOST_PANELS = 8
_NOTE = "Dots: mean time of a training; bars: standard deviation of the runs."


def draw(table: pd.DataFrame, axes_of_sweep: Sequence[str], title: str, trained: str = "") -> Figure:
    """From a sweep's table: a dot per cell with the standard deviation of its runs.

    Where the sweep varies a number, this is the horizontal axis, with a line per strategy (``numbers``).
    Otherwise each cell has a row, a panel per data set, network and other settings of the training. A cell
    without a time shows its status. Of a sweep of very many cells only the first are drawn, which the title
    says; a sweep's name is written there as words.
    """
    title = title.replace("_", " ")
    if len(table) > _MOST_CELLS:
        title = f"{title}: the first {_MOST_CELLS} of {len(table):,} cells; its table has all"
        table = table.head(_MOST_CELLS)
    if not table["mean_s"].notna().any():
        return layout.nothing(f"{title}: no cell has a time")
    varied = list(
        dict.fromkeys("network" if axis in SHOWN_BY_NETWORK else axis for axis in axes_of_sweep if axis)
    )
    groups = [axis for axis in varied if not _is_choice(axis) and axis in table]
    if axis := numbers.axis_of(table, varied):
        panelled = [each for each in groups if each != axis.name]
        return numbers.draw(table, axis, panelled, title, trained)
    return _rows(table, groups, title, trained)


def _is_choice(axis: str) -> bool:
    return axis in ("strategy", "kernel", "precision") or axis.startswith(("strategy.", "kernel."))


def _rows(table: pd.DataFrame, groups: Sequence[str], title: str, trained: str) -> Figure:
    """A row per cell; a panel per group, and of very many groups a row per group."""
    points, names = texts(table, groups), rows.named(table)
    if points.nunique() > _MOST_PANELS or names.nunique() < 2:
        said = names if names.nunique() > 1 else pd.Series("", table.index)
        names = texts(pd.DataFrame({"name": said.replace("", None), "point": points}), ("name", "point"))
        names, points = names.where(names != "", rows.named(table)), pd.Series("", table.index)
    titles, order = list(dict.fromkeys(points)), list(dict.fromkeys(names))
    figure, panels = rows.grid(order, len(titles))
    beside = rows.on_host(table)
    log = is_wide(table["mean_s"])
    for axes, point in zip(panels, titles, strict=True):
        cells, ends = table[points == point], list[float]()
        for i, cell in cells.iterrows():
            row = order.index(names[i])
            if pd.isna(cell["mean_s"]):
                rows.status(axes, row, cell["status"])
                continue
            ends += rows.mean(axes, row, cell, beside[i])
        rows.scale(axes, ends, log=log)
        axes.set_xlabel("training time (s)")
    key = rows.key(rows.HOST) if beside.any() else []
    note = _NOTE + rows.of_marks(table) + rows.of_blanks(names, points) + rows.usual_kernel(table)
    return rows.framed(
        figure, panels, titles, f"Training time: {title}", layout.about(table, trained), note, key
    )
