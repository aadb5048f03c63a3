"""The page of every figure: seven inches wide, with a title and a description above, a key and a note below.

The note explains dots, bars and lines, so that a figure can be read without its caption. An SVG file contains
the same text for readers who do not see the figure.
"""

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.legend import Legend
from matplotlib.transforms import ScaledTranslation
from PIL import Image

from snn.figures.style import GREY, SMALLEST
from snn.files import sealed

WIDTH = 7.0
"""Inches of a page's text."""

_EDGE = 0.06  # inches of the margin
_TITLE = FontProperties(size=9, weight="bold")
_ABOUT = FontProperties(size=7.5)
_NOTE = FontProperties(size=SMALLEST)
_PANEL = FontProperties(size=8, weight="bold")
_AXIS = 0.4  # inches of an axis with one line of labels and its title
_LEADING = 1.3  # distance of lines, as a multiple of the font's size
_INK = "#374151"
_NAMED = re.compile(rb'(?<=["#])([pm])[0-9a-f]{10}(?=[")])')
"""The name of a clip box (p) or a marker (m) in an SVG file, both its definition and its uses."""
_ROOT = re.compile(rb"(<svg [^>]*)>")
_COLOURS = 256  # of a PNG file: enough for a dozen series with their soft edges
_MOST_PIXELS = 30_000
"""Most pixels per side of a PNG file: readers and Matplotlib fail at 65,536."""


def panels(
    count: int, height: float, most: int = 3, titles: Sequence[str] = (), **options: Any
) -> tuple[Figure, list[Axes]]:
    """Create ``count`` panels of this height in inches, at most ``most`` side by side, and set their
    titles."""
    columns = 2 if count == 4 and most > 1 else min(count, most)
    lines = -(-count // columns)
    figure, grid = plt.subplots(lines, columns, figsize=(WIDTH, lines * height), squeeze=False, **options)
    for axes in grid.flat[count:]:
        axes.remove()
    found = list(grid.flat[:count])
    for axes, title in zip(found, titles, strict=False):
        set_title(axes, title, WIDTH / columns - 0.8)
    return figure, found


def is_first(axes: Axes) -> bool:
    """Whether a panel is in the first column."""
    place = axes.get_subplotspec()
    return place is not None and place.is_first_col()


def framed(figure: Figure, title: str, about: Sequence[str], note: str, key: Iterable[Artist] = ()) -> Figure:
    """Put title, description, key and note around the axes; the figure grows by their height.

    ``about`` holds lines of text (device, data sets, network); empty ones are left out. ``key`` holds the
    entries of a legend for all axes.
    """
    inner = figure.get_size_inches()[1]
    said = [line for text in about for line in wrapped(figure, text, _ABOUT)]
    heading = wrapped(figure, title, _TITLE)
    noted = wrapped(figure, note, _NOTE)
    legend = _legend(figure, list(key))
    of_title, of_note = _height(heading, _TITLE), _height(noted, _NOTE)
    of_key = legend.get_window_extent().height / figure.dpi if legend else 0.0
    above = 2 * _EDGE + of_title + _height(said, _ABOUT)
    below = 3 * _EDGE + of_note + of_key
    whole = above + inner + below
    figure.set_size_inches(WIDTH, whole)
    look: dict[str, Any] = {"x": _EDGE / WIDTH, "ha": "left"}
    shown = figure.suptitle("\n".join(heading), y=1 - _EDGE / whole, va="top", fontproperties=_TITLE, **look)
    shown.set_in_layout(False)  # its place is set here
    look |= {"linespacing": _LEADING, "color": _INK}
    top = 1 - (_EDGE + of_title) / whole
    figure.text(y=top, s="\n".join(said), va="top", fontproperties=_ABOUT, **look)
    figure.text(y=_EDGE / whole, s="\n".join(noted), va="bottom", fontproperties=_NOTE, **look)
    if legend:
        legend.set_bbox_to_anchor((0.5, (2 * _EDGE + of_note) / whole))
    rect = (_EDGE / WIDTH, below / whole, 1 - 2 * _EDGE / WIDTH, inner / whole)
    figure.set_layout_engine("constrained", rect=rect)
    return figure


def nothing(message: str) -> Figure:
    """A figure with only a message, for a table that has nothing to draw."""
    figure, (axes,) = panels(1, 1.2)
    axes.axis("off")
    lines = "\n".join(wrapped(figure, message, _ABOUT))
    axes.text(0.5, 0.5, lines, ha="center", va="center", color=GREY, fontproperties=_ABOUT)
    return figure


def set_title(axes: Axes, title: str, inches: float) -> None:
    """Set the title of a panel, left-aligned, in lines of at most this many inches."""
    lines = "\n".join(wrapped(_figure(axes), title, _PANEL, inches))
    axes.set_title(lines, fontproperties=_PANEL, x=0, ha="left")


def key_below(axes: Axes, handles: Sequence[Artist], columns: int = 2) -> None:
    """Draw the legend of one panel, under its axis."""
    below = axes.transAxes + ScaledTranslation(0, -_AXIS, _figure(axes).dpi_scale_trans)
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0}
    axes.legend(handles=handles, ncols=columns, bbox_transform=below, **place)


