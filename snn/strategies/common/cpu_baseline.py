"""The training step of the CPU baselines; each baseline provides the arithmetic."""

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


class CpuBaseline(Strategy):
    """Training on the CPU in pageable memory, without a device.

    ``setup`` copies the data and allocates one matrix for each activation, gradient and weight. After that
    nothing is allocated, copied or waited for, and there is nothing to launch. ``setup`` raises Unsupported
    unless the device is the CPU.
    """

    on_host = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._arrays: list[np.ndarray] = []

    @abstractmethod
    def arithmetic(self) -> Arithmetic:
        """The operations of a step, after compiling or configuring what they need. Raises Unsupported."""

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        if not self.backend.is_processor:
            raise Unsupported("this strategy is a CPU baseline: it runs with device=cpu only")
        self.network = network
        self._arithmetic = self.arithmetic()
        self._rate = np.float32(learning_rate)
        self._max_norm = None if network.clip_norm is None else np.float32(network.clip_norm)
        X, Y = self._copy_of(X, "data"), self._copy_of(Y, "data")
        self._W = [self._copy_of(np.zeros(shape, np.float32), "weights") for shape in network.shapes]
        self._dW = [self._copy_of(W, "gradients") for W in self._W]
        rows = min(batch_size, len(X))
        matrices = [np.zeros((rows, width), np.float32) for width in network.mlp_widths()[1:]]
        H = [self._copy_of(matrix, "activations") for matrix in matrices]
        dZ = [self._copy_of(matrix, "gradients") for matrix in matrices]
        self._error = self._copy_of(matrices[-1], "gradients")
        self._batches = []
        for start in range(0, len(X), rows):
            A, y = X[start : start + rows], Y[start : start + rows]
            self._batches.append(([A, *(h[: len(A)] for h in H)], y, [d[: len(A)] for d in dZ]))
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for W, initial in zip(self._W, weights, strict=True):
            W[...] = initial
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
        while self._arrays:
            self.backend.host_free(self._arrays.pop())

    def _train(self, H: list[np.ndarray], Y: np.ndarray, dZ: list[np.ndarray]) -> None:
        """One training step, equations (1) to (4) of the paper. H is X, H1, H2, ..., Y_pred."""
        arithmetic, last = self._arithmetic, len(self._W) - 1
        for i, W in enumerate(self._W):
            arithmetic.forward(H[i], W, i < last, H[i + 1])
        error = np.subtract(H[-1], Y, out=self._error[: len(Y)])
        np.multiply(error, np.float32(2.0 / len(Y)), out=dZ[-1])
        sequential = self.network.update_order == "sequential"
        for i in range(last, -1, -1):
            arithmetic.gradient(H[i], dZ[i], self._dW[i])
            if self._max_norm is not None:
                arithmetic.clip(self._max_norm, self._dW[i])
            if sequential:
                arithmetic.update(self._rate, self._dW[i], self._W[i])
            if i > 0:
                arithmetic.propagate(dZ[i], self._W[i], H[i], dZ[i - 1])
        if not sequential:
            for W, dW in zip(self._W, self._dW, strict=True):
                arithmetic.update(self._rate, dW, W)

    def _copy_of(self, array: np.ndarray, purpose: str) -> np.ndarray:
        """A copy in pageable memory of the backend, which ``close`` frees."""
        copy = self.backend.host_alloc(array.shape, purpose, False)
        self._arrays.append(copy)
        copy[...] = array
        return copy


def check_threads(threads: int, numba_threads: int | None = None) -> None:
    """Raise Unsupported if there are more threads than CPUs that may be used, or than ``numba_threads``."""
    if threads > usable_processors():
        raise Unsupported(
            f"strategy.threads is {threads}: this process may use only {usable_processors()} CPUs"
        )
    if numba_threads is not None and threads > numba_threads:
        raise Unsupported(f"strategy.threads is {threads}: NUMBA_NUM_THREADS allows only {numba_threads}")
