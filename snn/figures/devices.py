"""Several devices side by side: each one's speedups over its own baseline, and the published values."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.analysis.grouping import is_empty
from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.config import groups
from snn.figures import device_looks, layout, rows
from snn.figures.style import BLACK, Look, texts, varied
from snn.figures.trained import is_widths
from snn.tables.devices import ON_ALL, as_published

_MOST_ROWS = 150
_APART, _LEAST = 0.12, 0.09  # inches between the dots of a row, and of one of many
_ROWS = 6.9  # inches of all rows, from which on they are closer
_MOST_NOTES = 3
_IN_COMMON = 1.5  # rows per name: from here on data sets are panels
_NAMES = ("dataset", "network", "strategy")
_SPEEDUP, _PUBLISHED = "speedup ", "published_speedup "
_NOTE = (
    "Markers: speedup over the same device's own baseline, on a log axis, open where it is not significant; "
    "bars: 95% confidence interval of the ratio. Black diamonds: published values, without an interval."
)


def draw(table: pd.DataFrame) -> Figure:
    """From a table of devices: a row per strategy, a dot with its 95% interval per device, on a log axis.

    Data sets that have rows in common are panels side by side, the largest speedups on top. Rows are those of
    two devices or more, and those of one only where there are no others; of many the first, which the title
    says. Published values are empty diamonds, without an interval.
    """
    compared = table[[not is_empty(word) for word in table["advice"]]]
    several = compared[[not is_empty(word) for word in compared[ON_ALL]]]
    wanted = (several if len(several) else compared).reset_index(drop=True)
    shown = wanted.head(_MOST_ROWS)
    if shown.empty:
        return layout.nothing("no row has a speedup")
    devices = [name.removeprefix(_SPEEDUP) for name in shown if name.startswith(_SPEEDUP)]
    looks = {
        name: (device_looks.said(name, devices), look) for name, look in device_looks.looks(devices).items()
    }
    papers = [name.removeprefix(_PUBLISHED) for name in shown if name.startswith(_PUBLISHED)]
    names, panels = _named(shown), {"": shown}
    if names.nunique() * _IN_COMMON <= len(names):
        panels = dict(sorted(_by_data(shown).items(), key=lambda panel: _size(panel[0])))
        order = _fastest_first(shown, names, devices)
    else:
        names = texts(shown, ["dataset"]) + ", " + names
        order = list(dict.fromkeys(names))
    dots = [*(f"{_SPEEDUP}{device}" for device in devices), *(f"{_PUBLISHED}{paper}" for paper in papers)]
    most = int(shown[dots].notna().sum(axis=1).max())
    figure, found = rows.grid(order, len(panels), height=_height(len(order), most))
    for axes, cells in zip(found, panels.values(), strict=True):
        at = _places(cells[dots].notna(), names[cells.index].map(order.index).astype(float))
        _dots(axes, cells, looks, at)
        _diamonds(axes, cells, papers, at)
        rows.bands(axes, len(order))
        rows.rule(axes, 1.0)
        rows.scale(axes, _ends(shown, devices, papers), log=True)
        axes.set_xlabel("speedup (above 1: faster)")
    title = f"Speedup by {' and '.join(varied(shown, _NAMES[1:]) or ['strategy'])}, on several devices"
    if len(shown) < len(wanted):
        title += f": the first {len(shown)} of {len(wanted)} rows"
    labels = [*(label for label, _ in looks.values()), *map(as_published, papers)]
    about, key = [f"Devices: {'; '.join(labels)}.", _rows_are(shown)], _key(found, labels)
    note = " ".join([_NOTE, *_remarks(shown, devices), *_of_published(shown, names)])
    return rows.framed(figure, found, list(panels), title, about, note, key)


def _by_data(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each data set."""
    return {str(data): of_data for data, of_data in cells.groupby("dataset", sort=False)}


