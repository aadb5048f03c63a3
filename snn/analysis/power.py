"""How many rounds a comparison needs, from the spread of those it has."""

from collections.abc import Callable
from math import isnan, log, sqrt
from statistics import NormalDist

from snn.analysis.intervals import Ratio, speedup_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.config.validation import MOST_ROUNDS
from snn.measurement.protocol import student_quantile

POWER = 0.90
"""The chance with which a difference is to be found."""

LEAST, MOST = 5, MOST_ROUNDS
"""Rounds below which an interval is of little use, and the most that a cell may have."""


def is_wide(ratio: Ratio, thresholds: Thresholds) -> bool:
    """Whether an interval's ends are more than the factor ``wide`` apart."""
    return ratio.high / ratio.low > thresholds["wide"]


def rounds_needed(ratio: Ratio, thresholds: Thresholds) -> int:
    """The rounds after which a ratio would be settled, if they go on differing as they do; those that it has,
    where it is.

    A ratio is settled if its interval is not wide and if it is ``faster``, ``slower`` or ``same``, or had
    enough rounds to find a difference of the share ``tell_apart``.
    """
    if isnan(ratio.spread):
        return LEAST
    needed = ratio.rounds
    if is_wide(ratio, thresholds):
        needed = max(needed, for_width(ratio.spread, thresholds["wide"]))
    if speedup_verdict(ratio.low, ratio.high, thresholds["same"]) == NOT_SIGNIFICANT:
        difference = max(abs(log(ratio.value)), log(1 + thresholds["tell_apart"]))
        needed = max(needed, for_difference(ratio.spread, difference))
    return needed


def for_difference(spread: float, difference: float) -> int:
    """The rounds that find a difference of logarithms with the chance ``POWER``, where the log ratios of
    rounds have this standard deviation; at most ``MOST``."""
    power = NormalDist().inv_cdf(POWER)
    return _first(lambda rounds: (student_quantile(rounds - 1) + power) * spread / sqrt(rounds) <= difference)


def for_width(spread: float, factor: float) -> int:
    """The rounds whose interval has ends within this factor of each other; at most ``MOST``."""
    return _first(lambda rounds: 2 * student_quantile(rounds - 1) * spread / sqrt(rounds) <= log(factor))


def _first(is_enough: Callable[[int], bool]) -> int:
    return next((rounds for rounds in range(2, MOST) if is_enough(rounds)), MOST)
