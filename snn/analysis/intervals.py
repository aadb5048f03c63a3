"""Ratios of two mean times with 95% confidence intervals, by Student's t over rounds, and their verdicts."""

from collections.abc import Sequence
from math import exp, isnan, log, nan, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from snn.analysis.verdicts import FASTER, NOT_SIGNIFICANT, SAME, SLOWER
from snn.measurement.protocol import student_quantile

Rounds = Sequence[Sequence[float]]
"""Seconds of the runs of each round; a round is one job."""


class Ratio(NamedTuple):
    """A ratio of two mean times with its 95% interval.

    ``rounds`` is the number of rounds that it is of, and ``spread`` the standard deviation over them of the
    logarithm of the ratio; NaN for a single round.
    """

    value: float
    low: float
    high: float
    rounds: int
    spread: float


def ratio(baseline: Rounds, other: Rounds) -> Ratio:
    """mean(baseline) / mean(other), over the rounds in which both sides have a time; each round counts alike.

    Rounds of the same number were measured in the same pass of the workflow, so whatever slowed both cancels
    in the ratio of their means. The interval is Student's for the mean of these ratios' logarithms, with one
    degree of freedom less than there are rounds: runs of one round say nothing about how much rounds differ.
    ``benchmarks/protocols.py`` simulates how often it contains the true ratio.

    With a single round, the interval is that of Student and Welch for the runs, and knows nothing of what a
    later round would give. It is NaN where a side has fewer than two runs.
    """
    pairs = [(a, b) for a, b in zip(baseline, other, strict=False) if sum(a) > 0 and sum(b) > 0]
    if not pairs:
        return Ratio(nan, nan, nan, 0, nan)
    value = mean_of([a for a, _ in pairs]) / mean_of([b for _, b in pairs])
    spread = nan
    if len(pairs) > 1:
        spread = stdev([log(fmean(a) / fmean(b)) for a, b in pairs])
        margin = student_quantile(len(pairs) - 1) * spread / sqrt(len(pairs))
    else:
        margin = _welch(*pairs[0])
    return Ratio(value, value * exp(-margin), value * exp(margin), len(pairs), spread)


def mean_of(rounds: Rounds) -> float:
    """The mean over rounds of the mean times of their runs; NaN where no round has a run."""
    means = [fmean(runs) for runs in rounds if len(runs)]
    return fmean(means) if means else nan


def mean_interval(rounds: Rounds) -> tuple[float, float]:
    """The 95% interval of ``mean_of``: that of its ratio to exactly one second in every round."""
    _, low, high, _, _ = ratio(rounds, [[1.0, 1.0]] * len(rounds))
    return low, high


def speedup_verdict(low: float, high: float, margin: float) -> str:
    """``same`` where the whole interval is within the margin of 1, ``faster`` or ``slower`` where it excludes
    1, otherwise ``not significant``."""
    if isnan(low) or isnan(high):
        return NOT_SIGNIFICANT
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return SAME
    if low > 1:
        return FASTER
    return SLOWER if high < 1 else NOT_SIGNIFICANT


def ratio_verdict(found: Ratio, same: float, one_round: float) -> str:
    """``speedup_verdict`` of a ratio. In a single round it tells apart only times that differ by more than
    the factor ``one_round``: how much rounds differ is unknown, and often more than runs of one round."""
    if found.rounds == 1 and 1 / one_round < found.value < one_round:
        return NOT_SIGNIFICANT
    return speedup_verdict(found.low, found.high, same)


def _welch(*sides: Sequence[float]) -> float:
    """Half the width of the interval of the log ratio of two means, with Welch and Satterthwaite's degrees of
    freedom; NaN where a side has fewer than two runs."""
    if min(map(len, sides)) < 2:
        return nan
    variances = [(stdev(runs) / fmean(runs)) ** 2 / len(runs) for runs in sides]
    weights = [variance**2 / (len(runs) - 1) for variance, runs in zip(variances, sides, strict=True)]
    if not sum(weights):
        return 0.0
    return student_quantile(sum(variances) ** 2 / sum(weights)) * sqrt(sum(variances))
