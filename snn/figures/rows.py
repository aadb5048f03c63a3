"""Dots in rows: a name on the left, a dot with its interval, its numbers in a column on the right.

Panels side by side share the rows, so that a name is written once. Names tell strategies apart, so colours
and markers say something else of a row, such as where it ran.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from snn.analysis.verdicts import DIVERGED
from snn.figures import deviations, layout
from snn.figures.style import BLACK, BLUE, GREY, SMALLEST, Look, texts
from snn.figures.ticks import is_wide, linear_axis, log_axis

ROW = 0.165  # inches
_AROUND = 0.62  # inches of a panel besides its rows: its title, its axis
_APART = 0.25  # inches between the titles of panels side by side
_NAME = 44  # letters of a name's line
_ROOM = 0.08  # of a log axis, beyond the outermost ends
HOST = {"on the GPU": Look(BLUE, "o"), "on the CPU of the same host": Look(BLACK, "s")}
"""The looks of rows, some of which are of ``on_host``."""
_BLANK = " A row that is blank in a panel was not measured there."
_ROUNDS = " Rows have unequal rounds: a speedup is over {baseline}."
_ROUNDING = 1e-9
_OPEN = " Open markers: the training diverged."


def grid(names: Sequence[str], count: int, most: int = 3, height: float = ROW) -> tuple[Figure, list[Axes]]:
    """So many panels, at most so many side by side, each with a row per name; names on the left."""
    lines, columns = layout.arranged(count, most)
    whole = lines * (_AROUND + height_of(names, height))
    figure, found = layout.panels(lines, columns, whole, sharey=True)
    for number, axes in enumerate(found.flat):
        axes.tick_params(labelleft=number % columns == 0, left=number % columns == 0)
        lines_of_values(axes)
    for axes in list(found.flat)[count:]:
        axes.remove()
    used = list(found.flat)[:count]
    name_rows(used[0], names)
    return figure, used


def framed(
    figure: Figure,
    panels: Sequence[Axes],
    titles: Sequence[str],
    title: str,
    about: Sequence[str],
    note: str,
    key: Iterable[Artist] = (),
) -> Figure:
    """The frame of a figure of rows (``layout.framed``), and the titles of its panels.

    A single panel has none: what it is of stands above the figure.
    """
    if len(panels) > 1:
        place = panels[0].get_subplotspec()
        assert place is not None
        lines, columns, *_ = place.get_geometry()
        names = [label.get_text() for label in panels[0].get_yticklabels()]
        texts_of = [
            [text.get_text() for axes in panels[i::columns] for text in axes.texts] for i in range(columns)
        ]
        taken = layout.widest(figure, names) + sum(layout.widest(figure, texts) for texts in texts_of)
        for axes, said in zip(panels, titles, strict=True):
            layout.titled(axes, said, (layout.WIDTH - taken) / columns - _APART)
        tallest = max(axes.get_title().count("\n") for axes in panels)
        figure.set_figheight(figure.get_figheight() + 0.14 * tallest * lines)
    return layout.framed(figure, title, about, note, key)


def height_of(names: Sequence[str], height: float = ROW) -> float:
    """Inches of rows that are all as high as the longest name needs them."""
    most = max((len(textwrap.wrap(name, _NAME)) for name in names), default=1)
    return len(names) * (height + 0.13 * (max(most, 1) - 1))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """One name per row, from the top down; a long one in several lines."""
    axes.set_yticks(range(len(names)), [textwrap.fill(name, _NAME) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    lines_of_values(axes)


def lines_of_values(axes: Axes) -> None:
    """Lines across the rows, where the axis of values has ticks, and none along them."""
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def dot(
    axes: Axes,
    row: float,
    value: float,
    ends: tuple[float, float] | None,
    shade: str = BLUE,
    marker: str = "o",
    filled: bool = True,
) -> None:
    """A dot at a value, and what lies between the ends of its interval where there is one."""
    known = ends is not None and not np.isnan(ends).any()
    spread = [[max(0.0, value - ends[0])], [max(0.0, ends[1] - value)]] if known and ends else None
    look: dict[str, Any] = {"color": shade, "markerfacecolor": shade if filled else "white"}
    axes.errorbar(value, row, xerr=spread, fmt=marker, elinewidth=1.2, **look)


def mean(axes: Axes, row: float, cell: pd.Series, is_beside: bool) -> list[float]:
    """The dot of a cell's mean time with the deviation of its runs; returns the mean and the ends of its bar.

    A black square is of a cell ``is_beside``, on the GPU's host; the dot of a training that diverged is open.
    """
    value, spread = cell["mean_s"], cell["std_s"]
    interval = deviations.ends(value, spread)
    on_gpu, on_cpu = HOST.values()
    look = on_cpu if is_beside else on_gpu
    dot(axes, row, value, interval, *look, filled=cell["status"] != DIVERGED)
    deviations.arrows(axes, value, spread, row, look.colour, along="x")
    return [value, *interval]


def bands(axes: Axes, count: int) -> None:
    """A pale band behind every second row, where a row has several dots."""
    for row in range(1, count, 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f3f4f6", linewidth=0, zorder=0)


def beside(axes: Axes, row: float, text: str, shade: str = "black") -> None:
    """A text on the right of a row."""
    at = axes.get_yaxis_transform()
    axes.annotate(
        text, (1.0, row), xytext=(3, 0), xycoords=at, textcoords="offset points", va="center", color=shade,
        fontsize=SMALLEST, annotation_clip=False,
    )  # fmt: skip


def status(axes: Axes, row: float, text: object) -> None:
    """Why a row has no dot."""
    beside(axes, row, str(text) if isinstance(text, str) else "no time", GREY)


def scale(axes: Axes, values: Iterable[float], *, log: bool | None = None) -> None:
    """The axis that holds these values, the ends of intervals among them: logarithmic if they span much.

    A linear one begins at zero.
    """
    known = np.asarray([value for value in values if np.isfinite(value)], dtype=float)
    if not len(known):
        axes.set_xticks([])
        return
    if is_wide(known) if log is None else log:
        log_axis(axes.xaxis)
        low, high = known[known > 0].min(), known.max()
        room = max((high / low) ** _ROOM, 1.05)
        axes.set_xlim(low / room, high * room)
    else:
        axes.set_xlim(min(0.0, known.min() * 1.1), known.max() * 1.08 or 1.0)
        linear_axis(axes.xaxis, 4)


def key(looks: Mapping[str, Look]) -> list[Artist]:
    """The entries of a key for what colours and markers mean, by their labels."""
    return [
        Line2D([], [], color=shade, marker=marker, linestyle="", label=label)
        for label, (shade, marker) in looks.items()
    ]


def rule(axes: Axes, at: float, shade: str = GREY) -> None:
    """A dashed line behind the dots."""
    if not np.isnan(at):
        axes.axvline(at, color=shade, linewidth=0.8, linestyle="--", zorder=1)


def dashed(label: str, shade: str = GREY) -> Artist:
    """Its entry in the key."""
    return Line2D([], [], color=shade, linewidth=0.8, linestyle="--", label=label)


def in_order(table: pd.DataFrame, names: pd.Series, points: pd.Series, column: str) -> list[str]:
    """The names by the geometric mean of a column over the points, each over its point's; empty ones last."""
    with np.errstate(divide="ignore"):
        logs = pd.Series(np.log(table[column].to_numpy(dtype=float)), table.index)
    relative = logs - logs.groupby(points).transform("mean")
    return (
        relative.groupby(names, sort=False)
        .mean()
        .sort_values(kind="stable", na_position="last")
        .index.tolist()
    )


