"""The grammar of figures: dots with their intervals, in named rows (``Rows``) or over a number (``Values``).

A declaration makes a frame of a table, a row for each dot (``points``), and says the words around it.
"""

import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETLEFT, CARETRIGHT, CARETUP

from snn.analysis.verdicts import DIVERGED
from snn.figures import layout
from snn.figures.names import where
from snn.figures.style import BLACK, BLUE, GREY, RULE, SMALLEST, Look, plain
from snn.figures.ticks import at_values, hold, is_wide, linear_axis, log_axis

Drawing = Callable[[pd.DataFrame, str, str], Figure]
"""Draws a table, given the device whose published values it may show, and a description of the cells."""

Words = str | Callable[[pd.DataFrame, pd.DataFrame], str]
"""A text, or a function that makes it from a table and the drawn frame."""

_COLUMNS: dict[str, Any] = {
    "panel": "",
    "axis": None,  # title of the value's axis; None: the first axis
    "row": "",
    "x": np.nan,  # without it, the value is a dashed line across the panel
    "x_title": None,
    "tick": "",  # label at x; empty: the number
    "label": "",  # name of the series
    "in_key": True,
    "slot": None,  # series with the same slot share a place
    "aside": 0.0,  # shift of a dot within its slot, in rows
    "text": "",  # at the right end of the row, or next to the marker
    "rule": np.nan,  # place of the panel's dashed line
    "start": np.nan,  # beginning of a line to the dot
    "is_open": False,
}
_LEAST = 0.1
"""A bar on a log axis ends at this fraction of its value, and at its inverse, with an arrow if cut."""


_USUAL = Look()


def about(table: pd.DataFrame, trained: str) -> list[str]:
    """Lines on the subject of a figure: the devices of a table, and the cells or a microbenchmark."""
    return [f"Device: {where(table)}.", trained or "Microbenchmark, without training."]


def points(
    table: pd.DataFrame, value: str, ends: str | Sequence[str] = (), look: Any = _USUAL, **columns: Any
) -> pd.DataFrame:
    """A dot for each row of a table: its ``value``, and the ends of its interval, ``low`` and ``high``.

    ``ends`` names the columns of the ends, or the column of a standard deviation. ``look`` is one look for
    all dots, one per dot, or a mapping from labels. ``columns`` are others of ``_COLUMNS``.
    """
    values, low, high = table[value].astype(float), np.nan, np.nan
    if isinstance(ends, str):
        spread = table[ends].astype(float)
        low, high = values - spread, values + spread
    elif ends:
        low, high = (table[end].astype(float) for end in ends)
    status = table.get("status", pd.Series("", table.index)).astype(object)
    known = {"value": values, "low": low, "high": high, "status": status.fillna("no time")}
    known["has_diverged"] = status.eq(DIVERGED) & values.notna()
    frame = pd.DataFrame(_COLUMNS | known | columns, index=table.index)
    if isinstance(look, Mapping):
        look = [look.get(label, Look()) for label in frame["label"]]
    frame["look"] = [look] * len(frame) if isinstance(look, Look) else list(look)
    return frame


