"""Standard deviations as error bars around means, also on a log axis, which has no zero.

A bar is drawn down to a tenth of its mean. Where it reaches below, there is an arrow at this end, and the
figure's note says so.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.markers import CARETDOWN, CARETLEFT

_LEAST = 0.1  # of a mean
_OPEN = " Arrows: the bar reaches below a tenth of its mean."


def ends(mean: Any, spread: Any) -> tuple[Any, Any]:
    """Where the bars of a mean or a column of means end, above zero; NaN if unknown."""
    return np.maximum(mean - spread, _LEAST * mean), mean + spread


def lengths(mean: Any, spread: Any) -> list[Any]:
    """How far the bars reach below and above their means."""
    low, high = ends(mean, spread)
    return [mean - low, high - mean]


def arrows(axes: Axes, mean: Any, spread: Any, places: Any, shade: str, along: str = "y") -> None:
    """An arrow at the lower end of each bar that reaches below it; ``along`` is the axis of the means."""
    means, spreads, others = (np.atleast_1d(np.asarray(one, dtype=float)) for one in (mean, spread, places))
    is_open = _reaches_below(means, spreads)
    low, others = _LEAST * means[is_open], others[is_open]
    at, marker = ((low, others), CARETLEFT) if along == "x" else ((others, low), CARETDOWN)
    if len(low):
        axes.plot(*at, linestyle="", marker=marker, markersize=5, color=shade)


def note(mean: Any, spread: Any) -> str:
    """What a note says of arrows, where there is one; else empty."""
    return _OPEN if np.any(_reaches_below(mean, spread)) else ""


def _reaches_below(mean: Any, spread: Any) -> Any:
    return spread > (1 - _LEAST) * mean
