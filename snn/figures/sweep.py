"""The figure of any sweep: time of every cell, grouped by what varied, coloured by strategy."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from snn.figures.style import colour, device_text

_LOG_FROM = 20  # largest over smallest time


def draw(table: pd.DataFrame, axes_of_sweep: Sequence[str], title: str) -> Figure:
    """From a sweep's tidy table: a bar a cell with the standard deviation of its runs."""
    table = table[table["mean_s"].notna()]
    named = {"network.hidden": "network"}
    varied = [named.get(axis, axis) for axis in axes_of_sweep]
    groups = [axis for axis in varied if axis != "strategy" and axis in table] or ["dataset"]
    labels = table[groups].astype(str).agg("\n".join, axis=1)
    points = list(dict.fromkeys(labels))
    strategies = list(dict.fromkeys(table["strategy"]))
    width = 0.8 / len(strategies)
    figure, axes = plt.subplots(figsize=(max(6, 0.28 * len(points) * (len(strategies) + 1)), 4))
    for i, strategy in enumerate(strategies):
        chosen = table[table["strategy"] == strategy]
        x = (
            np.array([points.index(point) for point in labels[chosen.index]])
            + (i - (len(strategies) - 1) / 2) * width
        )
        axes.bar(
            x,
            chosen["mean_s"],
            width * 0.92,
            yerr=chosen["std_s"],
            capsize=2,
            color=colour(strategy),
            label=strategy,
        )
    axes.set_xticks(range(len(points)), points)
    axes.set_xlabel(", ".join(groups))
    axes.set_ylabel("training time (s)")
    if table["mean_s"].max() > _LOG_FROM * table["mean_s"].min():
        axes.set_yscale("log")
    where = device_text(table["device"].iloc[0], table["backend"].iloc[0])
    axes.set_title(f"{title}: {where}", fontsize=10)
    figure.legend(loc="outside lower center", ncols=min(len(strategies), 6), fontsize=8)
    return figure
