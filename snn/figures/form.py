"""What declarations of figures have in common: a frame with a row for each dot, and the words around it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWN, CARETLEFT
from pandas import DataFrame, Series

from snn.analysis.verdicts import DIVERGED
from snn.figures import layout
from snn.figures.style import Look, where

_LEAST = 0.1
"""Of a mean: a bar is drawn down to this, as a log axis has no zero; one that reaches below has an arrow."""


def about(table: DataFrame, trained: str = "") -> list[str]:
    """What a figure is of: the devices of a table, and what was trained.

    ``trained`` is the text of ``snn.figures.trained``; without it, data sets and networks are read from the
    table, if it has them.
    """
    columns = {"Data": "dataset", "Network": "network"}
    found = [
        f"{said}: {', '.join(map(str, table[name].dropna().unique()))}."
        for said, name in columns.items()
        if name in table and table[name].notna().any()
    ]
    return [f"Device: {where(table)}.", trained or " ".join(found)]


def about_microbenchmark(table: DataFrame, trained: str = "") -> list[str]:
    """What a figure is of that measures no training."""
    return [*about(table[["device", "backend"]]), "Microbenchmark, without a training."]


Drawing = Callable[[DataFrame, str, str], Figure]
"""Makes a figure of a table, the device whose published values it may show, and what was trained."""

Words = str | Callable[[DataFrame, DataFrame], str]
"""A text, or what makes it of a table and of the frame that is drawn."""


@dataclass(frozen=True, kw_only=True)
class Form(ABC):
    """A declaration of a figure: ``frame`` makes of a table what is drawn, a row for each dot.

    Of ``points`` and the columns that the kind of figure adds.
    """

    title: Words
    frame: Callable[[DataFrame], DataFrame]
    note: tuple[Words, ...]
    """What dots, bars and lines are, before what else is to be said. What ``marks`` says is added."""
    empty: str
    """What is said if no row has a value."""
    about: Callable[[DataFrame, str], list[str]] = about

    def __call__(self, table: DataFrame, paper_device: str = "", trained: str = "") -> Figure:
        """The figure of a table. ``paper_device`` is the one whose published values it may show."""
        table = table.assign(paper_device=paper_device)
        frame = self.frame(table)
        if frame.empty or not frame["value"].notna().any():
            return layout.nothing(self.empty)
        figure, key = self.draw(frame.reset_index(drop=True))
        words = (self.title, self.note[0], marks, *self.note[1:])
        title, *notes = [text if isinstance(text, str) else text(table, frame) for text in words]
        return layout.framed(figure, title, self.about(table, trained), " ".join(filter(None, notes)), key)

    @abstractmethod
    def draw(self, frame: DataFrame) -> tuple[Figure, list[Artist]]:
        """The panels and the entries of the key below them."""


def points(table: DataFrame, value: str, ends: str | Sequence[str] = (), **columns: Any) -> DataFrame:
    """A dot for each row of a table: its ``value``, and where its interval ends, ``low`` and ``high``.

    ``ends`` are the columns of its ends, or the one of the standard deviation of a mean. Then ``is_cut`` says
    where the bar reaches below a tenth of it, and ``has_diverged`` where the training did. ``columns`` are
    added, such as the ``look`` of all.
    """
    values = table[value].astype(float)
    low, high, is_cut, has_diverged = np.nan, np.nan, False, False
    status = table.get("status", Series("", table.index)).astype(object)
    if isinstance(ends, str):
        spread = table[ends].astype(float)
        low, high = np.maximum(values - spread, _LEAST * values), values + spread
        is_cut, has_diverged = spread > (1 - _LEAST) * values, status.eq(DIVERGED) & values.notna()
    elif ends:
        low, high = (table[end].astype(float) for end in ends)
    known = {"value": values, "low": low, "high": high, "is_cut": is_cut}
    known["has_diverged"] = has_diverged
    known |= {"status": status.fillna("no time")} | columns
    each = {name: [one] * len(table) for name, one in known.items() if isinstance(one, Look)}
    return DataFrame(known | each, index=table.index)


def complete(frame: DataFrame, defaults: Mapping[str, Any]) -> DataFrame:
    """The frame with these values of columns too, where it has none."""
    known = {"panel": "", "label": "", "look": Look(), "is_open": False, "has_ring": False}
    frame = frame.copy()
    for name, value in (known | dict(defaults)).items():
        if name not in frame:
            frame[name] = [value] * len(frame)
        elif isinstance(value, str | bool) and frame[name].isna().any():
            frame[name] = frame[name].where(frame[name].notna(), value).astype(type(value))
    return frame


def labelled(frame: DataFrame, labels: Series, looks: Mapping[str, Look]) -> DataFrame:
    """The frame with what a key says of each dot, and how that looks."""
    return frame.assign(label=labels, look=[looks.get(label, Look()) for label in labels])


def key_of(frame: DataFrame) -> list[Artist]:
    """The entries of a key for the labels of dots, each once."""
    looks: dict[str, Look] = {}
    for label, look in zip(frame["label"], frame["look"], strict=True):
        looks.setdefault(label, look)
    return [look.entry(label) for label, look in looks.items() if label]


def draw_dots(axes: Axes, dots: DataFrame, other: str, label: str, look: Look, along: str = "y") -> None:
    """Dots of one look with their intervals, at the places ``other``; ``along`` is the axis of the values.

    An arrow is at the end of a bar that is cut, an open marker on a dot that is open, and a circle around it.
    """

    def at(some: DataFrame, value: str) -> tuple[Series, Series]:
        return (some[value], some[other]) if along == "x" else (some[other], some[value])

    if dots.empty:
        return
    dots = dots.assign(is_open=dots["is_open"] | dots["has_diverged"])
    spread = [(dots["value"] - dots["low"]).clip(lower=0), (dots["high"] - dots["value"]).clip(lower=0)]
    bars = {along: spread if dots["low"].notna().any() else None}
    axes.errorbar(*at(dots, "value"), bars.get("y"), bars.get("x"), label=label, **look.options)
    caret = CARETLEFT if along == "x" else CARETDOWN
    for name, value, own in (
        ("is_cut", "low", {"marker": caret, "markersize": 5}),
        ("is_open", "value", {"markerfacecolor": "white", "zorder": 2.5}),
        ("has_ring", "value", {"marker": "o", "markersize": 9, "markerfacecolor": "none"}),
    ):
        if dots[name].any():
            axes.plot(*at(dots[dots[name]], value), **look.options | {"linestyle": ""} | own)


def marks(table: DataFrame, frame: DataFrame) -> str:
    """What a note says of open markers and of arrows, where there are some."""
    said = ["Open markers: the training diverged."] if frame["has_diverged"].any() else []
    said += ["Arrows: the bar reaches below a tenth of its mean."] if frame["is_cut"].any() else []
    return " ".join(said)