def named(table: pd.DataFrame) -> pd.Series:
    """The strategies' names, each with the choices in which it differs from most rows: ``graph, cublas``.

    Where most have nothing in common, every row has its choices. A kernel is none of the choices of a row
    that ran on the CPU beside a GPU.
    """
    shown = table.copy()
    for name in ("kernel", "precision"):
        if name in shown:
            alone = table.groupby(["strategy", "backend"])[name].transform("nunique") < 2
            left_out = (on_host(table) & alone) | (shown[name] == _usual(table, name))
            left_out |= shown[name].nunique() < 2
            shown[name] = shown[name].astype(object).where(~left_out)
    for name in [each for each in table if each.startswith(("strategy.", "kernel."))]:
        shown[name] = said(name, shown[name])
    if "options" in shown:
        shown["options"] = [_option(*row) for row in zip(shown["strategy"], shown["options"], strict=True)]
    kinds = [name for name in ("kernel", "precision", "options") if name in shown]
    options = [name for name in table if name.startswith(("strategy.", "kernel."))]
    return texts(shown, ["strategy", *kinds, *options])


def usual_kernel(table: pd.DataFrame) -> str:
    """The sentence that says which kernel the rows have that name none; nothing where all have one."""
    if "kernel" not in table or table["kernel"].nunique() < 2:
        return ""
    usual = _usual(table, "kernel")
    return f" The kernel is {usual} where none is named." if usual else ""


def _usual(table: pd.DataFrame, name: str) -> str | None:
    """The kernel or the precision of more than half of the rows."""
    shares = table.loc[~on_host(table), name].value_counts(normalize=True)
    return str(shares.index[0]) if len(shares) and shares.iloc[0] > 0.5 else None


def of_marks(table: pd.DataFrame) -> str:
    """What a note says of open markers and of arrows, where a row with a time needs one; else empty."""
    diverged = (table["status"].eq(DIVERGED) & table["mean_s"].notna()).any()
    return (_OPEN if diverged else "") + deviations.note(table["mean_s"], table["std_s"])


def of_common_rounds(ratios: pd.Series, baseline: str) -> str:
    """What a note says where speedups are of the rounds that a row has in common with its baseline.

    ``ratios`` are the speedups that are shown, each over the quotient of the mean times; empty where all are
    that quotient.
    """
    unequal = ((ratios - 1).abs() > _ROUNDING).any()
    return _ROUNDS.format(baseline=baseline) if unequal else ""


def of_blanks(names: pd.Series, points: pd.Series) -> str:
    """What a note says of rows that are blank in a panel, where there is one; else empty."""
    found = pd.DataFrame({"name": names, "point": points}).drop_duplicates()
    return _BLANK if len(found) < names.nunique() * points.nunique() else ""


def on_host(table: pd.DataFrame) -> pd.Series:
    """Which rows ran on the CPU of the host of the GPU on which others ran."""
    on_cpu = table["backend"] == "cpu"
    return on_cpu & (table["backend"] == "cuda").any()


def said(name: str, values: pd.Series) -> list[str | None]:
    """The values of an option with its name: ``8 threads``, ``1 thread``, ``channels last True``."""
    option = name.rpartition(".")[2].replace("_", " ")
    known = [None if pd.isna(value) else value for value in values.astype(object)]
    return [
        None if value is None else _counted(value, option) if _is_number(value) else f"{option} {value}"
        for value in known
    ]


def _counted(number: float, names: str) -> str:
    return f"{number:g} {names.removesuffix('s') if number == 1 else names}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def _option(strategy: object, option: object) -> object:
    """``8 threads`` of ``threads 8``; other options as they are."""
    name, _, value = str(option).partition(" ")
    if name == "threads" and value.isdigit():
        return _counted(float(value), name)
    return option if isinstance(option, str) and option else None
