"""How sure a ratio of two mean times is: bootstrap intervals over rounds and runs, and a word for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from snn.measurement.student_t import CONFIDENCE, student_quantile

Rounds = Sequence[Sequence[float]]
"""Seconds of runs, grouped by the job that they were made in; one group where there was one job."""

_RESAMPLES = 4000
_FEW = 6


def ratio_interval(base: Rounds, other: Rounds, seed: int = 0) -> tuple[float, float]:
    """The 95% interval of mean(base) / mean(other); NaN where a side has fewer than two runs.

    A hierarchical bootstrap of the log ratio: rounds are drawn with replacement, then the runs in each. Where
    both sides have as many rounds, these are drawn in pairs: they were made in the same pass of the workflow,
    so that what slowed both then cancels. A sample of n underestimates its own spread by
    sqrt((n - 1) / n), and a normal quantile that of few: deviations are widened by both factors, the second
    as Student's t has it, with Welch and Satterthwaite's degrees of freedom for rounds and runs together.
    In simulations the interval holds the true ratio in 94% of cases or more from three rounds on; with two,
    where they differ much more than their runs, in 88%. The same input gives the same interval.
    """
    sides = [[np.asarray(one, dtype=float) for one in side if len(one)] for side in (base, other)]
    if min(sum(map(len, side)) for side in sides) < 2:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    means = [np.concatenate(side).mean() for side in sides]
    within = [_Noise.of_runs(side, random) for side in sides]
    logs = [np.log([group.mean() for group in side]) for side in sides]
    if len(logs[0]) == len(logs[1]):
        between = [_Noise.of_rounds(logs[0] - logs[1], random)]
    else:
        between = [_Noise.of_rounds(one, random) for one in logs]
    noise = [within[0], within[1], *between]
    deviations = within[0].deviations - within[1].deviations
    deviations = deviations + between[0].deviations - sum(one.deviations for one in between[1:])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(deviations, [tail, 1 - tail])
    wider = student_quantile(_degrees_of_freedom(noise)) / NormalDist().inv_cdf(1 - tail)
    centre = np.log(means[0] / means[1])
    return float(np.exp(centre + wider * low)), float(np.exp(centre + wider * high))


def mean_interval(rounds: Rounds) -> tuple[float, float]:
    """The 95% interval of a mean: that of its ratio to what takes exactly one second in every round."""
    return ratio_interval(rounds, [[1.0, 1.0] for one in rounds if len(one)])


def compare(low: float, high: float, margin: float) -> str:
    """A speedup's word: ``same`` where its whole interval is within the margin of 1, ``faster`` or
    ``slower`` where none of it reaches 1, otherwise ``unclear``."""
    if np.isnan(low) or np.isnan(high):
        return "unclear"
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "same"
    if low > 1:
        return "faster"
    return "slower" if high < 1 else "unclear"


@dataclass(frozen=True)
class _Noise:
    """One source of noise in a log mean: resampled deviations, their variance, its degrees of freedom."""

    deviations: np.ndarray
    variance: float
    freedom: float

    @classmethod
    def of_rounds(cls, logs: np.ndarray, random: np.random.Generator) -> "_Noise":
        """Of one log mean, or difference of two, a round. Few rounds have too few resamples: a normal
        distribution of their variance stands for them."""
        count = len(logs)
        variance = float(logs.var(ddof=1)) / count if count > 1 else 0.0
        if count < _FEW:
            deviations = variance**0.5 * random.standard_normal(_RESAMPLES)
        else:
            chosen = random.integers(count, size=(_RESAMPLES, count))
            deviations = (logs[chosen].mean(axis=1) - logs.mean()) * _widening(count)
        return cls(deviations, variance, count - 1)

    @classmethod
    def of_runs(cls, groups: Sequence[np.ndarray], random: np.random.Generator) -> "_Noise":
        """Of the runs in each round, relative to the round's mean."""
        deviations, variance = np.zeros(_RESAMPLES), 0.0
        for group in groups:
            share = 1 / group.mean() / len(groups)
            drawn = group[random.integers(len(group), size=(_RESAMPLES, len(group)))]
            deviations += (drawn.mean(axis=1) - group.mean()) * _widening(len(group)) * share
            if len(group) > 1:
                variance += float(group.var(ddof=1)) / len(group) * share**2
        return cls(deviations, variance, sum(map(len, groups)) - len(groups))


def _widening(count: int) -> float:
    return float(np.sqrt(count / (count - 1))) if count > 1 else 1.0


def _degrees_of_freedom(noise: Sequence[_Noise]) -> float:
    """Welch and Satterthwaite's, of sources that add up."""
    total = sum(one.variance for one in noise)
    if total == 0:
        return float(sum(one.freedom for one in noise))
    return total**2 / sum(one.variance**2 / one.freedom for one in noise if one.variance)
