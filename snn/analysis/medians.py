"""The median of samples, with an interval that assumes nothing of their distribution."""

import math
from collections.abc import Sequence
from statistics import median

CONFIDENCE = 0.95


def median_interval(samples: Sequence[float]) -> tuple[float, float, float]:
    """The median of independent samples, and the ends of its 95% interval by order statistics.

    The ends are the samples of rank k + 1 from below and from above, with the largest k for which the
    interval holds the median with a probability of 95% or more: 1 - 2 P(B <= k), B binomial of as many draws
    of probability 1/2 (David and Nagaraja, Order Statistics, 7.1). Of fewer than six samples no two ends do:
    they are NaN.
    """
    ordered, count = sorted(samples), len(samples)
    rank, beyond = -1, 0.0
    while True:
        beyond += math.comb(count, rank + 1) / 2**count
        if 1 - 2 * beyond < CONFIDENCE:
            break
        rank += 1
    if rank < 0:
        return median(ordered), math.nan, math.nan
    return median(ordered), ordered[rank], ordered[count - 1 - rank]
