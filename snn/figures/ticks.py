"""Axes labelled with plain numbers, no more than fit next to each other."""

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import Locator, LogLocator, MaxNLocator, NullLocator

from snn.figures.style import SMALLEST, plain

_STEPS = (1, 2, 2.5, 5, 10)  # steps of a linear axis
_MOST = 7  # most ticks of a log axis
_LOG_FROM = 4  # ratio of the largest to the smallest value above which an axis is logarithmic
_ROOM = 0.08  # of a log axis, beyond the extreme values
_LINEAR = [MaxNLocator(count, steps=_STEPS) for count in (6, 4, 3, 2)]
_DIGITS = [LogLocator(subs=subs) for subs in ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1, 3))]
_DECADES = [LogLocator(numticks=count) for count in (99, 7, 5, 4, 3, 2)]
_CHARACTER = 0.64 * SMALLEST  # width of a digit in points
_GAP = 5.0  # points between labels
_LINE = 1.7 * SMALLEST  # points between lines

_Fits = Callable[[Sequence[float]], bool]


def is_wide(values: Iterable[float]) -> bool:
    """Whether the range of these positive values is so wide that they need a log axis."""
    found = np.asarray([value for value in values if math.isfinite(value)], dtype=float)
    return len(found) > 0 and found.min() > 0 and found.max() > _LOG_FROM * found.min()


def log_axis(axis: Axis) -> None:
    """Make an axis logarithmic, with plain numbers, fewer on a shorter axis."""
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    _label(axis, _Fitting(plain, _decades), plain)


def linear_axis(axis: Axis, most: int = 5) -> None:
    """Label a linear axis with at most ``most + 1`` plain numbers."""
    _label(axis, MaxNLocator(most, steps=_STEPS), plain)


def at_values(axis: Axis, values: Iterable[float], text: Callable[[float], str] = plain) -> None:
    """Label these values of an axis. Skips values whose labels would touch the previous one or the last."""
    known = sorted(set(map(float, values)))

    def choose(low: float, high: float, fits: _Fits) -> list[float]:
        shown: list[float] = []
        inside = [value for value in known if low <= value <= high]
        for value in inside:
            if fits([*shown, value, *[inside[-1]] * (value < inside[-1])]):
                shown.append(value)
        return shown

    _label(axis, _Fitting(text, choose), lambda value, _: text(value))


def hold(axis: Axis, values: np.ndarray, log: bool) -> None:
    """Fit an axis to these values with some margin; a linear axis also includes zero."""
    known = np.ravel(values)[np.isfinite(np.ravel(values))]
    set_limits = axis.axes.set_xlim if axis is axis.axes.xaxis else axis.axes.set_ylim
    if not len(known):
        axis.set_ticks([])
    elif log:
        log_axis(axis)
        low, high = known[known > 0].min(), known.max()
        room = max((high / low) ** _ROOM, 1.05)
        set_limits(low / room, high * room)
    else:
        linear_axis(axis, 4)
        low, high = min(known.min(), 0.0), max(known.max(), 0.0)
        room = 0.1 * (high - low)
        set_limits(low - room if low else 0.0, high + room or 1.0)


def _label(axis: Axis, locator: Locator, text: Callable) -> None:
    axis.set_major_locator(locator)
    axis.set_major_formatter(text)
    axis.set_minor_locator(NullLocator())


class _Fitting(Locator):
    """Ticks of a view chosen by ``choose``, so that their labels do not touch."""

    def __init__(self, text: Callable[[float], str], choose: Callable[..., list[float]]) -> None:
        self._text, self._choose = text, choose

    def __call__(self) -> Sequence[float]:
        assert isinstance(self.axis, Axis)
        return self.tick_values(*self.axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        return self._choose(*sorted((vmin, vmax)), self._fits)

    def _fits(self, ticks: Sequence[float]) -> bool:
        """Whether the labels of these ascending ticks do not touch."""
        assert isinstance(self.axis, Axis)
        axes, figure = self.axis.axes, self.axis.get_figure(root=True)
        assert figure is not None
        lines = [self._text(tick).split("\n") for tick in ticks]
        points = np.repeat(np.asarray(ticks, dtype=float)[:, np.newaxis], 2, axis=1)
        if self.axis is axes.xaxis:
            places = axes.get_xaxis_transform().transform(points)[:, 0]
            rooms = [max(map(len, each)) * _CHARACTER + _GAP for each in lines]
        else:
            places = axes.get_yaxis_transform().transform(points)[:, 1]
            rooms = [len(each) * _LINE for each in lines]
        apart = np.abs(np.diff(places)) * 72 / figure.dpi
        return bool((apart >= (np.array(rooms[1:]) + rooms[:-1]) / 2).all())


def _decades(low: float, high: float, fits: _Fits) -> list[float]:
    """Ticks of a log axis: 1, 2, 5, 10, ..., or every decade, or every n-th decade, whichever fits first."""
    if not (math.isfinite(low) and math.isfinite(high) and 0 < low < high):
        return []
    locators: list[Locator] = [*_DIGITS, *_DECADES]
    if high < 10 * low:
        locators = [*_LINEAR, *_DIGITS] if high < _LOG_FROM * low else [*_DIGITS, *_LINEAR]
    for locator in locators:
        found = map(float, locator.tick_values(low, high))
        ticks = [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if 1 < len(ticks) <= _MOST and fits(ticks):
            return ticks
    return [math.sqrt(low * high)]
