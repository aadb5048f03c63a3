"""Columns of mean 0 and variance 1, by the statistics of the rows that are trained on."""

import numpy as np


def moments(column: np.ndarray) -> tuple[float, float]:
    """The mean m and the standard deviation s of a column, float64 (n,): the statistics of ``standardised``.

    m = sum(x) / n and s = sqrt(sum((x - m)^2) / n). The deviations are divided by the largest of them before
    they are squared, so that no square is infinite or 0. s is 0 of a constant column, and of no other.
    """
    if column.min() == column.max():
        return float(column[0]), 0.0
    mean = float(np.mean(column))
    deviations = column - mean
    largest = float(np.abs(deviations).max())
    return mean, largest * float(np.sqrt(np.mean(np.square(deviations / largest))))


def standardised(column: np.ndarray, mean: float, scale: float) -> np.ndarray:
    """z = (x - m) / s of every row of a column, float64 (n,).

    z is 0 everywhere where s is 0: a column that is constant in all rows trained on tells them nothing.
    """
    return (column - mean) / scale if scale else np.zeros_like(column)
