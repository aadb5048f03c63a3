"""Figures 1 and 3 of the CNN report: the time from the start of a training, by epoch."""

from matplotlib.figure import Figure
from pandas import DataFrame

from snn.figures import curves

_NOTE = "Filled markers: mean of the runs; bars: their standard deviation."
_COLUMNS = ("cumulative_s", "cumulative_std_s", "published_cumulative_s")


def draw(table: DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From a table of ``snn.tables.cnn``; the paper has no such figure, so its device is not named."""
    return curves.draw(table, *_COLUMNS, "cumulative time (s)", _NOTE, trained)