def _size(dataset: str) -> float:
    """The rows of a data set as its file in config/dataset has them; those of unknown size are last."""
    known = dataset in groups.names("dataset")
    return float(groups.load("dataset", dataset).get("rows") or np.inf) if known else np.inf


def _height(count: int, most: int) -> float:
    """Inches of each of so many rows with at most so many dots: closer where the rows are many."""
    dots = most + 0.5
    return max(0.2, _LEAST * dots, min(_APART * dots, _ROWS / count))


def _of_published(cells: pd.DataFrame, names: pd.Series) -> list[str]:
    """What the table says beside published values, such as another value elsewhere."""
    notes = cells.get("published_note", pd.Series(dtype=object))
    of = {i: note for i, note in notes.items() if not is_empty(note)}
    rows_of = [
        f"{names[i] if names[i].startswith(data) else f'{data}, {names[i]}'}: {note}"
        for i, note in list(of.items())[:_MOST_NOTES]
        for data in [str(cells["dataset"][i])]
    ]
    return [f"Published, of {'; '.join(rows_of)}."] if rows_of else []


def _remarks(cells: pd.DataFrame, devices: list[str]) -> list[str]:
    """What a reader has to know of some of these dots."""
    of = [
        (cells[f"{_SPEEDUP}{one}"].notna(), _diverged(cells, one), _ends_of(cells, one)[0]) for one in devices
    ]
    said = ["Circles around markers: the training diverged."] if any((a & b).any() for a, b, _ in of) else []
    without = any((known & low.isna()).any() for known, _, low in of)
    return said + (["A marker without a bar has no interval: it is of one run each."] if without else [])


def _diverged(cells: pd.DataFrame, device: str) -> pd.Series:
    return cells.get(f"status {device}", pd.Series("", cells.index)).fillna("").str.contains("diverged")


def _ends_of(cells: pd.DataFrame, device: str) -> list[pd.Series]:
    """The ends of a device's intervals."""
    empty = pd.Series(np.nan, cells.index)
    return [cells.get(f"speedup_ci_{end} {device}", empty).astype(float) for end in ("low", "high")]


def _named(cells: pd.DataFrame) -> pd.Series:
    """Each row's network, where there are several, its strategy, and the settings in which rows differ.

    What most rows have is left out: their kernel, and what they are over.
    """
    named = cells[["strategy"]].copy()
    if cells["network"].nunique() > 1:
        named.insert(0, "network", cells["network"])
    for name in cells.columns[len(_NAMES) : cells.columns.get_loc("baseline")]:
        values = cells[name].where(~cells[name].map(is_empty))
        if "." in name:
            numbers = pd.to_numeric(values, errors="coerce")
            named[name] = rows.said(name, values.where(numbers.isna(), numbers))
        elif values.nunique() > 1:
            named[name] = values.where(values != _usual(values))
    usual, baselines = _usual(cells["baseline"]), cells["baseline"].unique()
    short = {baseline: str(baseline).partition(", ")[0] for baseline in baselines}
    if len(set(short.values())) < len(short):
        short = {baseline: str(baseline) for baseline in baselines}
    named["baseline"] = [None if one == usual else f"over {short[one]}" for one in cells["baseline"]]
    return texts(named, list(named))


def _usual(values: pd.Series) -> object:
    """The value of more than half of the rows that have one."""
    shares = values.value_counts(normalize=True)
    return shares.index[0] if len(shares) and shares.iloc[0] > 0.5 else None


def _rows_are(cells: pd.DataFrame) -> str:
    """What the names of rows do not say."""
    networks, baseline = cells["network"].unique(), _usual(cells["baseline"])
    unless = ", unless a row names another" if cells["baseline"].nunique() > 1 else ""
    widths = all(is_widths(str(network)) for network in networks)
    said = [f"{'Hidden layers' if widths else 'Network'}: {networks[0]}."] if len(networks) == 1 else []
    said += ["A row begins with the widths of its hidden layers."] if len(networks) > 1 and widths else []
    said += [f"Baseline: each device's own {baseline}{unless}."] if baseline else []
    if "kernel" in cells and cells["kernel"].nunique() > 1 and (kernel := _usual(cells["kernel"])):
        said += [f"Kernel: {kernel} unless a row names another."]
    return " ".join(said)


