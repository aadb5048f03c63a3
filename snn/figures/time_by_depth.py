"""Figure 2: training time by depth, reference beside combined."""

from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.figures import layout
from snn.figures.style import SMALLEST, colour
from snn.figures.ticks import linear_axis

_MEANS = ["reference_s", "combined_s"]
_HATCHES = {"reference": "", "combined": "////"}
_NOTE = (
    "Coloured: mean time of a training; bars: standard deviation of the runs. Published values have no "
    "interval. The two devices have axes of their own."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``depth.csv``: measured means with their standard deviations; the paper's in a separate panel,
    since times of two devices do not share an axis. Networks stand at their numbers of hidden layers."""
    figure, ((measured, paper),) = layout.panels(1, 2, 2.7)
    _bars(measured, table, "", [table["reference_std_s"], table["combined_std_s"]])
    measured.set_title("measured", fontweight="bold")
    published = table[table["paper_reference_s"].notna()]
    _bars(paper, published, "paper_", [None, None])
    paper.set_title(f"published: {paper_device}", fontweight="bold")
    measured.set_ylabel("training time (s)")
    key = [
        Patch(facecolor=colour(name), hatch=hatch, edgecolor="white", label=name)
        for name, hatch in _HATCHES.items()
    ]
    note = " ".join([_NOTE, *_of_few_runs(table), *_of_verdicts(table)])
    return layout.framed(figure, "Training time by depth", layout.about(table, trained), note, key)


def _of_few_runs(table: pd.DataFrame) -> list[str]:
    single = (table[["reference_std_s", "combined_std_s"]].isna() & table[_MEANS].notna().to_numpy()).any(
        axis=1
    )
    return ["A mean without a bar is of a single run."] if single.any() else []


def _of_verdicts(table: pd.DataFrame) -> list[str]:
    alike = table.loc[table["verdict"] == NOT_SIGNIFICANT, "network"].astype(str)
    return [f"Not significant: the difference for {', '.join(alike)}."] if len(alike) else []


def _bars(axes: Axes, table: pd.DataFrame, prefix: str, spreads: list) -> None:
    places = _depths(table)
    width = 0.38 * min([1.0, *(right - left for left, right in pairwise(sorted(places)))])
    for offset, (name, hatch), spread in zip((-0.52, 0.52), _HATCHES.items(), spreads, strict=True):
        at = [place + offset * width for place in places]
        look: dict[str, Any] = {"color": colour(name), "hatch": hatch, "edgecolor": "white", "linewidth": 0}
        bars = axes.bar(at, table[f"{prefix}{name}_s"], width, yerr=spread, label=name, **look)
        axes.bar_label(bars, fmt="%.3g", fontsize=SMALLEST, padding=2)
    labels = [f"{place:g}\n{network}" for place, network in zip(places, table["network"], strict=True)]
    axes.set_xticks(places, labels)
    axes.set_xlabel("hidden layers, and their widths")
    axes.margins(y=0.12)
    axes.grid(visible=False)  # the numbers say the heights, and no line runs through them
    linear_axis(axes.yaxis)


def _depths(table: pd.DataFrame) -> list[float]:
    """The number of hidden layers of each network; those of one number stand beside each other."""
    depths = [float(len(str(network).split("-"))) for network in table["network"]]
    return [depth + depths[:i].count(depth) / depths.count(depth) for i, depth in enumerate(depths)]
