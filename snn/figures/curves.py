"""What the CNN report's Figures 1 to 4 have in common: a curve for each program, beside the published one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.figures import deviations, layout
from snn.figures.style import LINES, MARKERS, darker, texts, varied
from snn.figures.ticks import at_values, below, log_axis

_HOLLOW: dict[str, Any] = {
    "linestyle": "--",
    "linewidth": 0.9,
    "fillstyle": "none",
    "markersize": 7,
    "zorder": 2.5,
}
"""Around the measured ones, where both are the same, and on top of all."""
_APART, _WIDEST = 0.09, 0.6  # epochs between the markers of two curves, and of the first and the last
_SIDE_BY_SIDE = " Markers of an epoch stand side by side."
_GRADIENTS = {
    "as published": "the gradient that the published programs compute",
    "exact": "the gradient that they were meant to compute",
}
_REDUCTIONS = " Sum, mean: of the losses of a batch."
_VARIED = {"program": "program", "threads": "block size"}
_STYLES = ("-", ":", "-.")
LATER = 0.4
"""The share of black in the later curves of a program: paler ones would hardly be seen on white."""


def draw(
    table: pd.DataFrame, column: str, spread: str | None, published: str, what: str, note: str, trained: str
) -> Figure:
    """A panel for each data set and gradient, each with a line per program and learning rate on a log axis.

    Measured values of ``column`` have error bars, the standard deviation ``spread`` of the runs, where there
    is one; dashed lines are the published values. Programs without a time are named with their status.
    """
    if not table[column].notna().any():
        return layout.nothing(f"{what} by epoch: no cell has a time")
    table = _placed(table)
    points = texts(table, ("dataset", "gradient"))
    panels = {point: table[points == point] for point in dict.fromkeys(points)}
    lines, columns = layout.arranged(len(panels), 2)
    most = max(_labels(rows).nunique() for rows in panels.values())
    figure, grid = layout.panels(lines, columns, lines * (2.8 + 0.15 * most), sharey=True)
    places = list(grid.flat)
    log_axis(places[0].yaxis)
    shades = _shades(table)
    for axes, (point, rows) in zip(places, panels.items(), strict=False):
        _panel(axes, rows, shades, column, spread, published)
        axes.set_title(point, fontweight="bold")
    places[0].set_ylim(bottom=below(np.nanmin(table[[column, published]].to_numpy(dtype=float))))
    for axes in places[len(panels) :]:
        axes.remove()
    for axes in grid[:, 0]:
        axes.set_ylabel(what)
    devices = table["published_device"].dropna().unique()
    said = (
        f" Open markers, dashed: published, {', '.join(devices)}, without an interval."
        if len(devices)
        else ""
    )
    arrows = deviations.note(table[column], _spread(table, spread))
    shifted = _SIDE_BY_SIDE if most > 1 else ""
    note = note + arrows + said + shifted + _words(table)
    return layout.framed(figure, _title(table, what), _about(table, trained), note)


def _placed(table: pd.DataFrame) -> pd.DataFrame:
    """Put curves of a data set without a measured row into the first panel; their labels name it."""
    elsewhere = ~table["dataset"].isin(table.loc[table["device"].notna(), "dataset"])
    named = table["program"] + " (data set " + table["dataset"] + ")"
    return table.assign(
        program=table["program"].mask(elsewhere, named),
        dataset=table["dataset"].mask(elsewhere, table["dataset"].iloc[0]),
    )


def _title(table: pd.DataFrame, what: str) -> str:
    """What is drawn and what varies in it: ``Cumulative time by epoch and block size``."""
    by = " and ".join(["epoch", *(_VARIED[name] for name in varied(table, list(_VARIED)))])
    return f"{what[0].upper()}{what[1:].removesuffix(' (s)').removesuffix(' of an epoch')} by {by}"


def _words(table: pd.DataFrame) -> str:
    """What the note says of gradients and reductions, whose names stand above panels and in keys."""
    known = [f"{name}: {what}" for name, what in _GRADIENTS.items() if (table["gradient"] == name).any()]
    gradients = "; ".join(known)
    said = f" {gradients[0].upper()}{gradients[1:]}." if gradients else ""
    several = table.groupby(["dataset", "gradient"])["reduction"].nunique().max() > 1  # else a key names none
    return said + (_REDUCTIONS if several else "")


def _about(table: pd.DataFrame, trained: str) -> list[str]:
    measured = table[table["device"].notna()]
    images = measured["data"].str.partition(":")[0].drop_duplicates()
    return [layout.about(measured)[0], trained or f"Data: {'; '.join(images)}."]


def _panel(
    axes: Axes, rows: pd.DataFrame, shades: dict[str, int], column: str, spread: str | None, published: str
) -> None:
    key: list[Artist] = []
    curves = list(_curves(rows, shades))
    half = min(_APART * (len(curves) - 1), _WIDEST) / 2
    for aside, (label, look, curve) in zip(np.linspace(-half, half, len(curves)), curves, strict=True):
        status, shown, epoch = curve["status"].iloc[0], label, curve["epoch"] + aside
        if curve[column].notna().any():
            mean, around = curve[column], _spread(curve, spread)
            bars = deviations.lengths(mean, around) if spread else None
            axes.errorbar(epoch, mean, yerr=bars, label=label, **look)
            deviations.arrows(axes, mean, around, epoch, look["color"])
        elif isinstance(status, str) and status != "ok":
            shown = f"{label} ({status})"
        if curve[published].notna().any():
            axes.plot(epoch, curve[published], label=f"{label}, published", **{**look, **_HOLLOW})
        only = _HOLLOW if not curve[column].notna().any() and curve[published].notna().any() else {}
        key.append(Line2D([], [], label=f"{shown}, published" if only else shown, **{**look, **only}))
    axes.set_xlabel("epoch")
    at_values(axes.xaxis, range(1, 1 + int(rows["epoch"].max() if rows["epoch"].notna().any() else 1)))
    layout.key_below(axes, 1, key)


def _spread(rows: pd.DataFrame, column: str | None) -> pd.Series:
    """The standard deviation of each mean; 0 where there is none."""
    return rows[column].fillna(0.0) if column else pd.Series(0.0, rows.index)


def _shades(table: pd.DataFrame) -> dict[str, int]:
    """The number of each program's colour; none of a single program, whose curves have one each."""
    programs = list(dict.fromkeys(table["program"].astype(str)))
    return {name: i for i, name in enumerate(programs)} if len(programs) > 1 else {}


