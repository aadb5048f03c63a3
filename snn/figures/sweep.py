"""The figure of any sweep: the time of every cell, by a varied number or in a row per cell."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from snn.figures import layout
from snn.figures.form import Form, Rows, Values, points
from snn.figures.names import HOST, hosts, named, texts, usual_kernel
from snn.figures.style import Look, looks, numbered, plain
from snn.figures.ticks import is_wide
from snn.tables.sweep import SHOWN_BY_NETWORK

_MOST_CELLS = 400  # nobody reads larger figures
_MOST_PANELS = 8
_MOST_VALUES = 4  # in the key
_NOT_NUMBERS = ("seed", "neighbour", "rounds", "runs")  # settings that are counts, or only names
_STATED = ("training.epochs", "training.batch_size")
"""Axes that the text above a figure states by data set, if they follow from it (``snn.figures.trained``)."""
_TIME = "training time (s)"


def draw(table: pd.DataFrame, axes_of_sweep: Sequence[str], title: str, trained: str = "") -> Figure:
    """Draw a sweep's table: a dot per cell with the standard deviation of its runs.

    If the sweep varies a number, this is the horizontal axis, with a line per strategy. Otherwise each cell
    has a row, in a panel per data set, network and other settings of the training. A cell without a time
    shows its status. If a sweep has very many cells, only the first are drawn, and the title says so. The
    title contains the sweep's name as words.
    """
    title = title.replace("_", " ")
    if len(table) > _MOST_CELLS:
        title = f"{title}: the first {_MOST_CELLS} of {len(table):,} cells; its table has all"
        table = table.head(_MOST_CELLS)
    if not table["mean_s"].notna().any():
        return layout.nothing(f"{title}: no cell has a time")
    varied = list(
        dict.fromkeys("network" if axis in SHOWN_BY_NETWORK else axis for axis in axes_of_sweep if axis)
    )
    varied = [axis for axis in varied if not (axis in _STATED and axis in table and _follows(table, axis))]
    choices = ("strategy", "kernel", "precision")
    groups = [axis for axis in varied if axis in table and axis.partition(".")[0] not in choices]
    axis = _axis_of(table, varied)
    form = _over(table, axis, groups, title) if axis else _in_rows(table, groups, title)
    return form(table, trained=trained)


def _follows(table: pd.DataFrame, axis: str) -> bool:
    """Whether the rows of a data set have one value of an axis, and there are several data sets."""
    of_dataset = table.groupby("dataset")[axis].nunique()
    return bool(len(of_dataset) > 1 and of_dataset.max() == 1)


# ---- a row per cell


def _in_rows(table: pd.DataFrame, groups: Sequence[str], title: str) -> Form:
    """A row per cell and a panel per group; with very many groups, a row per group."""
    panel, row = texts(table, groups), named(table)
    if panel.nunique() > _MOST_PANELS or row.nunique() < 2:
        name = row if row.nunique() > 1 else None
        names = texts(pd.DataFrame({"name": name, "point": panel}), ("name", "point"))
        panel, row = pd.Series("", table.index), names.where(names != "", row)
    return Rows(
        title=f"Training time: {title}",
        frame=lambda table: points(table, "mean_s", "std_s", HOST, panel=panel, row=row, label=hosts(table)),
        axes={_TIME: None},
        note=("Dots: mean time of a training run. Bars: standard deviation of the runs.", usual_kernel),
    )


# ---- over a number


class Axis(NamedTuple):
    """A column of a table whose values are numbers."""

    name: str
    label: str
    values: pd.Series
    """The number of each row, or NaN."""
    ticks: pd.Series
    """The text of each row's tick if it is more than the number."""


def _axis_of(table: pd.DataFrame, varied: Sequence[str]) -> Axis | None:
    """The varied column with the most distinct numbers, in more than half of the rows; or None."""
    found = [
        axis
        for name in varied
        if name in table and name.rpartition(".")[2] not in _NOT_NUMBERS and table[name].dtype != bool
        for axis in [_numbers(table, name)]
        if axis.values.nunique() > 1 and axis.values.notna().mean() > 0.5
    ]
    return max(found, key=lambda axis: axis.values.nunique(), default=None)


