"""Ratios of two mean times: confidence intervals by Student's t over rounds, p-values, and verdicts."""

from collections.abc import Callable, Sequence
from math import exp, isnan, log, nan, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from snn.analysis.verdicts import FASTER, NOT_SIGNIFICANT, SAME, SLOWER
from snn.measurement.student import LEVEL, student_quantile, two_sided_p

Rounds = Sequence[Sequence[float]]
"""Seconds of the runs of each round; a round is one job."""


class Ratio(NamedTuple):
    """A ratio of two mean times with its interval.

    ``rounds`` counts the rounds that both sides have, and ``spread`` is the standard deviation over them of
    the logarithm of the ratio; NaN for a single round. ``freedom_per_round`` is 2 if the spread is partly
    that of other ratios (``pool``).
    """

    value: float
    low: float
    high: float
    rounds: int
    spread: float
    freedom_per_round: int = 1

    @property
    def p(self) -> float:
        """Student's two-sided p-value for equal times, from the rounds; NaN for a single round."""
        if isnan(self.spread):
            return nan
        if not self.spread:
            return float(self.value == 1)
        t = abs(log(self.value)) * sqrt(self.rounds) / self.spread
        return two_sided_p(t, self.freedom_per_round * (self.rounds - 1))


def ratio(baseline: Rounds, other: Rounds, level: float = LEVEL) -> Ratio:
    """mean(baseline) / mean(other), over the rounds in which both sides have a time; each round counts alike.

    Rounds of the same number were measured in the same pass of the workflow, so whatever slowed both cancels
    in the ratio of their means. The interval is Student's for the mean of these ratios' logarithms, with one
    degree of freedom less than there are rounds: runs of one round say nothing about how much rounds differ.
    ``benchmarks/protocols.py`` simulates how often it contains the true ratio. ``level`` is the share of
    intervals that may miss it.

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
        margin = student_quantile(len(pairs) - 1, level) * spread / sqrt(len(pairs))
    else:
        margin = _welch(*pairs[0])
    return Ratio(value, value * exp(-margin), value * exp(margin), len(pairs), spread)


def mean_of(rounds: Rounds) -> float:
    """The mean over rounds of the mean times of their runs; NaN where no round has a run."""
    means = [fmean(runs) for runs in rounds if len(runs)]
    return fmean(means) if means else nan


def mean_interval(rounds: Rounds) -> tuple[float, float]:
    """The 95% interval of ``mean_of``: that of its ratio to exactly one second in every round."""
    found = ratio(rounds, [[1.0, 1.0]] * len(rounds))
    return found.low, found.high


def speedup_verdict(low: float, high: float, margin: float) -> str:
    """``same`` if the whole interval is within the margin of 1, ``faster`` or ``slower`` if it excludes 1,
    otherwise ``not significant``."""
    if isnan(low) or isnan(high):
        return NOT_SIGNIFICANT
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return SAME
    if low > 1:
        return FASTER
    return SLOWER if high < 1 else NOT_SIGNIFICANT


def ratio_verdict(found: Ratio, adjusted_p: float, same: float, one_round: float) -> str:
    """``speedup_verdict`` of a ratio, whose ``faster`` and ``slower`` also need an adjusted p-value below
    ``LEVEL``; else it is ``not significant``.

    A single round has no p-value. It tells apart only times that differ by more than the factor
    ``one_round``: how much rounds differ is unknown, and often more than runs of one round.
    """
    word = speedup_verdict(found.low, found.high, same)
    if found.rounds == 1:
        return NOT_SIGNIFICANT if 1 / one_round < found.value < one_round else word
    return word if word == SAME or adjusted_p < LEVEL else NOT_SIGNIFICANT


# ---- several comparisons: pooled spreads and adjusted p-values

_FEWEST_POOLED = 3


def pool(found: Sequence[Ratio]) -> list[Ratio]:
    """The ratios of a family, each with a variance that is half its own and half that of the family.

    Five rounds say little about how much rounds differ, and strategies of one table differ alike: with twice
    the degrees of freedom, verdicts on equal strategies are as seldom wrong, and more differences are found
    (``benchmarks/verdicts.py``). The family's variance is the geometric mean, corrected for the bias of a
    logarithm, so that a noisy ratio does not hide what quiet ones show; each ratio keeps three quarters of its
    own at least. Fewer than three ratios are left as they are, and so are those of exactly equal rounds.
    """
    known = [one for one in found if not isnan(one.spread)]
    if len(known) < _FEWEST_POOLED or not all(one.spread for one in known):
        return list(found)
    freedoms = [one.rounds - 1 for one in known]
    logs = [
        2 * log(one.spread) + 1 / f + 1 / (3 * f * f) for one, f in zip(known, freedoms, strict=True)
    ]  # the expected logarithm of a chi-squared variable over its freedom f is about -1/f - 1/(3 f²)
    common = exp(fmean(logs))
    return [
        one._replace(
            spread=sqrt(one.spread**2 + max(common, one.spread**2 / 2)) / sqrt(2), freedom_per_round=2
        )
        for one in found
    ]


def holm(count: int) -> list[int]:
    """The factors of Holm's step-down procedure for so many comparisons, the smallest p-value first."""
    return [*range(count, 0, -1)]


def with_best(count: int) -> list[int]:
    """The factors for comparisons of so many candidates with the one that has the shortest mean.

    Which one that is depends on the same times, so that any two of those left may be the pair compared:
    with r candidates left, the best included, there are r (r - 1) / 2 pairs. Holm's procedure over these
    keeps the chance that any of the truly fastest is called slower within ``LEVEL``, however many are equal.
    """
    return [left * (left - 1) // 2 for left in range(count + 1, 1, -1)]


def adjust(ps: Sequence[float], factors: Callable[[int], list[int]] = holm) -> list[float]:
    """Adjusted p-values by a step-down procedure with these factors; NaN, which has none, stays.

    If each candidate alone differs from the best, all of them do (an intersection-union test), so for
    ``with_best`` none exceeds the largest of these p-values.
    """
    order = sorted((p, i) for i, p in enumerate(ps) if not isnan(p))
    most = order[-1][0] if order and factors is with_best else 1.0
    adjusted, last = list(ps), 0.0
    for factor, (p, i) in zip(factors(len(order)), order, strict=True):
        last = max(last, min(1.0, factor * p))
        adjusted[i] = min(last, most)
    return adjusted


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
