"""The time of cells over a number that their sweep varies: a line per strategy, a panel per other setting."""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.analysis.verdicts import DIVERGED
from snn.figures import deviations, layout, rows
from snn.figures.style import looks, texts
from snn.figures.ticks import at_values, is_wide, linear_axis, log_axis, plain

_NOT_NUMBERS = ("seed", "neighbour", "rounds", "runs")  # settings that are counted, or only names
_DODGE, _MOST_DODGE = 0.12, 0.4  # of the distance of two numbers: between two series, and of all
_MOST_VALUES = 4  # that are written in the key
_SIDE_BY_SIDE = " Series stand side by side at a number, so that no bar hides another."
_NOTE = "Markers: mean time of a training; bars: standard deviation of the runs."


class Axis(NamedTuple):
    """A column of a table whose values are numbers."""

    name: str
    label: str
    values: pd.Series
    """The number of each row; NaN where it has none."""
    texts: dict[float, str]
    """What a tick says that is more than its number."""


def axis_of(table: pd.DataFrame, varied: Sequence[str]) -> Axis | None:
    """The varied column with the most numbers, of those that most rows have at least two of; else None."""
    found = [
        axis
        for name in varied
        if name in table and name.rpartition(".")[2] not in _NOT_NUMBERS
        for axis in [_numbers(table, name)]
        if axis.values.nunique() > 1 and axis.values.notna().mean() > 0.5
    ]
    return max(found, key=lambda axis: axis.values.nunique(), default=None)


def _numbers(table: pd.DataFrame, name: str) -> Axis:
    label = name.rpartition(".")[2].replace("_", " ")
    if name == "kernel.block":
        sizes = [[float(size) for size in str(block).split("-") if size.isdigit()] for block in table[name]]
        values = pd.Series([np.prod(one) if one else np.nan for one in sizes], table.index)
        known = {
            value: str(block).replace("-", "×") for value, block in zip(values, table[name], strict=True)
        }
        said = {value: f"{plain(value)}\n{block}" for value, block in known.items()}
        told_apart = table.groupby(values)[name].nunique().max() == 1
        return Axis(name, "threads per block", values if told_apart else values * np.nan, said)
    if name == "network":
        label = "neurons in the hidden layer"
    if table[name].dtype == bool:
        return Axis(name, label, pd.Series(np.nan, table.index), {})
    return Axis(name, label, pd.to_numeric(table[name], errors="coerce"), {})


def draw(table: pd.DataFrame, axis: Axis, groups: Sequence[str], title: str, trained: str) -> Figure:
    """A panel per group; what has a word in place of the number stands on the right of it, what has neither
    is a dashed line.
    """
    points = texts(table, groups)
    series = rows.named(table.drop(columns=axis.name))
    looks_of = _looks(table, series)
    titles = list(dict.fromkeys(points))
    lines, columns = layout.arranged(len(titles))
    figure, grid = layout.panels(lines, columns, 2.6 * lines, sharex=False)
    log = is_wide(table["mean_s"])
    for axes, point in zip_longest(grid.flat, titles):
        if point is None:
            axes.remove()
            continue
        _panel(axes, table[points == point], axis, series, looks_of, log)
        if len(titles) > 1:
            layout.titled(axes, point, layout.WIDTH / columns - 0.8)
        axes.set_xlabel(axis.label)
    for axes in grid[:, 0]:
        axes.set_ylabel("training time (s)")
    key = [_entry(name, style, table[series == name], axis, points) for name, style in looks_of.items()]
    failed = table.loc[table["mean_s"].isna() & axis.values.notna(), "status"].dropna().unique()
    crosses = f" Crosses: cells without a time ({', '.join(failed)})." if len(failed) else ""
    beside = any(len(_numbered(table[points == point], axis, series)) > 1 for point in titles)
    note = (
        _NOTE + (_SIDE_BY_SIDE if beside else "") + rows.of_marks(table) + crosses + rows.usual_kernel(table)
    )
    return layout.framed(figure, f"Training time: {title}", layout.about(table, trained), note, key)


def _entry(name: str, style: dict[str, Any], cells: pd.DataFrame, axis: Axis, points: pd.Series) -> Artist:
    """The entry of a series in the key: of a dashed line with its time, and which panel it is in."""
    if _placed(cells, axis).any():
        return Line2D([], [], label=name, **style)
    timed = cells[cells["mean_s"].notna()]
    where = [f" ({points[i]})" if points.nunique() > 1 else "" for i in timed.index]
    values = [f"{mean:.3g} s{panel}" for mean, panel in zip(timed["mean_s"], where, strict=True)]
    said = f"{name}: {', '.join(values)}" if 0 < len(values) <= _MOST_VALUES else name
    return rows.dashed(said, style["color"])


def _placed(cells: pd.DataFrame, axis: Axis) -> pd.Series:
    """Which of these cells have a number, or a word in its place."""
    return axis.values[cells.index].notna() | cells[axis.name].map(lambda value: isinstance(value, str))


