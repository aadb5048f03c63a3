"""Two sets of results: the ratio of their times where they are comparable, and each side's own speedups."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.analysis.verdicts import NOT_COMPARABLE
from snn.figures import layout, rows
from snn.figures.style import BLACK, BLUE, ORANGE

_SIDES = {"a": (BLUE, "o", -0.16), "b": (ORANGE, "^", 0.16)}
_LABELS = ("dataset", "network", "strategy")
_NOTE = (
    "Markers: ratio of two mean times, on a log axis; bars: 95% confidence interval of the ratio. Dashed "
    "line: equal times. Rows: data set, network, strategy."
)


def draw(table: pd.DataFrame, name_a: str, name_b: str) -> Figure:
    """From a comparison: a row per cell, dots with 95% intervals, A above B."""
    table = table.sort_values(["dataset", "network"], kind="stable").reset_index(drop=True)
    comparable = table["ratio"].notna().any()
    names = [", ".join(str(cell[name]) for name in _LABELS) for _, cell in table.iterrows()]
    figure, panels = layout.panels(1, 1 + comparable, 0.5 + rows.height_of(names, 0.24), sharey=True)
    at = np.arange(len(table))
    own = panels[0][-1]
    for side, name in (("a", name_a), ("b", name_b)):
        shade, marker, shift = _SIDES[side]
        _dots(own, table, f"speedup_{side}", at + shift, shade, marker, f"{side.upper()}: {name}")
    own.set_xlabel("speedup over its own reference")
    key = own.get_legend_handles_labels()[0]
    if comparable:
        axes = panels[0][0]
        _dots(axes, table, "ratio", at, BLACK, "D", "A's time / B's time")
        axes.set_xlabel("A's time / B's time (above 1: B is faster)")
        for row in table.index[table["ratio"].isna()]:
            rows.beside(axes, row, NOT_COMPARABLE)
    rows.name_rows(panels[0][0], names)
    for axes, columns in zip(panels[0][::-1], (("speedup_a", "speedup_b"), ("ratio",)), strict=False):
        rows.rule(axes, 1.0)
        ends = [f"{column}{end}" for column in columns for end in ("", "_ci_low", "_ci_high")]
        rows.scale(axes, [1.0, *table[ends].to_numpy(float).ravel()], log=True)
        rows.lines_of_values(axes)
    about = [f"A: {name_a}.", f"B: {name_b}."]
    return layout.framed(figure, "Two sets of results", about, _NOTE, key)


def _dots(
    axes: Axes, table: pd.DataFrame, column: str, at: np.ndarray, colour: str, marker: str, label: str
) -> None:
    value, low, high = table[column], table[f"{column}_ci_low"], table[f"{column}_ci_high"]
    spread = [(value - low).clip(lower=0), (high - value).clip(lower=0)]
    axes.errorbar(value, at, xerr=spread, fmt=marker, color=colour, label=label)