def _numbers(table: pd.DataFrame, name: str) -> Axis:
    if name == "kernel.block":
        sizes = [[float(size) for size in str(block).split("-") if size.isdigit()] for block in table[name]]
        values = pd.Series([np.prod(one) if one else np.nan for one in sizes], table.index)
        said = values.map(plain) + "\n" + table[name].astype(str).str.replace("-", "×")
        told_apart = table.groupby(values)[name].nunique().max() == 1
        return Axis(name, "threads per block", values if told_apart else values * np.nan, said)
    label = "neurons in the hidden layer" if name == "network" else name.rpartition(".")[2].replace("_", " ")
    values = pd.to_numeric(table[name], errors="coerce")
    return Axis(name, label, values, pd.Series("", table.index))


def _over(table: pd.DataFrame, axis: Axis, groups: Sequence[str], title: str) -> Form:
    """A panel per group. Cells with a word instead of the number are at the right, cells with neither are
    dashed lines."""
    panel = texts(table, [each for each in groups if each != axis.name])
    series = named(table.drop(columns=axis.name))
    strategies = table.groupby(series, sort=False)["strategy"].first()
    several = [numbered(i) for i in range(len(strategies))]  # for series of a single strategy
    look_of = dict(
        zip(strategies.index, looks(strategies) if strategies.nunique() > 1 else several, strict=True)
    )
    columns = {"panel": panel, "x": axis.values, "label": series, "slot": series}
    frame = points(table, "mean_s", "std_s", look_of, **columns)
    is_word = axis.values.isna() & table[axis.name].map(lambda x: isinstance(x, str))
    words = table[axis.name].astype(object).where(is_word)
    for _, cells in frame.groupby(panel):
        known, found = sorted(set(cells["x"].dropna())), words[cells.index].dropna()
        beyond = dict(zip(found.unique(), _beyond(known, found.nunique()), strict=True))
        frame.loc[found.index, "x"] = found.map(beyond)
    frame["tick"] = words.fillna(axis.ticks)
    frame["look"] = [
        look if pd.isna(word) else look._replace(line="")
        for look, word in zip(frame["look"], words, strict=True)
    ]
    where = " (" + panel + ")" if panel.nunique() > 1 else pd.Series("", panel.index)
    for name, cells in frame[frame["x"].isna().groupby(series).transform("all")].groupby(series):
        timed = cells["value"].dropna()  # the dashed line's times, for the key
        said = ", ".join(timed.map("{:.3g} s".format) + where[timed.index])
        frame.loc[cells.index, "label"] = f"{name}: {said}" if 0 < len(timed) <= _MOST_VALUES else name
        line = Look(look_of[name].colour, "", "--", width=0.8)
        frame.loc[cells.index, "look"] = pd.Series([line] * len(cells), cells.index)
    failed = table.loc[table["mean_s"].isna() & axis.values.notna(), "status"].dropna().unique()
    return Values(
        title=f"Training time: {title}",
        frame=lambda table: frame,
        axes={_TIME: None},
        x=axis.label,
        note=(
            "Markers: mean time of a training run. Bars: standard deviation of the runs.",
            f"Crosses: cells without a time ({', '.join(failed)})." if len(failed) else "",
            usual_kernel,
        ),
    )


def _beyond(known: Sequence[float], count: int) -> list[float]:
    """``count`` places beyond these numbers, with the same spacing."""
    last = known[-1] if known else 0.0
    width = (last - known[0]) / (len(known) - 1) if len(known) > 1 else abs(last) or 1.0
    if len(known) > 1 and is_wide([*known, last + width * count]):  # then the axis is logarithmic
        step = (last / known[0]) ** (1 / (len(known) - 1))
        return [last * step ** (1 + i) for i in range(count)]
    return [last + width * (1 + i) for i in range(count)]
