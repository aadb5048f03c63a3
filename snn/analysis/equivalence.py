"""Whether a training in fewer digits ends where fp32 does: over several seeds, pair by pair."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev

from snn.measurement.student_t import student_quantile


@dataclass(frozen=True)
class Convergence:
    """``difference`` is the mean over seeds of loss / fp32's - 1, with its 95% interval; ``word`` judges."""

    seeds: int
    difference: float | None
    low: float | None
    high: float | None
    word: str


def convergence(
    fp32: Mapping[int, float | None], other: Mapping[int, float | None], margin: float
) -> Convergence:
    """Final losses by seed, None where one is not finite, against fp32's from the same weights.

    A seed decides where a training starts, so losses of two seeds differ more than those of two precisions:
    each is held against its own seed's. ``converges`` where the whole 95% interval (Student's) of the mean
    relative difference lies within ``margin`` of 0; ``differs`` where it lies outside, or where a loss is not
    finite though fp32's is; else ``unclear``, as with one seed.
    """
    pairs = [(fp32[seed], other[seed]) for seed in other if fp32.get(seed)]
    ratios = [loss / base - 1 for base, loss in pairs if base is not None and loss is not None]
    mean = fmean(ratios) if ratios else None
    if len(ratios) < len(pairs):
        return Convergence(len(pairs), mean, None, None, "differs")
    if mean is None:
        return Convergence(0, None, None, None, "unclear")
    many = len(ratios) > 1
    reach = student_quantile(len(ratios) - 1) * stdev(ratios) / sqrt(len(ratios)) if many else inf
    low, high = mean - reach, mean + reach
    if -margin <= low and high <= margin:
        word = "converges"
    else:
        word = "differs" if low > margin or high < -margin else "unclear"
    return Convergence(len(ratios), mean, low if many else None, high if many else None, word)