def _fastest_first(cells: pd.DataFrame, names: pd.Series, devices: list[str]) -> list[str]:
    """The names of the rows by the geometric mean of their speedups on the first device that has one."""
    first = np.log(_speedups(cells, devices).bfill(axis=1).iloc[:, 0])
    return first.groupby(names, sort=False).mean().sort_values(ascending=False, kind="stable").index.tolist()


def _speedups(cells: pd.DataFrame, devices: list[str]) -> pd.DataFrame:
    return cells[[f"{_SPEEDUP}{device}" for device in devices]].astype(float)


def _places(known: pd.DataFrame, middles: pd.Series) -> pd.DataFrame:
    """The heights of the dots of a panel: those of a row stand in their order, one below the other."""
    step = 0.75 / max(int(known.sum(axis=1).max()), 1)
    before = known.cumsum(axis=1) - known
    return before.sub((known.sum(axis=1) - 1) / 2, axis=0).mul(step).add(middles, axis=0)


def _dots(axes: Axes, cells: pd.DataFrame, looks: dict[str, tuple[str, Look]], at: pd.DataFrame) -> None:
    """The speedups of a panel with their intervals; a dot is hollow where it is not significant, and has a
    ring around it where the training diverged."""
    for device, (label, (shade, marker)) in looks.items():
        value, (low, high) = cells[f"{_SPEEDUP}{device}"].astype(float), _ends_of(cells, device)
        if value.isna().all():
            continue
        spread = [(value - low).clip(lower=0), (high - value).clip(lower=0)]
        look: dict[str, Any] = {"linestyle": "", "marker": marker, "elinewidth": 1.2}
        heights = at[f"{_SPEEDUP}{device}"]
        axes.errorbar(value, heights, xerr=spread, color=shade, label=label, **look)
        unclear = cells.get(f"verdict {device}", value) == NOT_SIGNIFICANT
        look = {"marker": look["marker"], "markerfacecolor": "white", "linestyle": "", "zorder": 2.2}
        axes.plot(value[unclear], heights[unclear], color=shade, **look)  # on the dots of errorbar, at 2.1
        ring: dict[str, Any] = {
            "marker": "o",
            "markersize": 9,
            "fillstyle": "none",
            "linestyle": "",
            "color": shade,
        }
        diverged = _diverged(cells, device) & value.notna()
        if diverged.any():
            axes.plot(value[diverged], heights[diverged], **ring)


def _diamonds(axes: Axes, cells: pd.DataFrame, papers: list[str], at: pd.DataFrame) -> None:
    """The published values of a panel."""
    look: dict[str, Any] = {"linestyle": "", "marker": "D", "markersize": 4, "markerfacecolor": "none"}
    for paper in papers:
        values = cells[f"{_PUBLISHED}{paper}"].astype(float)
        if values.notna().any():
            axes.plot(values, at[f"{_PUBLISHED}{paper}"], color=BLACK, label=as_published(paper), **look)


def _key(panels: list[Axes], labels: list[str]) -> list[Artist]:
    """The entries of the key, each once, in this order."""
    known: dict[str, Artist] = {}
    for axes in panels:
        handles, said = axes.get_legend_handles_labels()
        known |= dict(zip(said, handles, strict=True))
    return [known[label] for label in labels if label in known]


def _ends(cells: pd.DataFrame, devices: list[str], papers: list[str]) -> np.ndarray:
    """All speedups and the ends of their intervals, so that panels have one scale."""
    measured = [
        f"{column} {device}"
        for device in devices
        for column in ("speedup", "speedup_ci_low", "speedup_ci_high")
    ]
    known = [name for name in [*measured, *(f"{_PUBLISHED}{paper}" for paper in papers)] if name in cells]
    return cells[known].to_numpy(float).ravel()
