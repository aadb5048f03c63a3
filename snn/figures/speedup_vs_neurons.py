"""Figure 1: the speedup of ``combined`` by the width of the hidden layer."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from snn.figures import layout
from snn.figures.style import PAPER_COLOUR, look
from snn.figures.ticks import at_values, linear_axis

_NOTE = (
    "Diamonds: mean time of reference over that of combined; bars: 95% confidence interval of the ratio. "
    "Open squares: published, without an interval."
)
_DIVERGED = " Open circles: the training diverged."


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``neurons.csv``: the ratio with its 95% interval, and the paper's, over log2 of the width."""
    about = layout.about(table, trained)
    table = table[table["speedup"].notna() | table["paper_speedup"].notna()].reset_index(drop=True)
    table["neurons"] = pd.to_numeric(table["neurons"])
    figure, ((axes,),) = layout.panels(1, 1, 2.8)
    published = table[table["paper_speedup"].notna()]
    dashes: dict[str, Any] = {"linestyle": "--", "color": PAPER_COLOUR}
    dashes |= {"marker": "s", "markersize": 7, "fillstyle": "none", "zorder": 2.6}  # around what was measured
    axes.plot(published["neurons"], published["paper_speedup"], **dashes, label=f"published: {paper_device}")
    shade, marker = look("combined")
    axes.errorbar(
        table["neurons"],
        table["speedup"],
        yerr=[table["speedup"] - table["speedup_ci_low"], table["speedup_ci_high"] - table["speedup"]],
        marker=marker,
        color=shade,
        label="measured",
    )
    diverged = table[table["status"] == "diverged"] if "status" in table else table[:0]
    ring = {"marker": "o", "markersize": 10, "fillstyle": "none", "linestyle": "", "color": shade}
    if len(diverged):
        axes.plot(diverged["neurons"], diverged["speedup"], **ring)
    axes.axhline(
        1, color=look("reference").colour, linewidth=0.8, linestyle=":", label="as fast as reference"
    )
    if len(table):
        axes.set_xscale("log", base=2)
        axes.margins(x=0.06)
        at_values(axes.xaxis, table["neurons"])
    axes.set_xlabel("neurons in the hidden layer")
    axes.set_ylabel("speedup of combined over reference")
    axes.set_ylim(bottom=0)
    linear_axis(axes.yaxis)
    *others, measured = axes.get_legend_handles_labels()[0]  # error bars are the last
    key = [measured, *others]
    note = _NOTE + (_DIVERGED if len(diverged) else "")
    return layout.framed(figure, "Speedup of combined by hidden width", about, note, key)
