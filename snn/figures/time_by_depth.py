"""Figure 2: training time by depth, reference beside combined."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures.style import colour, device_text


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``depth.csv``: measured means with their standard deviations; the paper's in a separate panel,
    since times of two devices do not share an axis."""
    figure, (measured, paper) = plt.subplots(1, 2, figsize=(9, 3.8))
    _bars(measured, table, "", [table["reference_std_s"], table["combined_std_s"]])
    measured.set_title(
        f"measured: {device_text(table['device'].iloc[0], table['backend'].iloc[0])}", fontsize=10
    )
    published = table[table["paper_reference_s"].notna()]
    _bars(paper, published, "paper_", [None, None])
    paper.set_title(f"paper: {paper_device}", fontsize=10)
    measured.set_ylabel("training time (s)")
    measured.legend()
    return figure


def _bars(axes: Axes, table: pd.DataFrame, prefix: str, spreads: list) -> None:
    positions = np.arange(len(table))
    for offset, name, spread in zip((-0.2, 0.2), ("reference", "combined"), spreads, strict=True):
        bars = axes.bar(
            positions + offset,
            table[f"{prefix}{name}_s"],
            0.38,
            yerr=spread,
            capsize=3,
            color=colour(name),
            label=name,
        )
        axes.bar_label(bars, fmt="%.3g", fontsize=8, padding=2)
    axes.set_xticks(positions, table["network"])
    axes.set_xlabel("hidden layers")
    axes.margins(y=0.12)
