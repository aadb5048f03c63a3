"""What the CPU baselines share; each provides the arithmetic."""

from abc import abstractmethod
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.hardware.devices import usable_processors
from snn.models.network import Network
from snn.strategies.common.cpu_layers import Layers, Operations
from snn.strategies.common.cpu_perceptron import Arithmetic, Perceptron
from snn.strategies.common.exact_gradient import check_exact_gradient
from snn.strategies.common.strategy import Strategy


class CpuBaseline(Strategy):
    """Training on the CPU in pageable memory, without a device.

    ``setup`` copies the data and allocates one matrix for each activation, gradient and weight. After that
    nothing is copied or waited for, and there is nothing to launch. ``setup`` raises Unsupported unless the
    device is the CPU.
    """

    on_host = True
    any_network = True

    convolves: bool
    """Whether convolutions are computed directly, rather than as products of patches (im2col)."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._arrays: list[np.ndarray] = []
        self._trained: Any = None

    def limit_threads(self) -> None:
        """Set the number of threads. Raises Unsupported."""

    @abstractmethod
    def arithmetic(self) -> Arithmetic:
        """The operations of a perceptron's step, after compiling what they need. Raises Unsupported."""

    @abstractmethod
    def operations(self) -> Operations:
        """The operations of any network's step, after compiling what they need. Raises Unsupported."""

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        check_exact_gradient(network, "a CPU baseline")

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        if not self.backend.is_processor:
            raise Unsupported("this strategy is a CPU baseline: it runs with device=cpu only")
        self.network, self._rows = network, min(batch_size, len(X))
        self.limit_threads()
        X, Y = self._copy_of(X, "data"), self._copy_of(Y, "data")
        batches = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in range(0, len(X), batch_size)]
        if network.widths is None:
            how = self.operations(), self.convolves, self._copy_of
            self._trained = Layers(network, batches, learning_rate, *how)
        else:
            self._trained = Perceptron(network, batches, learning_rate, self.arithmetic(), self._copy_of)
        self._losses = np.full(len(batches), np.nan)
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for W, initial in zip(self._trained.parameters, weights, strict=True):
            W[...] = initial
        self._loss = float("nan")

    def epoch(self) -> None:
        train, value = self._trained.train, self.network.loss.value
        for batch in range(len(self._losses)):
            errors = train(batch)
            if self.keeps_losses:
                self._losses[batch] = value(errors)
        self._loss = value(errors)

    def loss(self) -> float:
        return self._loss

    def epoch_losses(self) -> np.ndarray:
        return self._losses.copy()

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        for start in range(0, len(X), self._rows):
            end = start + self._rows
            outputs[start:end] = self._trained.outputs(X[start:end])
        return outputs

    def weights(self) -> list[np.ndarray]:
        return [W.copy() for W in self._trained.parameters]

    def close(self) -> None:
        self._trained = None
        while self._arrays:
            self.backend.host_free(self._arrays.pop())

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
