"""Training by the processor alone: the step that the baselines share, whoever does its arithmetic."""

from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.hardware.devices import usable_processors
from snn.models.host_ops import squared_error
from snn.models.network import Network
from snn.strategies.common.strategy import Strategy


class Arithmetic(NamedTuple):
    """What a step computes, on float32 matrices that are C-contiguous; the last one named is written.

    ``forward(A, W, relu, Z)``: Z = A W, and max(Z, 0) where relu. ``gradient(H, dZ, dW)``: dW = H^T dZ.
    ``clip(max_norm, dW)``: scaled to an L2 norm of at most that. ``propagate(dZ, W, H, dH)``: dH = dZ W^T
    where H > 0, else 0. ``update(rate, dW, W)``: W -= rate dW; what is in dW afterwards is not used.
    """

    forward: Callable[..., None]
    gradient: Callable[..., None]
    clip: Callable[..., None]
    propagate: Callable[..., None]
    update: Callable[..., None]


class OnHost(Strategy):
    """``setup`` takes the data and one matrix for each activation, gradient and weight, all pageable; nothing
    is allocated, copied or waited for after it. No device is used: there is nothing to launch."""

    on_host = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._held: list[np.ndarray] = []

    @abstractmethod
    def arithmetic(self) -> Arithmetic:
        """Whatever has to be compiled or set, done; and the functions. Raises Unsupported."""

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        if not self.backend.is_processor:
            raise Unsupported("this strategy is of the processor, a baseline: it runs with device=cpu only")
        self.network = network
        self._do = self.arithmetic()
        self._rate = np.float32(learning_rate)
        self._max_norm = None if network.clip_norm is None else np.float32(network.clip_norm)
        X, Y = self._hold(X, "data"), self._hold(Y, "data")
        self._W = [self._hold(np.zeros(shape, np.float32), "weights") for shape in network.shapes]
        self._dW = [self._hold(W, "gradients") for W in self._W]
        rows = min(batch_size, len(X))
        matrices = [np.zeros((rows, width), np.float32) for width in network.mlp_widths()[1:]]
        H = [self._hold(one, "activations") for one in matrices]
        dZ = [self._hold(one, "gradients") for one in matrices]
        self._error = self._hold(matrices[-1], "gradients")
        self._batches = []
        for start in range(0, len(X), rows):
            A, y = X[start : start + rows], Y[start : start + rows]
            self._batches.append(([A, *(h[: len(A)] for h in H)], y, [d[: len(A)] for d in dZ]))
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for W, fresh in zip(self._W, weights, strict=True):
            W[...] = fresh
        self._loss = float("nan")

    def epoch(self) -> None:
        for H, Y, dZ in self._batches:
            self._train(H, Y, dZ)
        self._loss = squared_error(self._error[: len(Y)])

    def loss(self) -> float:
        return self._loss

    def weights(self) -> list[np.ndarray]:
        return [W.copy() for W in self._W]

    def close(self) -> None:
        self._batches, self._W, self._dW = [], [], []
        while self._held:
            self.backend.host_free(self._held.pop())

    def _train(self, H: list[np.ndarray], Y: np.ndarray, dZ: list[np.ndarray]) -> None:
        """One step, equations (1) to (4) of the paper: H is X, H1, H2, ..., Y_pred."""
        do, last = self._do, len(self._W) - 1
        for i, W in enumerate(self._W):
            do.forward(H[i], W, i < last, H[i + 1])
        error = np.subtract(H[-1], Y, out=self._error[: len(Y)])
        np.multiply(error, np.float32(2.0 / len(Y)), out=dZ[-1])
        sequential = self.network.update_order == "sequential"
        for i in range(last, -1, -1):
            do.gradient(H[i], dZ[i], self._dW[i])
            if self._max_norm is not None:
                do.clip(self._max_norm, self._dW[i])
            if sequential:
                do.update(self._rate, self._dW[i], self._W[i])
            if i > 0:
                do.propagate(dZ[i], self._W[i], H[i], dZ[i - 1])
        if not sequential:
            for W, dW in zip(self._W, self._dW, strict=True):
                do.update(self._rate, dW, W)

    def _hold(self, array: np.ndarray, kind: str) -> np.ndarray:
        held = self.backend.host_alloc(array.shape, kind, False)
        self._held.append(held)
        held[...] = array
        return held


def check_threads(threads: int, most: int | None = None) -> None:
    """Raise Unsupported where these are more threads than processors that may be used, or than ``most``."""
    if threads > usable_processors():
        raise Unsupported(
            f"strategy.threads is {threads}: this process may use {usable_processors()} processors"
        )
    if most is not None and threads > most:
        raise Unsupported(f"strategy.threads is {threads}: NUMBA_NUM_THREADS allows {most}")