def _numbered(cells: pd.DataFrame, axis: Axis, series: pd.Series) -> list[str]:
    """The series of these cells that have markers, at numbers or words."""
    return list(dict.fromkeys(series[cells.index][_placed(cells, axis)]))


def _looks(table: pd.DataFrame, series: pd.Series) -> dict[str, dict[str, Any]]:
    """Colour, marker and line of each series."""
    strategies = table.groupby(series, sort=False)["strategy"].first()
    return {
        str(name): {"color": shade, "marker": marker, "linestyle": style}
        for name, (shade, marker, style) in zip(strategies.index, looks(strategies), strict=True)
    }


def _panel(
    axes: Axes, cells: pd.DataFrame, axis: Axis, series: pd.Series, looks_of: dict[str, Any], log: bool
) -> None:
    numbers = axis.values[cells.index]
    known = sorted(set(numbers.dropna()))
    words = list(dict.fromkeys(cells[axis.name][numbers.isna()].dropna().astype(str)))
    step = (known[-1] / known[0]) ** (1 / (len(known) - 1)) if is_wide(known) else 0.0
    last = known[-1] if known else 0.0
    width = (last - known[0]) / (len(known) - 1) if len(known) > 1 else abs(last) or 1.0
    beyond = [last * step ** (1 + i) if step else last + width * (1 + i) for i in range(len(words))]
    at = dict(zip(words, beyond, strict=True))
    shifts = _shifts(_numbered(cells, axis, series))
    for name in dict.fromkeys(series[cells.index]):
        some, style = cells[series[cells.index] == name], looks_of[name]
        shift = shifts.get(name, 0.0)
        factor, added = (step**shift, 0.0) if step else (1.0, width * shift)
        numbered = some.assign(x=numbers[some.index] * factor + added).dropna(subset="x").sort_values("x")
        if len(numbered):
            _means(axes, numbered["x"], numbered, style)
            if len(diverged := numbered[numbered["status"] == DIVERGED]):
                open_marker = {**style, "linestyle": "", "markerfacecolor": "white"}
                axes.plot(diverged["x"], diverged["mean_s"], **open_marker, zorder=2.5)
        for i, cell in some[numbers[some.index].isna()].iterrows():
            if isinstance(cell[axis.name], str):
                _means(
                    axes, [at[cell[axis.name]] * factor + added], some.loc[[i]], {**style, "linestyle": ""}
                )
            elif pd.notna(cell["mean_s"]):
                axes.axhline(cell["mean_s"], color=style["color"], linewidth=0.8, linestyle="--", zorder=1)
        _without_time(axes, numbered, style["color"], list(looks_of).index(name))
    if step:
        axes.set_xscale("log", base=2)
    at_values(axes.xaxis, [*known, *beyond], lambda x: _text(x, axis.texts, {v: k for k, v in at.items()}))
    _vertical(axes, cells, log)


def _shifts(names: Sequence[str]) -> dict[str, float]:
    """By how much each of these series stands beside a number, as a share of the distance of two."""
    apart = min(_DODGE, _MOST_DODGE / max(len(names) - 1, 1))
    return {name: apart * (i - (len(names) - 1) / 2) for i, name in enumerate(names)}


def _means(axes: Axes, at: Sequence[float] | pd.Series, cells: pd.DataFrame, style: dict[str, Any]) -> None:
    """The mean times of cells at these places, with the deviations of their runs."""
    mean, spread = cells["mean_s"], cells["std_s"]
    axes.errorbar(at, mean, yerr=deviations.lengths(mean, spread), **style)
    deviations.arrows(axes, mean, spread, at, style["color"])


def _text(value: float, texts_of: dict[float, str], words: dict[float, str]) -> str:
    return words.get(value, texts_of.get(value, plain(value)))


def _vertical(axes: Axes, cells: pd.DataFrame, log: bool) -> None:
    low, ends = deviations.ends(cells["mean_s"], cells["std_s"].fillna(0))
    if not ends.notna().any():
        axes.set_yticks([])
    elif log:
        log_axis(axes.yaxis)
        axes.set_ylim(0.8 * low.min(), 1.25 * ends.max())
    else:
        axes.set_ylim(0, 1.1 * ends.max())
        linear_axis(axes.yaxis)


def _without_time(axes: Axes, numbered: pd.DataFrame, shade: str, number: int) -> None:
    """A cross for each cell without a time, at the foot of the panel; those of each series at a height."""
    failed = numbered.loc[numbered["mean_s"].isna(), "x"]
    at: dict[str, Any] = {
        "transform": axes.get_xaxis_transform(),
        "linestyle": "",
        "marker": "x",
        "color": shade,
    }
    if len(failed):
        axes.plot(failed, [0.03 + 0.05 * (number % 19)] * len(failed), **at)
