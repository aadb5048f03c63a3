"""What a way to train in less memory saves, over the time that it takes."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout, rows
from snn.figures.style import BLUE, times
from snn.figures.ticks import linear_axis

_MIB = 1 << 20
_NOTE = (
    "Left: device memory at the peak, counted, without an interval. Right: time of a step over that of "
    "plain with the same batch size, the dashed line; bars: 95% confidence interval of the ratio."
)
_BATCHES = " The batch is that of the panel's title, unless a row names another."


def draw(table: pd.DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From ``memory_remedies.csv``: a bar per cell for the bytes at the peak, and its time over the plain one
    with its 95% interval beside it; a pair of panels per network. The paper has no such figure.
    """
    known = table[table["peak_bytes"].notna() & table["time_ratio"].notna()]
    if known.empty:
        return layout.nothing("memory_remedies: no cell has a peak and a time")
    networks = list(dict.fromkeys(known["network"]))
    titles = _titles(known)
    lengths = [(known["network"] == name).sum() for name in networks]
    height = sum(1.15 + rows.ROW * length for length in lengths)
    figure, grid = layout.panels(
        len(networks), 2, height, width_ratios=(3, 2), height_ratios=lengths, sharey="row"
    )
    for (left, right), name in zip(grid, networks, strict=True):
        cells = known[known["network"] == name].reset_index(drop=True)
        _pair(left, right, cells)
        layout.titled(left, f"{titles[name]}, batch of {_usual_batch(cells)}", layout.WIDTH / 2)
        left.set_xlabel("device memory at the peak (MiB)")
        right.set_xlabel("time of a step over that of plain")
    several = known.groupby("network")["batch_size"].nunique().max() > 1
    note = _NOTE + (_BATCHES if several else "")
    return layout.framed(figure, "Training in less memory", layout.about(table, trained), note)


def _titles(cells: pd.DataFrame) -> dict[str, str]:
    """The data of each network; where two have the same, the networks' own names."""
    data = cells.groupby("network", sort=False)["dataset"].agg(lambda names: ", ".join(names.unique()))
    return dict(data) if data.is_unique else {str(name): str(name) for name in data.index}


def _usual_batch(cells: pd.DataFrame) -> int:
    """The batch size of most rows."""
    return int(cells["batch_size"].mode()[0])


def _pair(left: Axes, right: Axes, cells: pd.DataFrame) -> None:
    """The bytes and the times of one network, the plain row on top."""
    usual = _usual_batch(cells)
    batches = ["" if size == usual else f", batch of {size}" for size in cells["batch_size"]]
    for axes in (right, left):
        rows.name_rows(axes, cells["remedy"] + batches)
    right.tick_params(labelleft=False)
    left.barh(cells.index, cells["peak_bytes"].astype(float) / _MIB, 0.7, color=BLUE)
    left.set_xlim(left=0)
    linear_axis(left.xaxis)
    rows.rule(right, 1.0)
    for i, cell in cells.iterrows():
        ratio, low, high = (cell[f"time_ratio{end}"] for end in ("", "_ci_low", "_ci_high"))
        rows.dot(right, i, ratio, (low, high))
        rows.beside(right, i, times(ratio))
    right.margins(x=0.12)
    linear_axis(right.xaxis, 4)
