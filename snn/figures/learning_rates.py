"""Final loss by learning rate, of ensembles that train all rates in one launch."""

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import deviations, layout
from snn.figures.style import GREY, LINES, MARKERS, SMALLEST, texts
from snn.figures.ticks import at_values, is_wide, linear_axis, log_axis

_NOTE = (
    "Dots: mean final loss over the draws of initial weights whose training ended with a finite loss; "
    "bars: their standard deviation, where there are several. Crosses above the panel: trainings that "
    "diverged, and how many of how many."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``learning_rates.csv``: a line per cell and initialiser over the learning rate, on log axes where
    the values span much. The paper has no such figure, so its device is not named.
    """
    table = table[table["learning_rate"].notna()]
    if not table["final_mse"].notna().any():
        return layout.nothing("learning_rates: no training ended with a finite loss")
    varied = [name for name in ("dataset", "network", "strategy", "initialiser") if table[name].nunique() > 1]
    series = texts(table, varied) if varied else pd.Series("final loss", table.index)
    figure, ((axes,),) = layout.panels(1, 1, 2.8)
    names = list(dict.fromkeys(series))
    for number, name in enumerate(names):
        cells = table[series == name].sort_values("learning_rate")
        style: dict[str, Any] = {
            "color": LINES[number % len(LINES)],
            "marker": MARKERS[number % len(MARKERS)],
        }
        _line(axes, cells, style, name)
        _diverged(axes, cells, style["color"], 1.04 + 0.09 * number)
    _axes(axes, table)
    key = axes.get_legend_handles_labels()[0] if len(names) > 1 else []
    said = f"Final loss by learning rate, {_members(table)} trainings in one launch"
    note = _NOTE + deviations.note(table["final_mse"], _spread(table))
    return layout.framed(figure, said, layout.about(table, trained), note, key)


def _members(table: pd.DataFrame) -> str:
    counts = sorted(set(table["members"].dropna().astype(int)))
    return " or ".join(map(str, counts)) or "all"


def _line(axes: Axes, cells: pd.DataFrame, style: dict[str, Any], label: str) -> None:
    rates, mean, spread = cells["learning_rate"], cells["final_mse"], _spread(cells)
    axes.errorbar(rates, mean, yerr=deviations.lengths(mean, spread), label=label, **style)
    deviations.arrows(axes, mean, spread, rates, style["color"])


def _spread(cells: pd.DataFrame) -> pd.Series:
    """The standard deviation of each mean loss; 0 where it is of one training."""
    return cells.get("final_mse_std", pd.Series(0.0, cells.index)).fillna(0.0)


def _diverged(axes: Axes, cells: pd.DataFrame, shade: str, height: float) -> None:
    """A cross at each rate at which trainings diverged, at this height: above the panel, whose top is 1."""
    for _, cell in cells[cells["status"] == "diverged"].iterrows():
        at = axes.get_xaxis_transform()
        axes.plot(cell["learning_rate"], height, "x", color=shade, transform=at, clip_on=False, markersize=5)
        total, finite = cell["trainings"], cell.get("finite", 0)
        axes.annotate(
            f"{total - finite:.0f} of {total:.0f} diverged",
            (cell["learning_rate"], height), xytext=(-6, 0), xycoords=at, textcoords="offset points",
            ha="right", va="center", fontsize=SMALLEST, color=GREY,
        )  # fmt: skip


def _axes(axes: Axes, table: pd.DataFrame) -> None:
    if is_wide(table["learning_rate"]):
        axes.set_xscale("log")
    axes.margins(x=0.05)
    at_values(axes.xaxis, table["learning_rate"])
    axes.set_xlabel("learning rate")
    axes.set_ylabel("final loss")
    losses = table["final_mse"].dropna()
    if is_wide(losses):
        log_axis(axes.yaxis)
        axes.set_ylim(losses.min() / 1.6, losses.max() * 1.6)
    else:
        axes.set_ylim(0, losses.max() * 1.15)
        linear_axis(axes.yaxis)