def _labels(rows: pd.DataFrame) -> pd.Series:
    differ = [name for name in ("reduction", "learning_rate", "threads") if rows[name].nunique() > 1]
    said = {"threads": _threads(rows), "learning_rate": _rates(rows)}
    return texts(rows.assign(**said), ("program", *differ))


def _curves(rows: pd.DataFrame, shades: dict[str, int]) -> Iterator[tuple[str, dict[str, Any], pd.DataFrame]]:
    """The label, the look and the rows of each curve; of a program's curves the later are darker."""
    labels, seen = _labels(rows), list[str]()
    for label, curve in rows.groupby(labels, sort=False):
        program = str(curve["program"].iloc[0])
        name = program if program in shades else str(label)
        number, again = shades.setdefault(name, len(shades)), seen.count(name)
        seen.append(name)
        shade = darker(LINES[number % len(LINES)], LATER if again else 0.0)
        marker, line = MARKERS[(number + 3 * again) % len(MARKERS)], _STYLES[again % len(_STYLES)]
        yield str(label), {"color": shade, "marker": marker, "linestyle": line}, curve


def _rates(rows: pd.DataFrame) -> list[str | None]:
    return [None if pd.isna(rate) else f"learning rate {rate:g}" for rate in rows["learning_rate"]]


def _threads(rows: pd.DataFrame) -> list[str | None]:
    return [None if pd.isna(threads) else f"{threads:.0f} threads" for threads in rows["threads"]]
