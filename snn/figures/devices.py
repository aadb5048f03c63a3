"""Several devices side by side: each one's speedups over its own baseline, and the published values."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.analysis.grouping import is_empty
from snn.figures import layout, rows
from snn.figures.style import BLACK, GREY, LINES, MARKERS, texts
from snn.tables.devices import ON_ALL, as_published

_MOST_ROWS = 150
_APART = 0.17  # inches per device
_NAMES = ("dataset", "network", "strategy")
_SPEEDUP, _PUBLISHED = "speedup ", "published_speedup "
_NOTE = (
    "Filled markers: speedup over the same device's own baseline, on a log axis; bars: 95% confidence "
    "interval of the ratio. Open diamonds: published values, without an interval."
)


def draw(table: pd.DataFrame) -> Figure:
    """From a table of devices: a row per row of it, a dot with its 95% interval per device, on a log axis.

    Rows that are of two devices or more, and those of one only where there are no others; of many the first,
    which the title says. Published values are empty diamonds, without an interval.
    """
    compared = table[[not is_empty(word) for word in table["advice"]]]
    several = compared[[not is_empty(word) for word in compared[ON_ALL]]]
    wanted = (several if len(several) else compared).reset_index(drop=True)
    shown = wanted.head(_MOST_ROWS)
    if shown.empty:
        return layout.nothing("no row has a speedup")
    devices = [name.removeprefix(_SPEEDUP) for name in shown if name.startswith(_SPEEDUP)]
    papers = [name.removeprefix(_PUBLISHED) for name in shown if name.startswith(_PUBLISHED)]
    height = 0.5 + rows.height_of(_labels(shown).tolist(), max(0.2, _APART * (len(devices) - 1)))
    figure, ((axes,),) = layout.panels(1, 1, height)
    shifts = np.linspace(-0.25, 0.25, len(devices)) if len(devices) > 1 else [0.0]
    for i, (device, shift) in enumerate(zip(devices, shifts, strict=True)):
        _dots(axes, shown, device, shift, LINES[i % len(LINES)], MARKERS[i % len(MARKERS)])
    for paper in papers:
        look: dict[str, Any] = {"linestyle": "", "marker": "D", "markersize": 5, "markerfacecolor": "none"}
        values, label = shown[f"{_PUBLISHED}{paper}"].astype(float), as_published(paper)
        axes.plot(values, np.arange(len(shown)), color=BLACK, label=label, **look)
    _axis(axes, shown, devices, papers)
    title = "Speedup of the same strategies on several devices"
    if len(shown) < len(wanted):
        title += f": the first {len(shown)} of {len(wanted)} rows"
    about = [
        f"Devices: {'; '.join([*devices, *map(as_published, papers)])}.",
        "Rows: data set, network, strategy.",
    ]
    handles = axes.get_legend_handles_labels()[0]  # lines before error bars
    return layout.framed(figure, title, about, _NOTE, [*handles[len(papers) :], *handles[: len(papers)]])


def _dots(axes: Axes, cells: pd.DataFrame, device: str, shift: float, colour: str, marker: str) -> None:
    value, low, high = (
        cells.get(f"{column} {device}", pd.Series(np.nan, cells.index)).astype(float)
        for column in ("speedup", "speedup_ci_low", "speedup_ci_high")
    )
    spread = [(value - low).clip(lower=0), (high - value).clip(lower=0)]
    look: dict[str, Any] = {"linestyle": "", "marker": marker, "elinewidth": 1.2}
    axes.errorbar(value, np.arange(len(cells)) + shift, xerr=spread, color=colour, label=device, **look)


def _axis(axes: Axes, cells: pd.DataFrame, devices: list[str], papers: list[str]) -> None:
    rows.name_rows(axes, _labels(cells).tolist())
    rows.bands(axes, len(cells))
    axes.axvline(1, color=GREY, linewidth=0.8, linestyle="--", zorder=1)
    measured = [
        f"{column} {device}"
        for device in devices
        for column in ("speedup", "speedup_ci_low", "speedup_ci_high")
    ]
    known = [name for name in [*measured, *(f"{_PUBLISHED}{paper}" for paper in papers)] if name in cells]
    rows.scale(axes, cells[known].to_numpy(float).ravel(), log=True)
    baseline = cells["baseline"].iloc[0] if cells["baseline"].nunique() == 1 else "baseline"
    axes.set_xlabel(f"speedup over the device's own {baseline} (above 1: faster)")


def _labels(cells: pd.DataFrame) -> pd.Series:
    """Data set, network and strategy of each row, the settings in which rows differ, and what it is over."""
    shown = cells[list(_NAMES)].copy()
    for name in cells.columns[len(_NAMES) : cells.columns.get_loc("baseline")]:
        if cells[name].nunique() > 1:
            option = name.rpartition(".")[2].replace("_", " ") if "." in name else ""
            named = [f"{option} {value}".strip() for value in cells[name]]
            shown[name] = pd.Series(named, cells.index).where(~cells[name].map(is_empty))
    labels = texts(shown, list(shown))
    baselines = cells["baseline"].nunique()
    if baselines == 1:
        return labels
    strategies = cells["baseline"].str.split(", ").str[0]
    return labels + " over " + (strategies if strategies.nunique() == baselines else cells["baseline"])