def _figure(axes: Axes) -> Figure:
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def wrapped(figure: Figure, text: str, font: FontProperties, inches: float = WIDTH - 2 * _EDGE) -> list[str]:
    """Wrap a text at this width, at spaces and hyphens; cuts longer words."""
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
    """The width in inches of the widest of these names of rows or ticks."""
    lines = (line for name in names for line in name.split("\n"))
    return max((_width(figure, line, _NOTE) for line in lines), default=0.0)


def _width(figure: Figure, text: str, font: FontProperties) -> float:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]  # Agg's
    return renderer.get_text_width_height_descent(text, font, False)[0] / figure.dpi


def _height(lines: Sequence[str], font: FontProperties) -> float:
    return len(lines) * _LEADING * font.get_size_in_points() / 72


def _legend(figure: Figure, entries: list[Artist]) -> Legend | None:
    """Draw the key in as many columns as fit, above the note."""
    place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 0), "borderaxespad": 0}
    for columns in range(min(len(entries), 8), 0, -1):
        legend = figure.legend(handles=entries, ncols=columns, **place)
        if columns == 1 or legend.get_window_extent().width <= (WIDTH - 2 * _EDGE) * figure.dpi:
            return legend
        legend.remove()
    return None


def save(figure: Figure, paths: Sequence[str]) -> None:
    """Write the figure to an SVG file and to other formats; equal figures give equal bytes.

    A figure with very many rows has fewer pixels per inch, so that it fits into a PNG file.
    """
    figure.set_dpi(min(figure.dpi, _MOST_PIXELS / max(figure.get_size_inches())))
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is finished; each format would repeat it twice
    drawn = {Path(path): _rendered(figure, Path(path).suffix[1:]) for path in paths}
    plt.close(figure)
    first, *others = drawn
    sealed.write(first, drawn[first], {other: drawn[other] for other in others})


def _rendered(figure: Figure, form: str) -> bytes:
    content = io.BytesIO()
    figure.savefig(content, format=form, dpi=figure.dpi, metadata={"Date": None} if form == "svg" else {})
    if form == "svg":
        return _in_words(_numbered(content.getvalue()), figure)
    return _in_few_colours(content.getvalue()) if form == "png" else content.getvalue()


def _numbered(svg: bytes) -> bytes:
    """Number the clip boxes and markers of a picture in their order.

    Matplotlib names them by a digest of their exact sizes, whose last bits vary between runs of the layout.
    """
    numbers: dict[bytes, bytes] = {}
    return _NAMED.sub(lambda found: numbers.setdefault(found[0], b"%s%d" % (found[1], len(numbers))), svg)


def _in_few_colours(png: bytes) -> bytes:
    """Convert a picture to a palette, which takes a third of the bytes."""
    content = io.BytesIO()
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
        few.save(content, format="png", optimize=True, dpi=picture.info["dpi"])
    return content.getvalue()


def _in_words(svg: bytes, figure: Figure) -> bytes:
    """Mark an SVG picture as one image with a title (or its message, if it draws nothing) and a description:
    the texts around the axes, the panels and the axes."""
    heading = figure.get_suptitle()
    message = " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    said = [_line(text.get_text()) for text in figure.texts if text.get_text() != heading]
    for name, text_of in (
        ("Panels", lambda axes: axes.get_title("left") or axes.get_title()),
        ("Horizontal", Axes.get_xlabel),
        ("Vertical", Axes.get_ylabel),
    ):
        found = dict.fromkeys(filter(None, (_line(text_of(axes)) for axes in figure.axes)))
        said += [f"{name}: {'; '.join(found)}."] if found else []
    title, description = _line(heading or message), " ".join(filter(None, said))
    words = f"<title>{escape(title)}</title>\n <desc>{escape(description)}</desc>".encode()
    return _ROOT.sub(lambda found: b'%s role="img">\n %s' % (found[1], words), svg, count=1)


def _line(text: str) -> str:
    """Join the lines of a text, which may have been broken after a hyphen."""
    return text.replace("-\n", "-").replace("\n", " ")
