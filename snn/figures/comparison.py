"""Two sets of results: the ratio of their times where they are comparable, and each side's own speedups."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.analysis.verdicts import NOT_COMPARABLE
from snn.figures.style import PAPER_COLOUR

_A, _B = "#2563eb", "#d97706"
_LABELS = ("dataset", "network", "strategy")


def draw(table: pd.DataFrame, name_a: str, name_b: str) -> Figure:
    """From a comparison: a row per cell, dots with 95% intervals, A above B."""
    table = table.sort_values(["dataset", "network"], kind="stable").reset_index(drop=True)
    comparable = table["ratio"].notna().any()
    height = 0.28 * len(table) + 1.8
    figure, panels = plt.subplots(
        1, 1 + comparable, figsize=(6.5 + 4 * comparable, height), sharey=True, squeeze=False
    )
    rows = np.arange(len(table))
    own = panels[0][-1]
    for side, colour, shift, name in (("a", _A, -0.14, name_a), ("b", _B, 0.14, name_b)):
        _dots(own, table, f"speedup_{side}", rows + shift, colour, f"{side.upper()}: {name}")
    own.set_xlabel("speedup over its own reference")
    if comparable:
        axes = panels[0][0]
        _dots(axes, table, "ratio", rows, PAPER_COLOUR, "A's time / B's time")
        axes.set_xlabel("A's time / B's time (above 1: B is faster)")
        for row in table.index[table["ratio"].isna()]:
            axes.text(1, row, NOT_COMPARABLE, fontsize=7, color="#6b7280", ha="center", va="center")
    for axes in panels[0]:
        axes.axvline(1, color="#6b7280", linewidth=1)
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
    labels = [", ".join(str(row[name]) for name in _LABELS) for _, row in table.iterrows()]
    panels[0][0].set_yticks(rows, labels, fontsize=8)
    panels[0][0].set_ylim(len(table) - 0.5, -0.5)
    figure.legend(loc="outside upper center", ncols=1, fontsize=8)
    return figure


def _dots(axes: Axes, table: pd.DataFrame, column: str, rows: np.ndarray, colour: str, label: str) -> None:
    value, low, high = table[column], table[f"{column}_ci_low"], table[f"{column}_ci_high"]
    spread = [(value - low).clip(lower=0), (high - value).clip(lower=0)]
    axes.errorbar(value, rows, xerr=spread, fmt="o", markersize=4, capsize=2, color=colour, label=label)
