"""A multilayer perceptron on the CPU: its training step, with the arithmetic of a baseline."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from snn.models.network import Network

Hold = Callable[[np.ndarray, str], np.ndarray]
"""A copy of an array in memory that lives as long as the strategy, and what it is for."""


class Arithmetic(NamedTuple):
    """The operations of a step on C-contiguous float32 matrices. Each writes its last argument.

    ``forward(A, W, relu, Z)``: Z = A W, or max(A W, 0) if ``relu``.
    ``gradient(H, dZ, dW)``: dW = H^T dZ.
    ``clip(max_norm, dW)``: scales dW to an L2 norm of at most ``max_norm``.
    ``propagate(dZ, W, H, dH)``: dH = dZ W^T where H > 0, else 0.
    ``update(rate, dW, W)``: W -= rate dW. It may overwrite dW, which is not read afterwards.
    """

    forward: Callable[..., None]
    gradient: Callable[..., None]
    clip: Callable[..., None]
    propagate: Callable[..., None]
    update: Callable[..., None]


class Perceptron:
    """Weights, activations and gradients of a multilayer perceptron, held from the start.

    ``batches``: X and Y of each. ``parameters``: the weights.
    """

    def __init__(
        self,
        network: Network,
        batches: Sequence[tuple[np.ndarray, np.ndarray]],
        rate: float,
        arithmetic: Arithmetic,
        hold: Hold,
    ) -> None:
        self._network, self._arithmetic, self._rate = network, arithmetic, np.float32(rate)
        self._max_norm = None if network.clip_norm is None else np.float32(network.clip_norm)
        self.parameters = [hold(np.zeros(shape, np.float32), "weights") for shape in network.shapes]
        self._dW = [hold(W, "gradients") for W in self.parameters]
        rows = len(batches[0][0])
        matrices = [np.zeros((rows, width), np.float32) for width in network.mlp_widths()[1:]]
        self._H = [hold(matrix, "activations") for matrix in matrices]
        dZ = [hold(matrix, "gradients") for matrix in matrices]
        self._error = hold(matrices[-1], "gradients")
        self._batches = [
            ([X, *(h[: len(X)] for h in self._H)], Y, [d[: len(X)] for d in dZ]) for X, Y in batches
        ]

    def train(self, batch: int) -> np.ndarray:
        """One training step, equations (1) to (4) of the paper; returns the errors of the batch."""
        H, Y, dZ = self._batches[batch]  # H is X, H1, H2, ..., Y_pred
        W, arithmetic, last = self.parameters, self._arithmetic, len(self.parameters) - 1
        self._forward(H)
        error = np.subtract(H[-1], Y, out=self._error[: len(Y)])
        np.multiply(error, np.float32(2.0 / len(Y)), out=dZ[-1])
        sequential = self._network.update_order == "sequential"
        for i in range(last, -1, -1):
            arithmetic.gradient(H[i], dZ[i], self._dW[i])
            if self._max_norm is not None:
                arithmetic.clip(self._max_norm, self._dW[i])
            if sequential:
                arithmetic.update(self._rate, self._dW[i], W[i])
            if i > 0:
                arithmetic.propagate(dZ[i], W[i], H[i], dZ[i - 1])
        if not sequential:
            for w, dW in zip(W, self._dW, strict=True):
                arithmetic.update(self._rate, dW, w)
        return error

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """The outputs of at most a batch of rows, which the next step overwrites."""
        H = [X, *(h[: len(X)] for h in self._H)]
        self._forward(H)
        return H[-1]

    def _forward(self, H: list[np.ndarray]) -> None:
        last = len(self.parameters) - 1
        for i, W in enumerate(self.parameters):
            self._arithmetic.forward(H[i], W, i < last, H[i + 1])
