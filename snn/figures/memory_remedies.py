"""What a way to train in less memory saves, over the time that it takes."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures.style import colour, nothing, where

_MIB = 1 << 20


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``memory_remedies.csv``: a bar per cell for the bytes at the peak, and its time over the plain one
    with its 95% interval beside it; a pair of panels per network. The paper has no such figure.
    """
    known = table[table["peak_bytes"].notna() & table["time_ratio"].notna()]
    if known.empty:
        return nothing("memory_remedies: no cell has a peak and a time")
    networks = list(dict.fromkeys(known["network"]))
    height = 1.4 + sum(0.7 + 0.27 * (known["network"] == name).sum() for name in networks)
    figure, grid = plt.subplots(
        len(networks), 2, figsize=(9, height), squeeze=False, width_ratios=(3, 2), sharey="row"
    )
    for (left, right), name in zip(grid, networks, strict=True):
        _pair(left, right, known[known["network"] == name].reset_index(drop=True))
        left.set_title(name if len(name) < 60 else f"{name[:57]}...", fontsize=8, loc="left")
    grid[-1][0].set_xlabel("device memory at the peak (MiB)")
    grid[-1][1].set_xlabel("time of a step over that of plain")
    figure.suptitle(f"Training in less memory: {where(table)}", fontsize=10)
    return figure


def _pair(left: Axes, right: Axes, rows: pd.DataFrame) -> None:
    """The bytes and the times of one network, the plain row on top."""
    colours = [colour(strategy) for strategy in rows["strategy"]]
    left.barh(rows.index, rows["peak_bytes"].astype(float) / _MIB, 0.8, color=colours)
    right.axvline(1, color="#9ca3af", linewidth=1, linestyle="--")
    for i, row in rows.iterrows():
        ratio, low, high = (row[f"time_ratio{end}"] for end in ("", "_ci_low", "_ci_high"))
        spread = None if pd.isna(low) else [[max(0, ratio - low)], [max(0, high - ratio)]]
        right.errorbar(ratio, i, xerr=spread, fmt="o", markersize=4, capsize=3, color=colours[i])
    several = rows["batch_size"].nunique() > 1
    batches = [f", batch of {size}" if several else "" for size in rows["batch_size"]]
    left.set_yticks(rows.index, rows["remedy"] + batches, fontsize=8)
    left.set_ylim(len(rows) - 0.4, -0.6)
    right.margins(x=0.12)
