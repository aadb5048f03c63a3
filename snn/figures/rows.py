"""Dots in rows: a name on the left, a dot with its interval, its numbers in a column on the right.

Panels side by side share the rows, so that a name is written once. Names tell strategies apart, so colours
and markers say something else of a row, such as where it ran.
"""

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from snn.figures import layout
from snn.figures.form import Form, complete, draw_dots, key_of
from snn.figures.style import BLACK, BLUE, GREY, RULE, SMALLEST, Look, texts
from snn.figures.ticks import hold

ROW = 0.165  # inches
_APART, _LEAST = 0.12, 0.09  # inches between the dots of a row, and of one of many
_ROWS = 6.9  # inches of all rows with several dots, from which on they are closer
_AROUND = 0.62  # inches of a panel besides its rows: its title, its axis
_BETWEEN = 0.25  # inches between the titles of panels side by side
_NAME = 44  # letters of a name's line
_ARROW = 10  # points
_ROUNDING = 1e-9
HOST = {"on the GPU": Look(BLUE, "o"), "on the CPU of the same host": Look(BLACK, "s")}
"""The looks of rows, some of which are of ``on_host``."""


@dataclass(frozen=True, kw_only=True)
class Rows(Form):
    """A figure of dots in rows.

    Its frame has the name of a dot's ``row``, and may have its ``panel`` and that one's ``title``, if it is
    another; the ``axis`` of its value; ``text`` on the right of the row; ``status``, why there is no dot;
    ``rule``, the value of the panel's dashed line; ``start``, from which a line leads to the dot;
    ``has_ring``; ``is_beyond``: the value is larger than the dot says. Dots of a row stand one below the
    other, except those of the same ``slot``, which are ``aside`` so many rows.
    """

    axes: Mapping[str, bool | None]
    """The title of each axis, and whether it is logarithmic; None: if its values span much."""
    order: Callable[[pd.DataFrame], list[str]] = lambda frame: list(dict.fromkeys(frame["row"]))
    """The names of the rows, from the top down."""
    rule: str = ""
    """What the key says of the dashed line."""
    most: int = 3
    """Panels side by side."""
    has_own_rows: bool = False
    """Whether each line of panels has its own rows."""
    has_one_scale: bool = False
    """Whether all panels have the same axis."""
    ends: Callable[[pd.DataFrame], np.ndarray] = lambda cells: cells[
        ["value", "low", "high", "rule", "start"]
    ].to_numpy(float)
    """What an axis holds of its dots."""

    def draw(self, frame: pd.DataFrame) -> tuple[Figure, list[Artist]]:
        defaults = {"rule": np.nan, "start": np.nan, "text": "", "axis": next(iter(self.axes)), "aside": 0.0}
        frame = complete(frame, defaults | {"is_beyond": False})
        frame = frame.assign(slot=frame.get("slot", frame.index), title=frame.get("title", frame["panel"]))
        titles, dots = list(dict.fromkeys(frame["panel"])), _dots_of(frame)
        lines = [titles[i : i + self.most] for i in range(0, len(titles), self.most)]
        groups = lines if self.has_own_rows else [titles]
        orders = {panel: self.order(frame[frame["panel"].isin(group)]) for group in groups for panel in group}
        heights = [_height_of(orders[group[0]], dots) for group in groups]
        ratios = heights if self.has_own_rows else None
        height = _AROUND + sum(heights) / len(heights)
        figure, found = layout.panels(len(titles), height, self.most, sharey="row", height_ratios=ratios)
        for axes, panel in zip(found, titles, strict=True):
            cells = frame[frame["panel"] == panel]
            axis = cells["axis"].iloc[0]
            shown = frame[frame["axis"] == axis] if self.has_one_scale else cells
            self._panel(axes, cells, orders[panel])
            hold(axes.xaxis, self.ends(shown), self.axes[axis])
            axes.set_xlabel(axis)
            axes.tick_params(left=layout.is_first(axes))
        set_titles(figure, found, frame.groupby("panel", sort=False)["title"].first())
        key = [RULE.entry(self.rule)] if self.rule and frame["rule"].notna().any() else []
        return figure, [*key, *key_of(frame[frame["value"].notna()])]

    def _panel(self, axes: Axes, cells: pd.DataFrame, order: Sequence[str]) -> None:
        """The dots of a panel, in rows of this order."""
        name_rows(axes, order)
        rows = cells["row"].map({name: i for i, name in enumerate(order)})
        slots = cells[cells["value"].notna()].groupby(rows, sort=False)["slot"]
        before, count = slots.transform(lambda slot: pd.factorize(slot)[0]), slots.transform("nunique")
        several = _dots_of(cells)
        cells = cells.assign(at=rows + cells["aside"] + (before - (count - 1) / 2) * 0.75 / several)
        if several > 1:
            for row in range(1, len(order), 2):  # a band behind every second row
                axes.axhspan(row - 0.5, row + 0.5, color="#f3f4f6", linewidth=0, zorder=0)
        for rule in cells["rule"].dropna().unique():
            axes.axvline(rule, zorder=1, color=RULE.colour, linestyle=RULE.line, linewidth=RULE.width)
        known = cells[cells["value"].notna()]
        lines = known[known["start"].notna()]
        wide: dict[str, Any] = {"color": BLUE, "linewidth": 2, "alpha": 0.35, "capstyle": "butt"}
        axes.hlines(lines["at"], lines["start"], lines["value"], **wide)
        for (label, look), some in known.groupby(["label", "look"], sort=False):
            draw_dots(axes, some, "at", label, look, along="x")
        for cell in known[known["is_beyond"]].itertuples():
            arrow = {"arrowstyle": "<-", "color": cell.look.colour, "shrinkA": 0, "shrinkB": 0}
            end: dict[str, Any] = {"xytext": (_ARROW, 0), "textcoords": "offset points"}
            axes.annotate("", xy=(cell.value, cell.at), arrowprops=arrow, annotation_clip=False, **end)
        place: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        place |= {"va": "center", "fontsize": SMALLEST, "annotation_clip": False}
        for row, cell in zip(rows, cells.itertuples(), strict=True):  # on the right of a row
            text, shade = (cell.status, GREY) if pd.isna(cell.value) else (cell.text, BLACK)
            if text:
                axes.annotate(text, (1.0, row), xytext=(3, 0), color=shade, **place)


