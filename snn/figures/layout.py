"""The frame of every figure: seven inches wide, a title and what was measured above, a key and a note below.

The note says what dots, bars and lines are, so that a figure can be read without its caption.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.transforms import ScaledTranslation
from pandas import DataFrame

from snn.figures.style import GREY, SMALLEST, literally, where

WIDTH = 7.0
"""Inches: of a page's text."""

_EDGE = 0.06  # inches around everything
_TITLE = FontProperties(size=9, weight="bold")
_ABOUT = FontProperties(size=7.5)
_NOTE = FontProperties(size=SMALLEST)
_AXIS = 0.4  # inches of an axis with one line of labels and its title
PANEL = FontProperties(size=8, weight="bold")
"""Of the title of a panel."""
_LEADING = 1.3  # of a font's size, from line to line
_KEY: dict[str, Any] = {"handlelength": 2.0, "columnspacing": 1.4, "handletextpad": 0.5, "borderpad": 0.2}


def panels(lines: int, columns: int, height: float, **options: Any) -> tuple[Figure, np.ndarray]:
    """A figure and its axes, as of ``plt.subplots``; ``height`` is of all axes together, in inches."""
    return plt.subplots(lines, columns, figsize=(WIDTH, height), squeeze=False, **options)


def arranged(count: int, most: int = 3) -> tuple[int, int]:
    """Lines and columns of so many panels, at most so many side by side."""
    columns = 2 if count == 4 else min(count, most)
    return -(-count // columns), columns


def framed(
    figure: Figure,
    title: str,
    about: Sequence[str],
    note: str,
    key: Iterable[Artist] = (),
) -> Figure:
    """Put title, what was measured, key and note around the axes; the figure grows by their height.

    ``about`` are lines of text, of which empty ones are left out: device, data sets, network. ``key`` are the
    entries of a legend for all axes.
    """
    inner = figure.get_size_inches()[1]
    said = [line for text in about for line in wrapped(figure, text, _ABOUT)]
    heading = wrapped(figure, title, _TITLE)
    noted = wrapped(figure, note, _NOTE)
    legend = _legend(figure, list(key))
    above = _EDGE + _height(heading, _TITLE) + _height(said, _ABOUT) + _EDGE
    of_key = legend.get_window_extent().height / figure.dpi if legend else 0.0
    below = 2 * _EDGE + _height(noted, _NOTE) + of_key + _EDGE
    whole = above + inner + below
    figure.set_size_inches(WIDTH, whole)
    left = _EDGE / WIDTH
    shown = figure.suptitle(
        "\n".join(heading), x=left, y=1 - _EDGE / whole, ha="left", va="top", fontproperties=_TITLE
    )
    shown.set_in_layout(False)  # its place is set here
    top = 1 - (_EDGE + _height(heading, _TITLE)) / whole
    look: dict[str, Any] = {"ha": "left", "linespacing": _LEADING}
    figure.text(left, top, "\n".join(said), va="top", fontproperties=_ABOUT, color="#374151", **look)
    figure.text(
        left, _EDGE / whole, "\n".join(noted), va="bottom", fontproperties=_NOTE, color="#374151", **look
    )
    if legend:
        legend.set_bbox_to_anchor((0.5, (2 * _EDGE + _height(noted, _NOTE)) / whole))
    figure.set_layout_engine(
        "constrained", rect=(_EDGE / WIDTH, below / whole, 1 - 2 * _EDGE / WIDTH, inner / whole)
    )
    return figure


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


def nothing(message: str) -> Figure:
    """A figure that only holds a message, of a table that has nothing to draw."""
    figure, ((axes,),) = panels(1, 1, 1.2)
    axes.axis("off")
    lines = "\n".join(wrapped(figure, message, _ABOUT))
    axes.text(0.5, 0.5, lines, ha="center", va="center", color=GREY, fontproperties=_ABOUT)
    return figure


def titled(axes: Axes, title: str, inches: float) -> None:
    """The title of a panel, from its left edge on, in lines that are at most so wide."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    lines = "\n".join(wrapped(figure, title, PANEL, inches))
    axes.set_title(lines, fontproperties=PANEL, x=0, ha="left")


def key_below(axes: Axes, columns: int = 2, handles: Iterable[Artist] | None = None) -> None:
    """The legend of one panel, under its axis."""
    entries = list(handles) if handles is not None else axes.get_legend_handles_labels()[0]
    figure = axes.get_figure(root=True)
    assert figure is not None
    below = ScaledTranslation(0, -_AXIS, figure.dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0}
    axes.legend(handles=entries, ncols=columns, bbox_transform=axes.transAxes + below, **place, **_KEY)


def wrapped(figure: Figure, text: str, font: FontProperties, inches: float = WIDTH - 2 * _EDGE) -> list[str]:
    """The text in lines that are at most so wide, broken at spaces and hyphens; a longer word is cut."""
    lines: list[str] = []
    for word in text.split():
        for number, piece in enumerate(re.split(r"(?<=-)", word)):
            longer = f"{lines[-1]}{'' if number else ' '}{piece}" if lines else piece
            if lines and _width(figure, longer, font) <= inches:
                lines[-1] = longer
                continue
            while _width(figure, piece, font) > inches and len(piece) > 1:
                ends = range(len(piece) - 1, 1, -1)
                end = next((end for end in ends if _width(figure, piece[:end], font) <= inches), 1)
                lines.append(piece[:end])
                piece = piece[end:]
            lines.append(piece)
    return lines


def widest(figure: Figure, names: Iterable[str]) -> float:
    """Inches of the widest of these names of rows or ticks."""
    lines = (line for name in names for line in name.split("\n"))
    return max((_width(figure, line, _NOTE) for line in lines), default=0.0)


def _width(figure: Figure, text: str, font: FontProperties) -> float:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]  # Agg's
    return renderer.get_text_width_height_descent(text, font, False)[0] / figure.dpi


def _height(lines: Sequence[str], font: FontProperties) -> float:
    return len(lines) * _LEADING * font.get_size_in_points() / 72


def _legend(figure: Figure, entries: list[Artist]) -> Legend | None:
    """The key in as many columns as fit, above the place of the note."""
    for columns in range(min(len(entries), 8), 0, -1):
        legend = figure.legend(
            handles=entries,
            loc="lower center",
            ncols=columns,
            borderaxespad=0,
            bbox_to_anchor=(0.5, 0),
            **_KEY,
        )
        literally(legend)
        if columns == 1 or legend.get_window_extent().width <= (WIDTH - 2 * _EDGE) * figure.dpi:
            return legend
        legend.remove()
    return None
