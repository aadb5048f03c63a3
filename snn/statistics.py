"""How sure a ratio of two mean times is: bootstrap intervals over rounds and runs, and a word for them."""

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from snn.student import CONFIDENCE, student_quantile

Rounds = Sequence[Sequence[float]]
"""Seconds of runs, grouped by the job that they were made in; one group where there was one job."""

_RESAMPLES = 4000


def ratio_interval(base: Rounds, other: Rounds, seed: int = 0) -> tuple[float, float]:
    """The 95% interval of mean(base) / mean(other); NaN where a side has fewer than two runs.

    A hierarchical bootstrap of the log ratio: rounds are drawn with replacement, then the runs in each. A
    sample of n underestimates its own spread by sqrt((n - 1) / n), and a normal quantile that of few runs:
    deviations are widened by both factors, the second as Student's t has it with Welch's degrees of
    freedom. The same input gives the same interval.
    """
    runs = [np.concatenate([np.asarray(one, dtype=float) for one in side]) for side in (base, other)]
    if min(len(one) for one in runs) < 2:
        return float("nan"), float("nan")
    random = np.random.default_rng(seed)
    logs = [np.log(_resampled_means(side, random)) for side in (base, other)]
    centre = np.log(runs[0].mean() / runs[1].mean())
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(logs[0] - logs[1] - centre, [tail, 1 - tail])
    wider = student_quantile(_degrees_of_freedom(*runs)) / NormalDist().inv_cdf(1 - tail)
    return float(np.exp(centre + wider * low)), float(np.exp(centre + wider * high))


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


def _resampled_means(rounds: Rounds, random: np.random.Generator) -> np.ndarray:
    """Means of samples drawn anew, rounds first, then runs; deviations widened for small numbers."""
    groups = [np.asarray(one, dtype=float) for one in rounds]
    mean = np.concatenate(groups).mean()
    group_means = np.array([group.mean() for group in groups])
    chosen = random.integers(len(groups), size=(_RESAMPLES, len(groups)))
    between = (group_means[chosen].mean(axis=1) - mean) * _widening(len(groups))
    within = np.zeros(_RESAMPLES)
    for group in groups:
        drawn = group[random.integers(len(group), size=(_RESAMPLES, len(group)))]
        within += (drawn.mean(axis=1) - group.mean()) * _widening(len(group)) / len(groups)
    return mean + between + within


def _widening(count: int) -> float:
    return float(np.sqrt(count / (count - 1))) if count > 1 else 1.0


def _degrees_of_freedom(a: np.ndarray, b: np.ndarray) -> float:
    """Welch and Satterthwaite's, of the relative means; at least 2, so that few runs do not give none."""
    parts = [one.var(ddof=1) / len(one) / one.mean() ** 2 for one in (a, b)]
    if sum(parts) == 0:
        return float(len(a) + len(b) - 2)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(one) - 1) for part, one in zip(parts, (a, b), strict=True))
    return max(freedom, 2.0)
