"""Student's t distribution, without SciPy, which a cell's process does not wait for."""

from functools import cache
from math import exp, isinf, lgamma, log, log1p

LEVEL = 0.05
"""The share of intervals that miss the true value, and of wrong verdicts that is accepted."""

_STEPS = 300


def two_sided_p(t: float, freedom: float) -> float:
    """The probability that Student's t with these degrees of freedom is further from 0 than ``t``.

    It is the regularised incomplete beta function I_x(freedom/2, 1/2) at x = freedom / (freedom + t²).
    """
    if isinf(t):
        return 0.0
    a, b, x = freedom / 2, 0.5, freedom / (freedom + t * t)
    if x <= 0 or x >= 1:
        return min(max(x, 0.0), 1.0)
    factor = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return factor * _continued_fraction(a, b, x) / a
    return 1 - factor * _continued_fraction(b, a, 1 - x) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
    """That of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            c, d = 1 + term / c, 1 / (1 + term * d)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


@cache
def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """The t that is exceeded in absolute value with the probability ``level``: by default the factor of 95%
    intervals."""
    low, high = 0.0, 1.0
    while two_sided_p(high, freedom) > level:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided_p(middle, freedom) > level else (low, middle)
    return high
