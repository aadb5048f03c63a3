"""Figures 1 and 3 of the CNN report: the time from the start of a training, by epoch."""

from matplotlib.figure import Figure
from pandas import DataFrame

from snn.figures import curves


def draw(table: DataFrame, paper_device: str) -> Figure:
    """From a table of ``snn.tables.cnn_epochs``; the paper has no such figure, so its device is not named."""
    return curves.draw(
        table, "cumulative_s", "cumulative_std_s", "published_cumulative_s", "cumulative time (s)"
    )
