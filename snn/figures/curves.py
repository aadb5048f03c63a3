"""What the CNN report's Figures 1 to 4 have in common: a curve for each program, beside the published one."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from snn.figures.style import PAPER_COLOUR, colour, nothing, plain_numbers, texts, where

_MARKERS = "osD^vPX*"
_PALEST = 0.65  # of white, in the last of several curves of one strategy


def draw(table: pd.DataFrame, column: str, spread: str | None, published: str, what: str) -> Figure:
    """A panel for each data set and gradient, each with a line per program and learning rate on a log axis.

    Measured values of ``column`` have error bars, the standard deviation ``spread`` of the runs, where there
    is one; dashed lines are the published values. Programs without a time are named with their status.
    """
    if not table[column].notna().any():
        return nothing(f"{what} by epoch: no cell has a time")
    points = texts(table, ("dataset", "gradient"))
    panels = {point: table[points == point] for point in dict.fromkeys(points)}
    size = (1.0 + 5.0 * len(panels), 5.2)
    figure, grid = plt.subplots(1, len(panels), figsize=size, sharey=True, squeeze=False)
    for axes, (point, rows) in zip(grid[0], panels.items(), strict=True):
        _panel(axes, rows, column, spread, published)
        axes.set_title(point, fontsize=10)
    grid[0][0].set_ylabel(what)
    grid[0][0].set_yscale("log")
    plain_numbers(grid[0][0].yaxis)
    figure.suptitle(_title(table, what), fontsize=10)
    return figure


def _title(table: pd.DataFrame, what: str) -> str:
    measured = table[table["device"].notna()]
    images = measured["data"].str.partition(":")[0].drop_duplicates()
    said = f"{what[0].upper()}{what[1:]}: {where(measured)}\n{', '.join(images)}"
    devices = table["published_device"].dropna().unique()
    return f"{said}; dashed: published, {', '.join(devices)}" if len(devices) else said


def _panel(axes: Axes, rows: pd.DataFrame, column: str, spread: str | None, published: str) -> None:
    for label, shade, marker, curve in _curves(rows):
        status = curve["status"].iloc[0]
        if curve[column].notna().any():
            axes.errorbar(
                curve["epoch"],
                curve[column],
                yerr=_inside(curve[column], curve[spread]) if spread else None,
                color=shade,
                marker=marker,
                markersize=4,
                capsize=2,
                linewidth=1.3,
                label=label,
            )
        elif isinstance(status, str) and status != "ok":
            axes.plot([], [], color=shade, marker=marker, label=f"{label} ({status})")
        if curve[published].notna().any():
            axes.plot(
                curve["epoch"],
                curve[published],
                color=shade,
                marker=marker,
                markersize=8,  # around the measured one, where both are the same
                markerfacecolor="none",
                linestyle="--",
                linewidth=1,
                label=f"{label}, published",
            )
    axes.set_xlabel("epoch")
    axes.set_xticks(range(1, 1 + int(rows["epoch"].max() if rows["epoch"].notna().any() else 1)))
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _inside(values: pd.Series, spread: pd.Series) -> list[pd.Series]:
    """The lengths of error bars whose lower ends a log axis can show."""
    lower = spread.clip(upper=0.99 * values)
    return [lower.fillna(0), spread.fillna(0)]


def _curves(rows: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """The label, the colour, the marker and the rows of each curve of a panel.

    A strategy has its colour of all figures; of several curves of one, the later are paler.
    """
    differ = [name for name in ("reduction", "learning_rate", "threads") if rows[name].nunique() > 1]
    labels = texts(rows.assign(threads=_threads(rows)), ("program", *differ))
    strategies = rows.groupby(labels, sort=False)["strategy"].first()
    for i, (label, strategy) in enumerate(strategies.items()):
        alike = list(strategies[strategies == strategy].index)
        first = colour(strategy) if isinstance(strategy, str) else PAPER_COLOUR
        share = _PALEST * alike.index(label) / max(len(alike) - 1, 1) if alike else 0.0
        yield str(label), _paler(first, share), _MARKERS[i % len(_MARKERS)], rows[labels == label]


def _threads(rows: pd.DataFrame) -> list[str | None]:
    return [None if pd.isna(threads) else f"{threads:.0f} threads" for threads in rows["threads"]]


def _paler(shade: str, share: float) -> str:
    return to_hex(tuple(1 - (1 - part) * (1 - share) for part in to_rgb(shade)))  # type: ignore[arg-type]
