"""Figures 2 and 4 of the CNN report: the mean loss of an epoch's batches, each before its update."""

from matplotlib.figure import Figure
from pandas import DataFrame

from snn.figures import curves

_NOTE = "Filled markers: of the first run, whose initial weights are published, without an interval."


def draw(table: DataFrame, paper_device: str, trained: str = "") -> Figure:
    """From a table of ``snn.tables.cnn``: of the first run, whose initial weights are published.

    The paper has no such figure, so its device is not named.
    """
    return curves.draw(table, "loss", None, "published_loss", "mean loss of an epoch", _NOTE, trained)