@dataclass(frozen=True, kw_only=True)
class Form(ABC):
    """A declaration of a figure: ``frame`` turns a table into the drawn frame, with a row for each dot."""

    title: Words
    frame: Callable[[pd.DataFrame], pd.DataFrame]
    axes: Mapping[str, bool | None]
    """The title of each axis of values, and whether it is logarithmic; None: if its range is wide."""
    note: tuple[Words, ...]
    """Sentences of the note: the first explains dots, bars and lines; ``remarks`` follow it."""
    about: Callable[[pd.DataFrame, str], list[str]] = about
    """The lines above the panels."""
    most: int = 3
    """Most panels side by side."""
    has_one_scale: bool = False
    """Whether all panels have the same axis of values."""

    def __call__(self, table: pd.DataFrame, paper_device: str = "", trained: str = "") -> Figure:
        """Draw a table. ``paper_device`` is the device whose published values it may show."""
        table = table.assign(paper_device=paper_device)
        frame = self.frame(table)
        if not frame["value"].notna().any():
            return layout.nothing(f"no row has a value: {', '.join(self.axes)}")
        frame = self._on_axes(frame)
        figure, key = self.draw(frame.reset_index(drop=True))
        words = (self.title, self.note[0], *self.remarks(frame), *self.note[1:])
        title, *notes = [text if isinstance(text, str) else text(table, frame) for text in words]
        return layout.framed(figure, title, self.about(table, trained), " ".join(filter(None, notes)), key)

    def _on_axes(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with the axis of each dot, and with long bars on log axes cut."""
        frame = frame.assign(axis=frame["axis"].where(frame["axis"].notna(), next(iter(self.axes))))
        wide = frame.groupby("axis")["value"].agg(is_wide)
        log = frame["axis"].map(
            {name: wide.get(name) if log is None else log for name, log in self.axes.items()}
        )
        low, high = frame["value"] * _LEAST, frame["value"] / _LEAST
        below, above = log & (frame["low"] < low), log & (frame["high"] > high)
        ends = {"low": frame["low"].mask(below, low), "high": frame["high"].mask(above, high)}
        return frame.assign(**ends, is_log=log, is_cut_below=below, is_cut_above=above)

    @abstractmethod
    def draw(self, frame: pd.DataFrame) -> tuple[Figure, list[Artist]]:
        """Draw the panels, and return the entries of the key below them."""

    def remarks(self, frame: pd.DataFrame) -> list[str]:
        """The note's sentences about special dots, if there are any."""
        said = ["Circles around markers: the training diverged."] if frame["has_diverged"].any() else []
        cut = {"below a tenth of": "is_cut_below", "beyond ten times": "is_cut_above"}
        ends = " or ".join(words for words, which in cut.items() if frame[which].any())
        return [*said, *[f"Arrows: the bar reaches {ends} its value."] * bool(ends)]

    def hold(self, axes: Axes, along: str, cells: pd.DataFrame, frame: pd.DataFrame) -> None:
        """Fit a panel's axis of values to its dots, or to the dots of all panels."""
        of = frame[frame["axis"] == cells["axis"].iloc[0]] if self.has_one_scale else cells
        values = of[["value", "low", "high", "rule", "start"]].to_numpy(float)
        hold(axes.xaxis if along == "x" else axes.yaxis, values, bool(cells["is_log"].iloc[0]))


def key_of(frame: pd.DataFrame) -> list[Artist]:
    """The key's entries, one for each label of dots."""
    looks: dict[str, Look] = {}
    for label, look in frame.loc[frame["in_key"], ["label", "look"]].itertuples(index=False, name=None):
        looks.setdefault(label, look)
    return [look.entry(label) for label, look in looks.items() if label]


def draw_dots(axes: Axes, dots: pd.DataFrame, other: str, label: str, look: Look, along: str = "y") -> None:
    """Draw dots of one look with their intervals at the places ``other``; ``along`` is the value's axis."""

    def at(some: pd.DataFrame, value: str) -> tuple[pd.Series, pd.Series]:
        return (some[value], some[other]) if along == "x" else (some[other], some[value])

    if dots.empty:
        return
    spread = [(dots["value"] - dots["low"]).clip(lower=0), (dots["high"] - dots["value"]).clip(lower=0)]
    bars = {along: spread if dots["low"].notna().any() else None}
    axes.errorbar(*at(dots, "value"), bars.get("y"), bars.get("x"), label=label, **look.options)
    below, above = (CARETLEFT, CARETRIGHT) if along == "x" else (CARETDOWN, CARETUP)
    for name, value, own in (
        ("is_cut_below", "low", {"marker": below, "markersize": 5}),
        ("is_cut_above", "high", {"marker": above, "markersize": 5}),
        ("is_open", "value", {"markerfacecolor": "white", "zorder": 2.5}),
        ("has_diverged", "value", {"marker": "o", "markersize": 9, "markerfacecolor": "none"}),
    ):
        if dots[name].any():
            axes.plot(*at(dots[dots[name]], value), **look.options | {"linestyle": ""} | own)


# ---- dots in rows: a name on the left, a dot with its interval, its numbers in a column on the right

ROW = 0.165  # inches
_APART, _CLOSEST = 0.12, 0.09  # inches between the dots of a row, and of a row among many
_ROWS = 6.9  # inches of all rows with several dots; taller panels have closer dots
AROUND = 0.62  # inches of a panel without its rows: title and axis
_BETWEEN = 0.25  # inches between the titles of panels side by side
_NAME = 44  # letters per line of a name


def fastest_first(frame: pd.DataFrame, largest: bool = False) -> list[str]:
    """The names of rows, ordered by the geometric mean over panels of their values relative to the panel's
    mean; rows without values come last. ``largest``: the largest values come first."""
    with np.errstate(divide="ignore"):
        logs = np.log(frame["value"].astype(float))
    relative = (logs - logs.groupby(frame["panel"]).transform("mean")) * (-1 if largest else 1)
    means = relative.groupby(frame["row"], sort=False).mean()
    return means.sort_values(kind="stable", na_position="last").index.tolist()


def in_order(frame: pd.DataFrame) -> list[str]:
    """The names of rows in the order of the table."""
    return list(dict.fromkeys(frame["row"]))


@dataclass(frozen=True, kw_only=True)
class Rows(Form):
    """A figure of dots in rows. Panels side by side share the rows, so that each name appears once.

    Names identify the strategies, so colours and markers show something else, such as the place of a run.
    """

    order: Callable[[pd.DataFrame], list[str]] = in_order
    """The names of the rows, from the top down."""
    rule: str = ""
    """The key's text for the dashed line."""
    has_own_rows: bool = False
    """Whether each line of panels has its own rows."""

    def draw(self, frame: pd.DataFrame) -> tuple[Figure, list[Artist]]:
        frame = frame.assign(slot=np.where(frame["slot"].notna(), frame["slot"], frame.index))
        known = frame[frame["value"].notna()]
        titles = list(dict.fromkeys(frame["panel"]))
        several = int(known.groupby(["panel", "row"])["slot"].nunique().max())
        lines = [titles[i : i + self.most] for i in range(0, len(titles), self.most)]
        groups = lines if self.has_own_rows else [titles]
        orders = {panel: self.order(frame[frame["panel"].isin(group)]) for group in groups for panel in group}
        heights = [_height(orders[group[0]], several) for group in groups]
        ratios = heights if self.has_own_rows else None
        height = AROUND + sum(heights) / len(heights)
        figure, found = layout.panels(len(titles), height, self.most, sharey="row", height_ratios=ratios)
        for axes, panel in zip(found, titles, strict=True):
            cells = frame[frame["panel"] == panel]
            self._panel(axes, cells, orders[panel], several)
            self.hold(axes, "x", cells, frame)
            axes.set_xlabel(cells["axis"].iloc[0])
            axes.tick_params(left=layout.is_first(axes))
        set_titles(figure, found, ["" if panel in self.axes else panel for panel in titles])
        key = [RULE.entry(self.rule)] if self.rule and frame["rule"].notna().any() else []
        return figure, [*key, *key_of(known)]

    def remarks(self, frame: pd.DataFrame) -> list[str]:
        places = frame[["row", "panel"]].drop_duplicates()
        rows, panels = frame["row"].nunique(), frame["panel"].nunique()
        is_shared = panels > 1 and self.order is not in_order
        said = ["Rows are in the order of the geometric mean over the panels."] if is_shared else []
        if len(places) < rows * panels and not self.has_own_rows:
            said += ["A row that is blank in a panel was not measured there."]
        return [*super().remarks(frame), *said]

    def _panel(self, axes: Axes, cells: pd.DataFrame, order: Sequence[str], several: int) -> None:
        """Draw the dots of a panel, in rows of this order with up to ``several`` dots."""
        name_rows(axes, order)
        rows = cells["row"].map({name: i for i, name in enumerate(order)})
        slots = cells[cells["value"].notna()].groupby(rows, sort=False)["slot"]
        before, count = slots.transform(lambda slot: pd.factorize(slot)[0]), slots.transform("nunique")
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
        place: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        place |= {"va": "center", "fontsize": SMALLEST, "annotation_clip": False}
        for row, cell in zip(rows, cells.itertuples(), strict=True):  # at the right end of a row
            text, shade = (cell.status, GREY) if pd.isna(cell.value) else (cell.text, BLACK)
            if text:
                axes.annotate(text, (1.0, row), xytext=(3, 0), color=shade, **place)


def _height(names: Sequence[str], dots: int) -> float:
    """Inches of rows of equal height, enough for the longest name and this many dots."""
    lines = max((len(textwrap.wrap(name, _NAME)) for name in names), default=1)
    several = max(0.2, _CLOSEST * (dots + 0.5), min(_APART * (dots + 0.5), _ROWS / len(names)))
    return len(names) * ((several if dots > 1 else ROW) + 0.13 * (max(lines, 1) - 1))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Label the rows from the top down, long names in several lines; draw lines across the rows at ticks."""
    axes.set_yticks(range(len(names)), [textwrap.fill(name, _NAME) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")


def set_titles(figure: Figure, found: Sequence[Axes], titles: Iterable[str]) -> None:
    """Set the titles of panels of rows, as wide as names and texts permit.

    A single panel has no title, because the figure's heading describes it.
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


# ---- values over a number: a line or markers for each series, with their intervals

_PANEL = 2.7  # inches
_DODGE, _MOST_DODGE = 0.12, 0.4  # of the distance of two numbers: between two series, and between all
_MOST_NUMBERS = 40  # up to this many, each may have a tick


@dataclass(frozen=True, kw_only=True)
class Values(Form):
    """A figure of values over a number. Series are side by side at a number, unless they share a slot.

    A number without a value is marked by a cross at the bottom of the panel.
    """

    x: str = ""
    """The title of the axis of numbers, if the frame has none."""
    log_x: bool | None = None
    """Whether this axis is logarithmic; None: if its range is wide."""
    keys: int = 0
    """Columns of the key below each panel; 0: all panels have one key."""

    def draw(self, frame: pd.DataFrame) -> tuple[Figure, list[Artist]]:
        titles = list(dict.fromkeys(frame["panel"]))
        found = frame.groupby("panel", sort=False)
        height = _PANEL + (0.15 * found["label"].nunique().max() if self.keys == 1 else 0)
        figure, panels = layout.panels(len(titles), height, self.most, titles, sharey=self.has_one_scale)
        for axes, (_, cells) in zip(panels, found, strict=True):
            self._panel(axes, cells)
            self.hold(axes, "y", cells, frame)
            axes.set_xlabel(cells["x_title"].iloc[0] or self.x)
            if layout.is_first(axes) or cells["axis"].iloc[0] != next(iter(self.axes)):
                axes.set_ylabel(cells["axis"].iloc[0])
            if self.keys:
                layout.key_below(axes, key_of(cells), self.keys)
        return figure, [] if self.keys else key_of(frame)

    def remarks(self, frame: pd.DataFrame) -> list[str]:
        placed = _slotted(frame[frame["x"].notna()])
        several = placed.groupby("panel")["slot"].nunique().gt(1).any()
        said = "Series stand side by side at a number, so that none hides another."
        return [*super().remarks(frame), *[said] * bool(several)]

    def _panel(self, axes: Axes, cells: pd.DataFrame) -> None:
        """Draw the series of a panel over their numbers."""
        cells = _slotted(cells)
        placed = cells[cells["x"].notna()]
        known = sorted(set(placed["x"]))
        log = is_wide(known) if self.log_x is None or not known or known[0] <= 0 else self.log_x
        step = (known[-1] / known[0]) ** (1 / max(len(known) - 1, 1)) if log and known else 1.0
        width = (
            (known[-1] - known[0]) / (len(known) - 1) if len(known) > 1 else abs(max(known, default=1.0)) or 1
        )
        slots = list(dict.fromkeys(placed["slot"]))
        apart = min(_DODGE, _MOST_DODGE / max(len(slots) - 1, 1))
        for number, ((label, look), some) in enumerate(cells.groupby(["label", "look"], sort=False)):
            slot = some["slot"].iloc[0]
            shift = apart * (slots.index(slot) - (len(slots) - 1) / 2) if slot in slots else 0.0
            some = some.assign(at=some["x"] * step**shift if log else some["x"] + width * shift)
            dots = some.dropna(subset=["at", "value"]).sort_values("at")
            draw_dots(axes, dots, "at", label, look)
            for value in some.loc[some["x"].isna(), "value"].dropna():
                style = "--" if look.marker else look.line
                axes.axhline(value, color=look.colour, linewidth=0.8, linestyle=style, zorder=1)
            crosses = some.loc[some["value"].isna(), "at"].dropna()
            if len(crosses):
                foot: dict[str, Any] = {
                    "transform": axes.get_xaxis_transform(),
                    "linestyle": "",
                    "marker": "x",
                }
                axes.plot(crosses, [0.03 + 0.05 * (number % 19)] * len(crosses), color=look.colour, **foot)
            for dot in dots[dots["text"] != ""].itertuples():
                side: dict[str, Any] = {"xytext": (-5, 0), "ha": "right"} if shift < 0 else {"xytext": (5, 0)}
                side |= {"textcoords": "offset points", "va": "center", "fontsize": SMALLEST}
                axes.annotate(dot.text, (dot.at, dot.value), **side)
        if (cells["text"] != "").any():
            axes.margins(x=0.25)
            axes.grid(visible=False)  # the texts give the values; no line crosses them
        if len(known) > _MOST_NUMBERS:
            (log_axis if log else linear_axis)(axes.xaxis)
            return
        if log:
            axes.set_xscale("log", base=2)
        ticks = dict(zip(placed["x"], placed["tick"], strict=True))
        at_values(axes.xaxis, known, lambda value: ticks.get(value) or plain(value))


def _slotted(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(slot=frame["slot"].where(frame["slot"].notna(), frame["label"]))


def with_rule(frame: pd.DataFrame, value: float, label: str = "", look: Look = RULE) -> pd.DataFrame:
    """Add a line across the last panel at a value to compare with."""
    known = {"x": np.nan, "value": value, "low": np.nan, "high": np.nan, "label": label}
    rule = frame.tail(1).assign(**known, has_diverged=False, look=[look] * bool(len(frame)))
    return pd.concat([frame, rule], ignore_index=True)
