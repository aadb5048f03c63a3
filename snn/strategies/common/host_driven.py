"""The paper's training step, written once for the host-driven strategies."""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from snn.backends.base import Backend
from snn.models.host_ops import clip, squared_error, transpose
from snn.models.network import Network
from snn.strategies.common.strategy import Strategy


class HostDriven(Strategy):
    """Element-wise work on the host, as in the paper; a strategy says how one product is done.

    A strategy overrides ``matmul`` and, where it does not want the backend's host memory, ``allocate`` and
    ``_free``: how host matrices are had, and given back. There are data and weights once, a ``result`` for
    every product and ``scratch`` for every transpose, each freed in the same step as soon as it has been
    used, as in the paper's programs.
    """

    page_locked = False
    """Whether host matrices are page-locked, each at its own allocation."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._live: dict[int, np.ndarray] = {}
        self._free: Callable[[np.ndarray], None] = backend.host_free
        self._results = "activations"  # what products make now, as a kind of memory

    @abstractmethod
    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """C = A B through the device, in a matrix of ``result``."""

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for a product to write; ``discard`` ends its life, or ``close`` at the latest."""
        return self.allocate(shape, self._results, self.page_locked)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for a transpose."""
        return self.allocate(shape, "workspace", self.page_locked)

    def discard(self, array: np.ndarray) -> None:
        """Free a matrix of ``result`` or ``scratch``."""
        self._free(self._live.pop(id(array)))

    def allocate(self, shape: tuple[int, ...], kind: str, page_locked: bool) -> np.ndarray:
        """An uninitialised float32 host matrix that ``close`` frees, if nothing has before."""
        array = self.backend.host_alloc(shape, kind, page_locked)
        self._live[id(array)] = array
        return array

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network = network
        self._rate = np.float32(learning_rate)
        X, Y = self._hold(X, "data"), self._hold(Y, "data")
        starts = range(0, len(X), batch_size)
        self._batches = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in starts]
        self._W = [self._hold(np.zeros(shape, dtype=np.float32), "weights") for shape in network.shapes]
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for W, fresh in zip(self._W, weights, strict=True):
            W[...] = fresh
        self._loss = float("nan")

    def epoch(self) -> None:
        for X, Y in self._batches:
            error = self._train(X, Y)
        self._loss = squared_error(error)

    def loss(self) -> float:
        return self._loss

    def weights(self) -> list[np.ndarray]:
        return [W.copy() for W in self._W]

    def close(self) -> None:
        self._batches, self._W = [], []
        while self._live:
            self._free(self._live.popitem()[1])

    def _train(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """One step, equations (1) to (4) of the paper; returns Y_pred - Y of this batch."""
        activations = self._forward(X)
        dZ = activations.pop()
        dZ -= Y
        error = dZ.copy()
        dZ *= np.float32(2.0 / len(X))
        self._backward(activations, dZ)
        return error

    def _forward(self, X: np.ndarray) -> list[np.ndarray]:
        """X, H1, H2, ..., Y_pred, where H = ReLU(Z) overwrites Z."""
        self._results = "activations"
        activations = [X]
        for W in self._W:
            activations.append(self.matmul(activations[-1], W))
            if W is not self._W[-1]:
                np.maximum(activations[-1], 0, out=activations[-1])
        return activations

    def _backward(self, activations: list[np.ndarray], dZ: np.ndarray) -> None:
        """Gradients and updates from the last layer down, in the network's update order."""
        self._results = "gradients"
        sequential = self.network.update_order == "sequential"
        postponed = []
        for i in reversed(range(len(self._W))):
            W, H = self._W[i], activations[i]
            dW = self._gradient(H, dZ)
            if sequential:
                self._update(W, dW)
            else:
                postponed.append((W, dW))
            if i > 0:
                dH = self._propagate(dZ, W)
                dH *= H > 0
                self.discard(H)
            self.discard(dZ)
            if i > 0:
                dZ = dH
        for W, dW in postponed:
            self._update(W, dW)

    def _gradient(self, H: np.ndarray, dZ: np.ndarray) -> np.ndarray:
        """H^T dZ, clipped."""
        transposed = self.scratch(H.shape[::-1])
        transpose(H, transposed)
        dW = self.matmul(transposed, dZ)
        self.discard(transposed)
        clip(dW, self.network.clip_norm)
        return dW

    def _propagate(self, dZ: np.ndarray, W: np.ndarray) -> np.ndarray:
        """dZ W^T."""
        transposed = self.scratch(W.shape[::-1])
        transpose(W, transposed)
        dH = self.matmul(dZ, transposed)
        self.discard(transposed)
        return dH

    def _update(self, W: np.ndarray, dW: np.ndarray) -> None:
        dW *= self._rate
        W -= dW
        self.discard(dW)

    def _hold(self, array: np.ndarray, kind: str) -> np.ndarray:
        held = self.allocate(array.shape, kind, self.page_locked)
        held[...] = array
        return held
