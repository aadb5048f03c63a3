"""All strategies ranked by time: a panel per data set and network, the fastest on top."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.analysis.verdicts import NOT_SIGNIFICANT, REFERENCE
from snn.figures.style import colour, list_rows, nothing, texts, times, where


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``strategies.csv``: mean times with the standard deviation of the runs on a log axis, joined by a
    line to the reference's, with the speedup over it; at the bottom, what has no time. The paper has no such
    figure, so its device is not named.
    """
    points = _points(table)
    panels = [table[points == point] for point in dict.fromkeys(points)]
    if not table["mean_s"].notna().any():
        return nothing("no strategy has a time")
    rows = max(map(len, panels))
    figure, grid = plt.subplots(
        1, len(panels), figsize=(max(7.0, 1 + 4.4 * len(panels)), 1.6 + 0.26 * rows), squeeze=False
    )
    for axes, cells, point in zip(grid[0], panels, dict.fromkeys(points), strict=True):
        _panel(axes, cells.sort_values("mean_s", kind="stable").reset_index(drop=True))
        axes.set_title(point, fontsize=10)
    figure.suptitle(f"Strategies ranked by training time: {where(table)}", fontsize=10)
    return figure


def _points(table: pd.DataFrame) -> pd.Series:
    """What the sweep varies in each row, except strategy, kernel, precision and their options."""
    chosen = ("strategy.", "kernel.", "ledger.")
    settings = [name for name in table if "." in name and not name.startswith(chosen)]
    named = ["network"] if table["network"].nunique() > 1 else []
    return texts(table, ["dataset", *named, *settings])


def _panel(axes: Axes, cells: pd.DataFrame) -> None:
    """A row per cell, in the order given; those without a time are last."""
    reference = cells.loc[cells["strategy"] == "reference", "mean_s"].dropna()
    if len(reference):
        axes.axvline(reference.iloc[0], color=colour("reference"), linewidth=1, linestyle="--")
    for i, cell in cells.iterrows():
        mean, shade = cell["mean_s"], colour(cell["strategy"])
        if np.isnan(mean):
            at = axes.get_yaxis_transform()
            axes.text(0.02, i, cell["status"], transform=at, fontsize=7, va="center", color="#6b7280")
            continue
        beside = cell["backend"] == "cpu" and (cells["backend"] != "cpu").any()
        if len(reference) and not beside:  # on the reference's device
            axes.plot([reference.iloc[0], mean], [i, i], color=shade, linewidth=2, alpha=0.35)
        spread = None if np.isnan(cell["std_s"]) else [[min(cell["std_s"], 0.99 * mean)], [cell["std_s"]]]
        axes.errorbar(mean, i, xerr=spread, fmt="s" if beside else "o", markersize=5, capsize=3, color=shade)
        axes.annotate(
            _speedup(cell), (mean, i), xytext=(0, 4), textcoords="offset points", ha="center", fontsize=7
        )
    axes.set_xscale("log")
    axes.margins(x=0.12)
    axes.set_xlabel("training time (s)")
    list_rows(axes, _names(cells))


def _speedup(cell: pd.Series) -> str:
    """The speedup over the reference; with a question mark where it is not significant."""
    ratio, baseline = cell.get("speedup", np.nan), str(cell.get("baseline")).split(", ")
    if baseline[0] != "reference" or np.isnan(ratio) or cell["verdict"] == REFERENCE:
        return ""
    return times(ratio) + ("?" if cell["verdict"] == NOT_SIGNIFICANT else "")


def _names(cells: pd.DataFrame) -> list[str]:
    """The strategies' names, each with the choices in which it differs from most rows: ``graph, cublas``."""
    shown = cells.copy()
    for name in ("kernel", "precision"):
        if name in shown:
            shown[name] = shown[name].where(shown[name] != shown[name].mode()[0])
    options = [name for name in cells if name.startswith(("strategy.", "kernel."))]
    named = [name for name in ("kernel", "precision") if name in shown]
    return texts(shown, ["strategy", *named, *options]).tolist()