def _dots_of(cells: pd.DataFrame) -> int:
    """The most dots that a row of a panel has, one below the other."""
    slots = cells[cells["value"].notna()].groupby(["panel", "row"])["slot"].nunique()
    return max([1, *slots])


def _height_of(names: Sequence[str], dots: int = 1) -> float:
    """Inches of rows that are all as high as the longest name, and so many dots, need them."""
    lines = max((len(textwrap.wrap(name, _NAME)) for name in names), default=1)
    several = max(0.2, _LEAST * (dots + 0.5), min(_APART * (dots + 0.5), _ROWS / len(names)))
    return len(names) * ((several if dots > 1 else ROW) + 0.13 * (max(lines, 1) - 1))


def grid(names: Sequence[str], count: int, height: float) -> tuple[Figure, list[Axes]]:
    """Panels that share rows of these names, each of so many inches."""
    figure, found = layout.panels(count, _AROUND + len(names) * height, sharey=True)
    for axes in found:
        name_rows(axes, names)
    return figure, found


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """One name per row, from the top down, a long one in several lines; lines across the rows at ticks."""
    axes.set_yticks(range(len(names)), [textwrap.fill(name, _NAME) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def set_titles(figure: Figure, found: Sequence[Axes], titles: Iterable[str]) -> None:
    """The titles of panels of rows, as wide as names and texts leave room for.

    A single panel has none: what it is of stands above the figure.
    """
    place = found[0].get_subplotspec()
    if len(found) < 2 or place is None or not any(titles):
        return
    lines, columns, *_ = place.get_geometry()
    names = [label.get_text() for label in found[0].get_yticklabels()]
    taken = layout.widest(figure, names) + sum(
        layout.widest(figure, [text.get_text() for axes in found[i::columns] for text in axes.texts])
        for i in range(columns)
    )
    for axes, said in zip(found, titles, strict=True):
        layout.set_title(axes, said, (layout.WIDTH - taken) / columns - _BETWEEN)
    tallest = max(axes.get_title().count("\n") for axes in found)
    figure.set_figheight(figure.get_figheight() + 0.14 * tallest * lines)


def fastest_first(frame: pd.DataFrame, largest: bool = False) -> list[str]:
    """The names of rows by the geometric mean of their values over the panels, each over its panel's; those
    without any come last. ``largest``: the largest values come first."""
    with np.errstate(divide="ignore"):
        logs = np.log(frame["value"].astype(float))
    relative = (logs - logs.groupby(frame["panel"]).transform("mean")) * (-1 if largest else 1)
    means = relative.groupby(frame["row"], sort=False).mean()
    return means.sort_values(kind="stable", na_position="last").index.tolist()


# ---- what notes say


def shared_order(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """What a note says of rows in the order of ``fastest_first``."""
    several = frame["panel"].nunique() > 1
    return "Rows are in the order of the geometric mean over the panels." if several else ""


def blanks(table: pd.DataFrame, frame: pd.DataFrame) -> str:
    """What a note says of rows that are blank in a panel."""
    places = frame[["row", "panel"]].drop_duplicates()
    is_full = len(places) == frame["row"].nunique() * frame["panel"].nunique()
    return "" if is_full else "A row that is blank in a panel was not measured there."


def common_rounds(baseline: str) -> Callable[[pd.DataFrame, pd.DataFrame], str]:
    """What a note says if speedups are of the rounds that a row has in common with its baseline: if one is
    not the ``quotient`` of the mean times, which the frame holds over it."""
    said = f"Rows have unequal rounds: a speedup is over {baseline}."
    return lambda table, frame: said if ((frame["quotient"] - 1).abs() > _ROUNDING).any() else ""


def usual_kernel(table: pd.DataFrame, frame: pd.DataFrame | None = None) -> str:
    """The sentence that says which kernel the rows have that name none; nothing where all have one."""
    if "kernel" not in table or table["kernel"].nunique() < 2:
        return ""
    usual = _usual(table, "kernel")
    return f"The kernel is {usual} where none is named." if usual else ""


# ---- the names of rows


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
    options = [name for name in table if name.startswith(("strategy.", "kernel."))]
    for name in options:
        shown[name] = option(name, shown[name])
    if "options" in shown:
        threads = shown["options"].astype("string").str.extract(r"^threads (\d+)$")[0].map(_threads)
        shown["options"] = threads.fillna(shown["options"]).replace("", None)
    kinds = [name for name in ("kernel", "precision", "options") if name in shown]
    return texts(shown, ["strategy", *kinds, *options])


def _threads(count: object) -> object:
    return count if pd.isna(count) else f"{count} thread{'' if count == '1' else 's'}"


def option(name: str, values: pd.Series) -> list[str | None]:
    """The values of an option with its name: ``8 threads``, ``1 thread``, ``channels last True``."""
    said = name.rpartition(".")[2].replace("_", " ")
    found: list[str | None] = []
    for value in values.astype(object):
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)
        text = f"{value:g} {said.removesuffix('s') if value == 1 else said}" if is_number else None
        found.append(None if pd.isna(value) else text or f"{said} {value}")
    return found


def _usual(table: pd.DataFrame, name: str) -> str | None:
    """The kernel or the precision of more than half of the rows."""
    shares = table.loc[~on_host(table), name].value_counts(normalize=True)
    return str(shares.index[0]) if len(shares) and shares.iloc[0] > 0.5 else None


def on_host(table: pd.DataFrame) -> pd.Series:
    """Which rows ran on the CPU of the host of the GPU on which others ran."""
    return (table["backend"] == "cpu") & (table["backend"] == "cuda").any()


def hosts(table: pd.DataFrame) -> pd.Series:
    """What a key says of each row, if some are of ``on_host``: a label of ``HOST``; else empty."""
    beside = on_host(table)
    on_gpu, on_cpu = HOST
    return beside.map({False: on_gpu if beside.any() else "", True: on_cpu})
