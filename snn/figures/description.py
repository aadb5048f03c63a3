"""What a figure is, in words: for readers of its SVG file who do not see it."""

import re
from collections.abc import Callable
from xml.sax.saxutils import escape

from matplotlib.axes import Axes
from matplotlib.figure import Figure

_ROOT = re.compile(rb"(<svg [^>]*)>")


def title(figure: Figure) -> str:
    """The figure's title, or the message of one that has nothing to draw."""
    message = (text.get_text() for axes in figure.axes for text in axes.texts)
    return _line(figure.get_suptitle() or " ".join(message))


def description(figure: Figure) -> str:
    """What was measured and what is drawn, as it stands around the axes; the panels and the axes."""
    heading = figure.get_suptitle()
    said = [_line(text.get_text()) for text in figure.texts if text.get_text() != heading]
    listed = {
        "Panels": _of_axes(figure, lambda axes: axes.get_title("left") or axes.get_title()),
        "Horizontal": _of_axes(figure, Axes.get_xlabel),
        "Vertical": _of_axes(figure, Axes.get_ylabel),
    }
    return " ".join([*filter(None, said), *(f"{name}: {text}." for name, text in listed.items() if text)])


def described(svg: bytes, figure: Figure) -> bytes:
    """The picture as one image, with its title and its description."""
    words = f"<title>{escape(title(figure))}</title>\n <desc>{escape(description(figure))}</desc>".encode()
    return _ROOT.sub(lambda found: b'%s role="img">\n %s' % (found[1], words), svg, count=1)


def _of_axes(figure: Figure, text: Callable[[Axes], str]) -> str:
    """This text of all axes, each once."""
    return "; ".join(dict.fromkeys(filter(None, (_line(text(axes)) for axes in figure.axes))))


def _line(text: str) -> str:
    """A text in one line; lines may have been broken after a hyphen."""
    return text.replace("-\n", "-").replace("\n", " ")
