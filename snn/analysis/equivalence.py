"""Whether training at reduced precision ends at fp32's loss: an equivalence test over pairs of seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev

from snn.analysis.verdicts import CONVERGES, DIFFERS, INCONCLUSIVE
from snn.measurement.protocol import student_quantile


@dataclass(frozen=True)
class Convergence:
    """The mean over seeds of loss / fp32's loss - 1, its 95% interval (None with one seed), the verdict."""

    seeds: int
    relative_difference: float | None
    ci_low: float | None
    ci_high: float | None
    verdict: str


def convergence(
    fp32: Mapping[int, float | None], other: Mapping[int, float | None], margin: float
) -> Convergence:
    """Compare final losses by seed, None where one is not finite, with fp32's from the same initial weights.

    A seed determines the initial weights, so losses of two seeds differ more than those of two precisions:
    each is compared with that of its own seed. ``converges`` where the whole 95% interval (Student's t) of
    the mean relative difference lies within ``margin`` of 0; ``differs`` where it lies outside, or where a
    loss is not finite though fp32's is; otherwise ``inconclusive``, as with a single seed.
    """
    pairs = [(fp32[seed], other[seed]) for seed in other if fp32.get(seed)]
    ratios = [loss / expected - 1 for expected, loss in pairs if expected is not None and loss is not None]
    mean = fmean(ratios) if ratios else None
    if len(ratios) < len(pairs):
        return Convergence(len(pairs), mean, None, None, DIFFERS)
    if mean is None:
        return Convergence(0, None, None, None, INCONCLUSIVE)
    several = len(ratios) > 1
    reach = student_quantile(len(ratios) - 1) * stdev(ratios) / sqrt(len(ratios)) if several else inf
    low, high = mean - reach, mean + reach
    if -margin <= low and high <= margin:
        verdict = CONVERGES
    else:
        verdict = DIFFERS if low > margin or high < -margin else INCONCLUSIVE
    return Convergence(len(ratios), mean, low if several else None, high if several else None, verdict)
