"""The memory map over time: each block of a trace as a box from its allocation to its free."""

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from snn.figures import layout
from snn.figures.allocators import label
from snn.figures.style import BLACK
from snn.figures.ticks import linear_axis

_MIB = 1 << 20
_SIZES = LinearSegmentedColormap.from_list("sizes", mpl.colormaps["viridis"](np.linspace(0.2, 1, 256)))
"""Dark to light, for all readers; without the darkest, on which the black lines would be lost."""
_UNITS = ((30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))
_NOTE = (
    "Boxes: blocks, from the call that allocates one to the call that frees it. Places: addresses, "
    "without those that no block touches. Lines: amounts; they end at the last call that allocates. One "
    "replay of the trace, without an interval."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``memory_map.csv``: a panel per allocator, calls from left to right, places from below.

    The line is what is reserved, the dashed one what is in use. The paper has no such figure, so its device
    is not named.
    """
    rows = table[table["status"] == "ok"]
    if rows.empty:
        return layout.nothing("memory_map: no trace was replayed")
    allocators = list(dict.fromkeys(rows["allocator"]))
    lines, columns = layout.arranged(len(allocators), 2)
    figure, grid = layout.panels(lines, columns, 2.3 * lines, sharex=True)
    least, most = float(rows["bytes"].min()), float(rows["bytes"].max()) + 1
    sizes = LogNorm(least, most)
    for axes, allocator in zip(grid.flat, allocators, strict=False):
        _boxes(axes, rows[rows["allocator"] == allocator], sizes)
        axes.set_title(label(allocator, rows["backend"].iloc[0]), fontweight="bold")
    for axes in list(grid.flat)[len(allocators) :]:
        axes.remove()
    for axes in grid[-1]:
        axes.set_xlabel("call of the trace")
    for axes in grid[:, 0]:
        axes.set_ylabel("place of a block,\namount of a line (MiB)")
    bar = figure.colorbar(ScalarMappable(sizes, _SIZES), ax=grid, shrink=0.8)
    bar.ax.yaxis.set_minor_locator(mpl.ticker.NullLocator())
    shown = [size for size in (1 << shift for shift in range(0, 41, 5)) if least <= size <= most]
    bar.set_ticks(shown, labels=[_size(size) for size in shown])
    bar.set_label("size of the block")
    trace = rows["trace"].iloc[0].replace("_", " ")
    about = [
        *layout.about(table[["device", "backend"]]),
        f"Microbenchmark, without a training. Trace: {trace}.",
    ]
    key = [
        Line2D([], [], color=BLACK, linewidth=1, label="reserved"),
        Line2D([], [], color=BLACK, linewidth=1, linestyle="--", label="in use"),
    ]
    return layout.framed(figure, "Memory map over time", about, _NOTE, key)


def _boxes(axes: Axes, rows: pd.DataFrame, sizes: LogNorm) -> None:
    values = rows[["allocated", "freed", "place", "bytes", "reserved_bytes", "in_use_bytes"]]
    allocated, freed, place, nbytes, reserved, in_use = values.to_numpy(dtype=float).T
    boxes = [
        Rectangle((at, low), end - at, high)
        for at, end, low, high in zip(allocated, freed, place / _MIB, nbytes / _MIB, strict=True)
    ]
    drawn = PatchCollection(boxes, cmap=_SIZES, norm=sizes, linewidth=0, rasterized=True)
    drawn.set_array(nbytes)
    axes.add_collection(drawn)
    for heights, style in ((reserved, "-"), (in_use, "--")):
        axes.step(allocated, heights / _MIB, where="post", color=BLACK, linewidth=1, linestyle=style)
    axes.set_xlim(0, float(freed.max()))
    axes.set_ylim(0, 1.05 * float(np.max([*((place + nbytes) / _MIB), *(reserved / _MIB)])))
    linear_axis(axes.xaxis)
    linear_axis(axes.yaxis)


def _size(nbytes: int) -> str:
    shift, unit = next((shift, unit) for shift, unit in _UNITS if nbytes >= 1 << shift)
    return f"{nbytes / (1 << shift):g} {unit}"
