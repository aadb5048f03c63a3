"""All strategies ranked by time: a panel per data set and network, the fastest on top."""

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.analysis.verdicts import REFERENCE
from snn.figures import layout, rows
from snn.figures.style import BLUE, texts, times

_NOTE = (
    "Dots: mean time of a training, on a log axis; bars: standard deviation of the runs. On the right: "
    "speedup over reference, where this is the row's baseline; ? marks what is not significant at 95%."
)
_ROUNDS = "the reference in the same rounds, not over the dashed line"
_SHARED = " Rows are in the order of the geometric mean over the panels."


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``strategies.csv``: mean times with the standard deviation of the runs on a log axis, joined by a
    line to the reference's, with the speedup over it; at the bottom, what has no time. The paper has no such
    figure, so its device is not named.
    """
    if not table["mean_s"].notna().any():
        return layout.nothing("no strategy has a time")
    points, names = _points(table), rows.named(table)
    order = rows.in_order(table, names, points, "mean_s")
    titles = list(dict.fromkeys(points))
    figure, panels = rows.grid(order, len(titles))
    for axes, point in zip(panels, titles, strict=True):
        _panel(axes, table[points == point], names, order)
    beside = rows.on_host(table).any()
    key: list[Artist] = [rows.dashed("reference")] if (table["strategy"] == "reference").any() else []
    key += rows.key(rows.HOST) if beside else []
    note = _NOTE + rows.of_common_rounds(_ratios(table, points), _ROUNDS)
    note += (_SHARED if len(titles) > 1 else "") + rows.of_marks(table)
    note += rows.of_blanks(names, points) + rows.usual_kernel(table)
    return rows.framed(
        figure, panels, titles, "Strategies ranked by training time", layout.about(table, trained), note, key
    )


def _points(table: pd.DataFrame) -> pd.Series:
    """What the sweep varies in each row, except strategy, kernel, precision and their options."""
    chosen = ("strategy.", "kernel.", "ledger.")
    settings = [name for name in table if "." in name and not name.startswith(chosen)]
    named = ["network"] if table["network"].nunique() > 1 else []
    return texts(table, ["dataset", *named, *settings])


def _panel(axes: Axes, cells: pd.DataFrame, names: pd.Series, order: list[str]) -> None:
    """A row per cell, in the order given."""
    reference = cells.loc[cells["strategy"] == "reference", "mean_s"].dropna()
    start = float(reference.iloc[0]) if len(reference) else np.nan
    rows.rule(axes, start)
    beside, ends = rows.on_host(cells), [start]
    for i, cell in cells.iterrows():
        row, mean = order.index(names[i]), cell["mean_s"]
        if np.isnan(mean):
            rows.status(axes, row, cell["status"])
            continue
        if not beside[i] and not np.isnan(start):  # on the reference's device
            axes.plot([start, mean], [row, row], color=BLUE, linewidth=2, alpha=0.35, solid_capstyle="butt")
        ends += rows.mean(axes, row, cell, beside[i])
        rows.beside(axes, row, _speedup(cell))
    rows.scale(axes, ends, log=True)
    axes.set_xlabel("training time (s)")


def _ratios(table: pd.DataFrame, points: pd.Series) -> pd.Series:
    """The speedups that are shown, each over the quotient of the means."""
    if "speedup" not in table:
        return pd.Series(dtype=float)
    references = table[table["verdict"] == REFERENCE].groupby(points)["mean_s"].first()
    shown = table.apply(_speedup, axis=1) != ""
    return (table["speedup"] / (points.map(references) / table["mean_s"]))[shown]


def _speedup(cell: pd.Series) -> str:
    """The speedup over the reference, where this is the row's baseline."""
    ratio, baseline = cell.get("speedup", np.nan), str(cell.get("baseline")).split(", ")
    if baseline[0] != "reference" or np.isnan(ratio) or cell["verdict"] == REFERENCE:
        return ""
    return times(ratio, cell["verdict"])
