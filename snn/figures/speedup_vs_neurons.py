"""Figure 1: the speedup of ``combined`` by the width of the hidden layer."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from snn.figures.style import PAPER_COLOUR, colour, device_text


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``neurons.csv``: the measured ratio with its 95% interval, and the paper's."""
    where = device_text(table["device"].iloc[0], table["backend"].iloc[0])
    table = table[table["speedup"].notna()].reset_index(drop=True)
    figure, axes = plt.subplots(figsize=(6, 3.8))
    positions = range(len(table))
    axes.errorbar(
        positions,
        table["speedup"],
        yerr=[table["speedup"] - table["speedup_ci_low"], table["speedup_ci_high"] - table["speedup"]],
        marker="o",
        capsize=4,
        color=colour("combined"),
        label=f"measured: {where}",
    )
    published = table["paper_speedup"].notna()
    axes.plot(
        [i for i in positions if published[i]],
        table.loc[published, "paper_speedup"],
        marker="s",
        linestyle="--",
        color=PAPER_COLOUR,
        label=f"paper: {paper_device}",
    )
    axes.axhline(1, color=colour("reference"), linewidth=1, label="as fast as the reference")
    axes.set_xticks(list(positions), table["neurons"].astype(str))
    axes.set_xlabel("neurons in the hidden layer")
    axes.set_ylabel("speedup of combined\n(reference time / combined time)")
    axes.set_ylim(bottom=0)
    axes.legend()
    return figure
