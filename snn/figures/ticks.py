"""Axes of numbers: plain numbers as labels, no more of them than fit beside each other."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import Locator, MaxNLocator, NullLocator

from snn.figures.style import SMALLEST

_DIGITS = ((1, 1.5, 2, 3, 4, 5, 7), (1, 2, 3, 5), (1, 2, 5), (1, 3))
_STEPS = (1, 2, 2.5, 5, 10)  # of a linear axis
_MOST = 7  # ticks of a log axis
_LOG_FROM = 4  # largest over smallest value
_CHARACTER = 0.64 * SMALLEST  # points: of a digit's width
_GAP = 5.0  # points between labels
_LINE = 1.7 * SMALLEST  # points from line to line


def plain(value: float, _position: object = None) -> str:
    """A number as in a text: ``0.001``, ``1024``, ``1,000,000``."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:g}"


def below(value: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above a positive number, for a tick."""
    decade = float(f"1e{math.floor(math.log10(value))}")
    return max(digit * decade for digit in (1, 2, 5) if digit * decade <= value * (1 + 1e-9))


def is_wide(values: Iterable[float]) -> bool:
    """Whether these positive values span so much that they need a log axis."""
    found = np.asarray([value for value in values if math.isfinite(value)], dtype=float)
    return len(found) > 0 and found.min() > 0 and found.max() > _LOG_FROM * found.min()


def log_axis(axis: Axis) -> None:
    """Make an axis logarithmic, with plain numbers; the fewer, the shorter it is."""
    (axis.axes.set_xscale if axis is axis.axes.xaxis else axis.axes.set_yscale)("log")
    axis.set_major_locator(_Decades())
    _plainly(axis)


def linear_axis(axis: Axis, most: int = 5) -> None:
    """Label a linear axis with plain numbers, at most so many and one more."""
    axis.set_major_locator(MaxNLocator(most, steps=_STEPS))
    _plainly(axis)


def at_values(axis: Axis, values: Iterable[float], text: Callable[[float], str] = plain) -> None:
    """Label these values of an axis: all of them, or as many as fit."""
    known = sorted(set(values))
    axis.set_major_locator(_Values(known, text))
    _plainly(axis)
    axis.set_major_formatter(lambda value, _: text(value))


def _plainly(axis: Axis) -> None:
    axis.set_major_formatter(plain)
    axis.set_minor_locator(NullLocator())


class _Fitting(Locator):
    """A locator that knows where its labels will stand, and how much room each takes."""

    @property
    def of(self) -> Axis:
        """The axis whose ticks these are."""
        assert isinstance(self.axis, Axis)
        return self.axis

    @property
    def is_horizontal(self) -> bool:
        """Whether its labels stand side by side."""
        return self.of is self.of.axes.xaxis

    def fits(self, ticks: Sequence[float], text: Callable[[float], str] = plain) -> bool:
        """Whether the labels of these ascending ticks do not touch each other."""
        places = self.places(ticks)
        rooms = [self.room(text(tick)) for tick in ticks]
        return all(
            abs(right - left) >= (room + next_room) / 2
            for left, right, room, next_room in zip(places, places[1:], rooms, rooms[1:], strict=False)
        )

    def places(self, ticks: Sequence[float]) -> list[float]:
        """Where ticks stand along the axis, in points."""
        axis, box = self.of, self.of.axes.bbox
        figure = axis.axes.get_figure(root=True)
        assert figure is not None
        length = (box.width if self.is_horizontal else box.height) * 72 / figure.dpi
        scale = axis.get_transform().transform
        low, high = scale(np.asarray(axis.get_view_interval(), dtype=float))
        return list(length * (scale(np.asarray(ticks, dtype=float)) - low) / ((high - low) or 1.0))

    def room(self, text: str) -> float:
        """What a label takes along the axis, in points."""
        lines = text.split("\n")
        return max(map(len, lines)) * _CHARACTER + _GAP if self.is_horizontal else len(lines) * _LINE


class _Decades(_Fitting):
    """Ticks of a log axis: as many as fit of 1, 2, 5, 10, ... or every decade, or every so many of them."""

    def __call__(self) -> list[float]:
        return self.tick_values(*self.of.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        low, high = sorted((vmin, vmax))
        if not (math.isfinite(low) and math.isfinite(high) and 0 < low < high):
            return []
        for ticks in self._candidates(low, high):
            if 1 < len(ticks) <= _MOST and self.fits(ticks):
                return ticks
        return list(self.raise_if_exceeds([math.sqrt(low * high)]))

    def _candidates(self, low: float, high: float) -> Iterator[list[float]]:
        if high < _LOG_FROM * low:
            yield from self._linear(low, high)
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        for digits in _DIGITS:
            yield self._within(low, high, decades, digits)
        if high < 10 * low:
            yield from self._linear(low, high)
        for step in range(1, len(decades)):
            yield self._within(low, high, [each for each in decades if each % step == 0], (1,))

    @staticmethod
    def _linear(low: float, high: float) -> Iterator[list[float]]:
        for count in (6, 4, 3, 2):
            ticks = MaxNLocator(count, steps=_STEPS).tick_values(low, high)
            yield [float(tick) for tick in ticks if low <= tick <= high]

    @staticmethod
    def _within(low: float, high: float, decades: Iterable[int], digits: Iterable[float]) -> list[float]:
        ticks = (float(f"{digit}e{decade}") for decade in decades for digit in digits)
        return [tick for tick in ticks if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


class _Values(_Fitting):
    """Ticks at given values; of those whose labels would touch, the first stay, and the last of all."""

    def __init__(self, values: Sequence[float], text: Callable[[float], str]) -> None:
        self._values, self._text = values, text

    def __call__(self) -> list[float]:
        return self.tick_values(*self.of.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> list[float]:
        low, high = sorted((vmin, vmax))
        shown: list[float] = []
        inside = [value for value in self._values if low <= value <= high]
        for value in inside:
            kept = [*shown, value]
            if self.fits(kept, self._text) and (
                value == inside[-1] or self.fits([*kept, inside[-1]], self._text)
            ):
                shown = kept
        return shown
