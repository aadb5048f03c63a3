"""The memory map over time: each block of a trace as a box from its allocation to its free."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from snn.figures.allocators import label
from snn.figures.style import nothing, where

_MIB = 1 << 20


def draw(table: pd.DataFrame, paper_device: str) -> Figure:
    """From ``memory_map.csv``: a panel per allocator, calls from left to right, places from below.

    The line is what is reserved, the dashed one what is in use. The paper has no such figure, so its device
    is not named.
    """
    rows = table[table["status"] == "ok"]
    if rows.empty:
        return nothing("memory_map: no trace was replayed")
    allocators = list(dict.fromkeys(rows["allocator"]))
    columns = min(2, len(allocators))
    lines = -(-len(allocators) // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(1.4 + 4.4 * columns, 0.6 + 3.2 * lines), sharex=True, squeeze=False
    )
    sizes = LogNorm(float(rows["bytes"].min()), float(rows["bytes"].max()) + 1)
    for axes, allocator in zip(grid.flat, allocators, strict=False):
        _boxes(axes, rows[rows["allocator"] == allocator], sizes)
        axes.set_title(label(allocator, rows["backend"].iloc[0]), fontsize=9)
    for axes in list(grid.flat)[len(allocators) :]:
        axes.axis("off")
    for axes in grid[-1]:
        axes.set_xlabel("call of the trace")
    for axes in grid[:, 0]:
        axes.set_ylabel("place (MiB)")
    bar = figure.colorbar(ScalarMappable(sizes, "viridis"), ax=grid, shrink=0.7)
    bar.set_label("bytes of the block")
    trace = rows["trace"].iloc[0].replace("_", " ")
    figure.suptitle(f"Memory map of the trace {trace}: {where(table)}", fontsize=10)
    return figure


def _boxes(axes: Axes, rows: pd.DataFrame, sizes: LogNorm) -> None:
    values = rows[["allocated", "freed", "place", "bytes", "reserved_bytes", "in_use_bytes"]]
    allocated, freed, place, nbytes, reserved, in_use = values.to_numpy(dtype=float).T
    boxes = [
        Rectangle((at, low), end - at, high)
        for at, end, low, high in zip(allocated, freed, place / _MIB, nbytes / _MIB, strict=True)
    ]
    drawn = PatchCollection(boxes, cmap="viridis", norm=sizes, linewidth=0, rasterized=True)
    drawn.set_array(nbytes)
    axes.add_collection(drawn)
    axes.step(allocated, reserved / _MIB, where="post", color="#111827", linewidth=1, label="reserved")
    axes.step(
        allocated, in_use / _MIB, where="post", color="#111827", linewidth=1, linestyle="--", label="in use"
    )
    axes.set_xlim(0, float(freed.max()))
    axes.set_ylim(0, 1.05 * float(np.max([*((place + nbytes) / _MIB), *(reserved / _MIB)])))
    axes.legend(fontsize=7, loc="lower right")
