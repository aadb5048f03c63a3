"""A law for the gain of one-launch training over a CUDA graph, by the time of the graph's kernels.

A kernel of the graph takes t µs. In one launch the same work takes ``ratio`` t - ``saved_us``, so that the
speedup is t / (ratio t - saved_us): a launch saves a fixed time per kernel, and a share of the kernel's time.
"""

from typing import NamedTuple

import numpy as np

from snn.measurement.student import student_quantile


class Law(NamedTuple):
    """The two constants, each with its 95% confidence interval, and the factor within which the law holds.

    The speedups of 90% of the shapes are within this factor of the law's.
    """

    saved_us: float
    saved_us_low: float
    saved_us_high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    within: float

    def speedup(self, kernel_us: np.ndarray) -> np.ndarray:
        """The speedup at these times per kernel, in µs."""
        return 1 / (self.ratio - self.saved_us / kernel_us)


def hidden_layers(label: object) -> int:
    """The number of hidden layers whose widths are joined by dashes."""
    return str(label).count("-") + 1


def fit(kernel_us: np.ndarray, speedup: np.ndarray) -> Law | None:
    """The law that fits these shapes, by least squares of 1 / speedup; None for fewer than five.

    The intervals are Student's, with White's covariance, since large kernels scatter less than small ones.
    """
    if len(kernel_us) < 5:
        return None
    A = np.column_stack([-1 / kernel_us, np.ones(len(kernel_us))])
    inverse = np.linalg.inv(A.T @ A)
    constants = inverse @ A.T @ (1 / speedup)
    residuals = 1 / speedup - A @ constants
    errors = np.sqrt(np.diag(inverse @ (A.T * residuals**2) @ A @ inverse))
    margins = student_quantile(len(A) - 2) * errors
    (saved, ratio), (low, high) = constants.tolist(), (constants - margins, constants + margins)
    off = np.exp(np.quantile(np.abs(np.log(speedup * (A @ constants))), 0.9))
    found = (saved, low[0], high[0], ratio, low[1], high[1], off)
    return Law(*(float(f"{value:.9g}") for value in found))  # further digits depend on the CPU's BLAS
