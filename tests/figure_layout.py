"""What a reader would object to in a drawn figure, by the boxes of its texts as the renderer places them."""

import itertools
from unittest import mock

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.legend import Legend
from matplotlib.text import Text

from snn.figures.layout import WIDTH
from snn.figures.style import SMALLEST

_TOUCH = 0.5  # points by which boxes may overlap: they have some room around the letters


def faults(figure):
    """A line per fault: too wide, too small a text, one outside, over another or a line, a bar cut off."""
    drawn = _drawn(figure)
    unit = figure.dpi / 72
    said = [] if figure.get_figwidth() <= WIDTH else [f"{figure.get_figwidth():.1f} inches wide"]
    for text, box in drawn:
        name = text.get_text()
        if text.get_fontsize() < SMALLEST:
            said.append(f"{name!r} is of {text.get_fontsize()} points")
        if "$" in name and "^" in name:
            said.append(f"{name!r} has exponents smaller than that")
        if (box.min < figure.bbox.min - unit).any() or (box.max > figure.bbox.max + unit).any():
            said.append(f"{name!r} is not within the figure")
    boxes = np.array([box.extents for _, box in drawn]).reshape(-1, 1, 4)
    others = boxes.reshape(1, -1, 4)
    both = np.minimum(boxes[..., 2:], others[..., 2:]) - np.maximum(boxes[..., :2], others[..., :2])
    said += [
        f"{drawn[one][0].get_text()!r} is over {drawn[other][0].get_text()!r}"
        for one, other in np.argwhere(np.triu((both > _TOUCH * unit).all(axis=2), 1))
    ]
    lines = _lines(figure)
    for text, box in drawn:
        inner = np.array([box.x0 + unit, box.y0 + unit]), np.array([box.x1 - unit, box.y1 - unit])
        if _crosses(lines, *inner):
            said.append(f"{text.get_text()!r} is over a line")
    said += [f"an error bar ends outside the panel of {axes.get_title('left')!r}" for axes in _cut(figure)]
    return said + [
        f"{one.get_title('left')!r} and {other.get_title('left')!r} share rows, but not lines across them"
        for one, other in itertools.pairwise(figure.axes)
        if one.get_shared_y_axes().joined(one, other) and _lined(one) != _lined(other)
    ]


def _drawn(figure):
    """Every text that is drawn and its box, in the order of drawing."""
    found = []
    draw = Text.draw

    def recorded(text, renderer, *args, **kwargs):
        if text.get_visible() and text.get_text().strip():
            found.append((text, text.get_window_extent(renderer)))
        return draw(text, renderer, *args, **kwargs)

    with mock.patch.object(Text, "draw", recorded):
        figure.draw_without_rendering()
    return found


def _lines(figure):
    """The starts and ends of all pieces of the lines of all panels, error bars among them, in pixels."""
    found = [np.empty((0, 2, 2))]
    for axes in figure.axes:
        for line in axes.lines:
            if line.get_visible() and line.get_linestyle() != "None":
                found.append(_pieces(axes, line.get_transform().transform(line.get_xydata())))
        for lines in axes.collections:
            if isinstance(lines, LineCollection):
                at = lines.get_transform().transform
                found += [_pieces(axes, at(one)) for one in lines.get_segments() if len(one)]
    return np.concatenate(found)


def _cut(figure):
    """The panels whose ends cut off an error bar."""
    for axes in figure.axes:
        bars = [
            bar for each in axes.containers if isinstance(each, ErrorbarContainer) for bar in each.lines[2]
        ]
        ends = [np.empty((0, 2))]
        ends += [bar.get_transform().transform(one) for bar in bars for one in bar.get_segments() if len(one)]
        ends = np.concatenate(ends)
        if (ends < axes.bbox.min - 1).any() or (ends > axes.bbox.max + 1).any():
            yield axes


def _lined(axes):
    """Whether lines stand at the ticks of the x axis."""
    return any(line.get_visible() for line in axes.get_xgridlines())


def _pieces(axes, points):
    """The pieces of a chain of points, cut at the ends of the panel."""
    inside = np.clip(points, axes.bbox.min, axes.bbox.max)
    pieces = np.stack([inside[:-1], inside[1:]], axis=1)
    return pieces[np.isfinite(pieces).all(axis=(1, 2))]


def _crosses(pieces, low, high):
    """Whether one of these straight pieces passes through a box (Liang and Barsky, 1984)."""
    if not len(pieces) or (low >= high).any():
        return False
    start, way = pieces[:, 0], pieces[:, 1] - pieces[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.stack([(low - start) / way, (high - start) / way])
    still = way == 0
    within = (low < start) & (start < high)
    enter = np.where(still, np.where(within, -np.inf, np.inf), ends.min(axis=0)).max(axis=1)
    leave = np.where(still, np.where(within, np.inf, -np.inf), ends.max(axis=0)).min(axis=1)
    return bool((np.maximum(enter, 0) < np.minimum(leave, 1)).any())


def dots(axes):
    """Place, marker and face of each dot of a panel, in the order in which they were drawn."""
    above = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
    is_open = {tuple(place) for line in above for place in line.get_xydata()}
    lines = [bars.lines[0] for bars in axes.containers if isinstance(bars, ErrorbarContainer)]
    return [
        (float(x), float(y), line.get_marker(), "white" if (x, y) in is_open else line.get_markerfacecolor())
        for line in lines
        for x, y in line.get_xydata()
    ]


def error_bars(axes, along="x"):
    """The ends of each error bar, in the order in which they were drawn."""
    drawn = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    bars = [segment for one in drawn for lines in one.lines[2] for segment in lines.get_segments()]
    return [tuple(bar[:, "xy".index(along)]) for bar in bars if len(bar)]


def said_in(figure):
    """All texts of a figure, keys among them, in one line."""
    legends = [text.get_text() for legend in figure.findobj(Legend) for text in legend.get_texts()]
    texts = [figure.get_suptitle(), *(text.get_text() for text in figure.texts), *legends]
    return " ".join(" ".join(texts).split())
