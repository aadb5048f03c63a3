"""What a way to train in less memory saves, over the time that it takes."""

import textwrap

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout, rows
from snn.figures.style import colour, times
from snn.figures.ticks import linear_axis

_MIB = 1 << 20
_LETTERS = 54  # of a title's line
_NOTE = (
    "Left: device memory at the peak, counted, without an interval. Right: time of a step over that of "
    "plain with the same batch size, the dashed line; bars: 95% confidence interval of the ratio."
)


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``memory_remedies.csv``: a bar per cell for the bytes at the peak, and its time over the plain one
    with its 95% interval beside it; a pair of panels per network. The paper has no such figure.
    """
    known = table[table["peak_bytes"].notna() & table["time_ratio"].notna()]
    if known.empty:
        return layout.nothing("memory_remedies: no cell has a peak and a time")
    networks = list(dict.fromkeys(known["network"]))
    lengths = [(known["network"] == name).sum() for name in networks]
    height = sum(1.15 + rows.ROW * length for length in lengths)
    figure, grid = layout.panels(
        len(networks), 2, height, width_ratios=(3, 2), height_ratios=lengths, sharey="row"
    )
    for (left, right), name in zip(grid, networks, strict=True):
        cells = known[known["network"] == name].reset_index(drop=True)
        _pair(left, right, cells)
        said = f"{textwrap.fill(str(name), _LETTERS)}\n{_trained(cells)}"
        left.set_title(said, loc="left", fontweight="bold", x=0)
        left.set_xlabel("device memory at the peak (MiB)")
        right.set_xlabel("time of a step over that of plain")
    return layout.framed(figure, "Training in less memory", layout.about(table, trained), _NOTE)


def _trained(cells: pd.DataFrame) -> str:
    """The data and the batch sizes of one network: ``data: patterns; batch: 1024``."""
    columns = {"data": "dataset", "batch": "batch_size"}
    return "; ".join(f"{said}: {', '.join(map(str, cells[name].unique()))}" for said, name in columns.items())


def _pair(left: Axes, right: Axes, cells: pd.DataFrame) -> None:
    """The bytes and the times of one network, the plain row on top."""
    several = cells["batch_size"].nunique() > 1
    batches = [f", batch of {size}" if several else "" for size in cells["batch_size"]]
    for axes in (right, left):
        rows.name_rows(axes, cells["remedy"] + batches)
    right.tick_params(labelleft=False)
    colours = [colour(strategy) for strategy in cells["strategy"]]
    left.barh(cells.index, cells["peak_bytes"].astype(float) / _MIB, 0.7, color=colours)
    left.set_xlim(left=0)
    linear_axis(left.xaxis)
    rows.rule(right, 1.0)
    for i, cell in cells.iterrows():
        ratio, low, high = (cell[f"time_ratio{end}"] for end in ("", "_ci_low", "_ci_high"))
        rows.dot(right, i, ratio, (low, high), colours[i])
        rows.beside(right, i, times(ratio))
    right.margins(x=0.12)
    linear_axis(right.xaxis, 4)
