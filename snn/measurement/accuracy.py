"""Evaluates every strategy's trained weights in the same way: a forward pass in NumPy."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.hardware.devices import usable_processors
from snn.models.glibc_random import GlibcRandom
from snn.models.network import Network, draw_weights
from snn.models.training_step import prediction_step
from snn.strategies.factory import Job, Test

_ROWS = 64  # of a batch: few enough that a convolution's patches stay in a processor's cache
_UNTRAINED_ROWS = 256
"""Last rows that suffice for the order of magnitude of a loss before training."""


class Errors(NamedTuple):
    """Errors of predictions; infinite or NaN if an output or its square is.

    ``mse`` is the mean squared error as the loss has it, ``rmse`` its root in the units of the user's data,
    and ``r2`` = 1 - sum((y - f)^2) / sum((y - mean(y))^2), None if all targets y are equal: 1 is exact,
    and 0 as good as predicting their mean.
    """

    mse: float
    rmse: float
    r2: float | None


def errors(
    network: Network, weights: list[np.ndarray], X: np.ndarray, targets: np.ndarray, unit: float
) -> Errors:
    """The errors of a network with one output on rows X (n, features), float32, with these targets (n,).

    A target of 1 is ``unit`` in the user's units. Computed in float64 from the float32 outputs.
    """
    with np.errstate(all="ignore"):
        y = targets.astype(np.float64)
        mse = float(np.mean(np.square(predicted(network, weights, X)[:, 0] - y)))
        spread = float(np.mean(np.square(y - y.mean())))
    return Errors(mse, unit * mse**0.5, 1 - mse / spread if spread else None)


def accuracy(network: Network, weights: list[np.ndarray], X: np.ndarray, labels: np.ndarray) -> float:
    """The fraction of rows X (n, features), float32, whose largest output, the first of equal ones, is that
    of their label, a whole number; a single output is above 0 for label 1. A row with an output that is not a
    number is wrong."""
    outputs = predicted(network, weights, X)
    found = outputs.argmax(axis=1) if network.outputs > 1 else outputs[:, 0] > 0
    right = (found == labels) & ~np.isnan(outputs).any(axis=1)
    return float(np.mean(right))


def score(network: Network, weights: list[np.ndarray], test: Test, is_classification: bool) -> float | None:
    """R^2 on test rows, or the accuracy of a classification; None if it is not finite."""
    if is_classification:
        return accuracy(network, weights, test.X, test.targets)
    r2 = errors(network, weights, *test).r2
    return r2 if r2 is not None and np.isfinite(r2) else None


def predicted(network: Network, weights: list[np.ndarray], X: np.ndarray) -> np.ndarray:
    """The network's outputs for rows of data, (n, outputs), of the data's dtype. Batches are computed side by
    side, each by one thread, so that the number of threads changes no bit."""
    batches = [X[start : start + _ROWS] for start in range(0, len(X), _ROWS)]
    with ThreadPoolExecutor(usable_processors()) as pool:
        outputs = list(pool.map(lambda batch: _forward(network, weights, batch), batches))
    return np.concatenate(outputs)


def untrained_loss(job: Job) -> float:
    """The loss of a job's network with the first draw of its seed's initial weights, on its last rows."""
    X, Y = job.X[-_UNTRAINED_ROWS:], job.Y[-_UNTRAINED_ROWS:]
    outputs = predicted(job.network, draw_weights(job.network, GlibcRandom(job.seed)), X)
    return job.network.loss.evaluate(outputs, Y)


def _forward(network: Network, weights: list[np.ndarray], X: np.ndarray) -> np.ndarray:
    """The outputs of one batch, by the CPU backend's operations."""
    step, result = prediction_step(network, len(X))
    parameters = zip(network.parameters, weights, strict=True)
    arrays = {parameter.name: np.ascontiguousarray(W).reshape(-1) for parameter, W in parameters}
    arrays["X"] = np.ascontiguousarray(X).reshape(-1)
    for op, operands, numbers, _ in step.launches:
        sizes = OPS[op].elements(*numbers)
        for name, elements in zip(operands, sizes, strict=True):
            if name not in arrays:
                arrays[name] = np.empty(elements, X.dtype)
        with np.errstate(all="ignore"):
            getattr(ops, op)(*(arrays[name] for name in operands), *numbers)
    return arrays[result][: len(X) * network.outputs].reshape(len(X), -1)
