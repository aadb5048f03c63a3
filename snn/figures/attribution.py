"""Time breakdown of one training: a stacked bar per strategy, a panel per data set."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from snn.figures.style import nothing, where
from snn.tables.attribution import LABELS

_COLOURS = {
    "allocation": "#b91c1c",
    "host_allocation": "#f97316",
    "streams": "#facc15",
    "copy_in": "#1d4ed8",
    "copy_out": "#60a5fa",
    "launch": "#7c3aed",
    "kernels": "#059669",
    "waiting": "#c4b5fd",
    "host_arithmetic": "#9ca3af",
}
PARTS = {part: (_COLOURS[part], label) for part, label in LABELS.items()}
"""The colour and the label of each part."""


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``attribution.csv``: the parts of one run, the measured mean with its standard deviation, and the
    time predicted from per-call costs.

    The paper has no such figure, so its device is not named.
    """
    table = table[table["attributed_s"].notna()]
    if table.empty:
        return nothing("no time breakdown: nothing ran")
    datasets = list(dict.fromkeys(table["dataset"]))
    figure, panels = plt.subplots(1, len(datasets), figsize=(1.5 + 3.4 * len(datasets), 4.4), squeeze=False)
    for axes, dataset in zip(panels[0], datasets, strict=True):
        rows = table[table["dataset"] == dataset]
        positions, bottom = np.arange(len(rows)), np.zeros(len(rows))
        for part, (colour, label) in PARTS.items():
            heights = rows[f"{part}_s"].to_numpy(float)
            axes.bar(positions, heights, 0.7, bottom=bottom, color=colour, label=label)
            bottom += heights
        axes.errorbar(
            positions, rows["mean_s"], yerr=rows["std_s"], fmt="_", color="black", capsize=4, label="measured"
        )
        axes.plot(
            positions, rows["predicted_s"], "D", markersize=5, mec="black", mfc="white", label="predicted"
        )
        axes.set_xticks(positions, rows["strategy"], rotation=30, ha="right")
        axes.set_title(dataset, fontsize=10)
    panels[0][0].set_ylabel("training time (s)")
    figure.suptitle(f"Time breakdown of one training: {where(table)}", fontsize=10)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, fontsize=8)
    return figure
