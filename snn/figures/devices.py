"""Several devices side by side: each one's speedups over its own baseline, and the published values."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from snn.analysis.grouping import is_empty
from snn.figures.style import PAPER_COLOUR, nothing, texts
from snn.tables.devices import ON_ALL, as_published

_COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea", "#dc2626", "#0891b2", "#65a30d", "#db2777")
_MARKERS = "os^vDP"
_MOST_ROWS = 150
_INCHES = 0.3  # per row
_NAMES = ("dataset", "network", "strategy")
_SPEEDUP, _PUBLISHED = "speedup ", "published_speedup "


def draw(table: pd.DataFrame) -> Figure:
    """From a table of devices: a row per row of it, a dot with its 95% interval per device, on a log axis.

    Rows that are of two devices or more, and those of one only where there are no others; of many the first,
    which the title says. Published values are empty diamonds, without an interval.
    """
    compared = table[[not is_empty(word) for word in table["advice"]]]
    several = compared[[not is_empty(word) for word in compared[ON_ALL]]]
    wanted = (several if len(several) else compared).reset_index(drop=True)
    rows = wanted.head(_MOST_ROWS)
    if rows.empty:
        return nothing("no row has a speedup")
    devices = [name.removeprefix(_SPEEDUP) for name in rows if name.startswith(_SPEEDUP)]
    papers = [name.removeprefix(_PUBLISHED) for name in rows if name.startswith(_PUBLISHED)]
    figure, axes = plt.subplots(figsize=(9, _INCHES * len(rows) + 1.2 + 0.2 * (len(devices) + len(papers))))
    shifts = np.linspace(-0.25, 0.25, len(devices)) if len(devices) > 1 else [0.0]
    for i, (device, shift) in enumerate(zip(devices, shifts, strict=True)):
        _dots(axes, rows, device, shift, _COLOURS[i % len(_COLOURS)], _MARKERS[i // len(_COLOURS) % 6])
    for paper in papers:
        look: dict[str, Any] = {"linestyle": "", "marker": "D", "markersize": 6, "markerfacecolor": "none"}
        values, label = rows[f"{_PUBLISHED}{paper}"].astype(float), as_published(paper)
        axes.plot(values, np.arange(len(rows)), color=PAPER_COLOUR, label=label, **look)
    _axis(axes, rows)
    if len(rows) < len(wanted):
        axes.set_title(f"The first {len(rows)} of {len(wanted)} rows", fontsize=9)
    figure.legend(loc="outside upper center", ncols=1, fontsize=8)
    return figure


def _dots(axes: Axes, rows: pd.DataFrame, device: str, shift: float, colour: str, marker: str) -> None:
    value, low, high = (
        rows.get(f"{column} {device}", pd.Series(np.nan, rows.index)).astype(float)
        for column in ("speedup", "speedup_ci_low", "speedup_ci_high")
    )
    spread = [(value - low).clip(lower=0), (high - value).clip(lower=0)]
    look: dict[str, Any] = {"linestyle": "", "marker": marker, "markersize": 4, "capsize": 2}
    axes.errorbar(value, np.arange(len(rows)) + shift, xerr=spread, color=colour, label=device, **look)


def _axis(axes: Axes, rows: pd.DataFrame) -> None:
    axes.set_yticks(range(len(rows)), _labels(rows).tolist(), fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.axvline(1, color="#6b7280", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x")
    axes.grid(visible=False, axis="y")
    baseline = rows["baseline"].iloc[0] if rows["baseline"].nunique() == 1 else "baseline"
    axes.set_xlabel(f"speedup over the device's own {baseline} (above 1: faster)")


def _labels(rows: pd.DataFrame) -> pd.Series:
    """Data set, network and strategy of each row, the settings in which rows differ, and what it is over."""
    shown = rows[list(_NAMES)].copy()
    for name in rows.columns[len(_NAMES) : rows.columns.get_loc("baseline")]:
        if rows[name].nunique() > 1:
            option = name.rpartition(".")[2].replace("_", " ") if "." in name else ""
            named = [f"{option} {value}".strip() for value in rows[name]]
            shown[name] = pd.Series(named, rows.index).where(~rows[name].map(is_empty))
    labels = texts(shown, list(shown))
    baselines = rows["baseline"].nunique()
    if baselines == 1:
        return labels
    strategies = rows["baseline"].str.split(", ").str[0]
    return labels + " over " + (strategies if strategies.nunique() == baselines else rows["baseline"])
