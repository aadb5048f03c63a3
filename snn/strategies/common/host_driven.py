"""The training step of the host-driven strategies: products through the device, the rest on the host."""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.models.training_step import prediction_step, training_step
from snn.strategies.common.host_step import Call, HostStep
from snn.strategies.common.strategy import Strategy


class HostDriven(Strategy):
    """Element-wise work on the host, as in the paper; a strategy says how one product is done.

    The step is the list of launches that ``training_step`` computes from the network's layers. Products go
    through ``matmul``, and NumPy does the rest on host matrices. A strategy overrides ``matmul`` and, where
    it does not want the backend's host memory, ``allocate`` and ``_free``: how host matrices are allocated
    and freed. There are data and parameters once, a ``result`` for whatever a step computes and ``scratch``
    for every transpose, each freed in the same step as soon as nothing reads it, as in the paper's programs.
    """

    any_network = True

    purpose: str
    """What the results that are made now are for."""

    page_locked = False
    """Whether host matrices are pinned, each at its own allocation."""

    keeps_matrices = False
    """Whether the matrices of a step are those of the next one, so that none is discarded."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.computes = backend.computes
        self._live: dict[int, np.ndarray] = {}
        self._predictions: dict[int, tuple[list[Call], str]] = {}
        self._free: Callable[[np.ndarray], None] = backend.host_free
        self.purpose = "activations"

    @abstractmethod
    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """C = A B through the device, in a matrix of ``result``."""

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for what a step computes; ``discard`` ends its life, or ``close`` at the latest."""
        return self.allocate(shape, self.purpose, self.page_locked)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for a transpose."""
        return self.allocate(shape, "workspace", self.page_locked)

    def discard(self, array: np.ndarray) -> None:
        """Free a matrix of ``result`` or ``scratch``."""
        self._free(self._live.pop(id(array)))

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        """An uninitialised float32 host matrix that ``close`` frees, if nothing has before."""
        array = self.backend.host_alloc(shape, purpose, page_locked)
        self._live[id(array)] = array
        return array

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network, self._rate, self._batch = network, learning_rate, batch_size
        X, Y = self._hold(X, "data"), self._hold(Y, "data")
        starts = range(0, len(X), batch_size)
        self._batches = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in starts]
        self._parameters = {
            parameter.name: self._hold(np.zeros(parameter.shape, dtype=np.float32), "weights")
            for parameter in network.parameters
        }
        self._plan_steps({len(X) for X, _ in self._batches})
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for parameter, fresh in zip(self._parameters.values(), weights, strict=True):
            parameter[...] = fresh
        self._loss = float("nan")

    def epoch(self) -> None:
        losses = []
        for X, Y in self._batches:
            errors = self._train(X, Y)
            if self.keeps_losses:
                losses.append(self.network.loss.value(errors))
        self._loss = self.network.loss.value(errors)
        self._losses = np.array(losses)

    def loss(self) -> float:
        return self._loss

    def epoch_losses(self) -> np.ndarray:
        return self._losses

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        batch = self.allocate((min(self._batch, len(X)), X.shape[1]), "data", self.page_locked)
        try:
            for start in range(0, len(X), self._batch):
                some = batch[: len(X) - start]
                some[...] = X[start : start + len(some)]
                outputs[start : start + len(some)] = self._forward(some)
        finally:
            self._free(self._live.pop(id(batch)))
        return outputs

    def _forward(self, X: np.ndarray) -> np.ndarray:
        """The outputs of a batch, which are copied before anything else is computed."""
        if len(X) not in self._predictions:
            step, result = prediction_step(self.network, len(X))
            self._predictions[len(X)] = HostStep(self, self.network, step, result=result).calls, result
        calls, result = self._predictions[len(X)]
        arrays = {**self._parameters, "X": X}
        for call in calls:
            call(arrays)
        outputs = arrays[result].reshape(len(X), -1).copy()
        if not self.keeps_matrices:
            self.discard(arrays[result])
        return outputs

    def weights(self) -> list[np.ndarray]:
        return [parameter.copy() for parameter in self._parameters.values()]

    def close(self) -> None:
        self._batches, self._parameters = [], {}
        while self._live:
            self._free(self._live.popitem()[1])

    def announce(self, tell: Callable[[str], Any]) -> None:
        """Have ``tell`` called before each launch of a step, with its label: for an instrumented pass."""
        self._plan_steps(self._steps, tell)

    def _plan_steps(self, sizes: Iterable[int], tell: Callable[[str], Any] | None = None) -> None:
        """The calls of a step for each number of rows."""
        steps = {rows: training_step(self.network, rows, self._rate) for rows in sizes}
        self._steps = {rows: HostStep(self, self.network, step, tell).calls for rows, step in steps.items()}

    def _train(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """One step, equations (1) to (4) of the paper; returns the errors E of this batch."""
        arrays = {**self._parameters, "X": X, "Y": Y}
        for call in self._steps[len(X)]:
            call(arrays)
        return arrays["E"]

    def _hold(self, array: np.ndarray, purpose: str) -> np.ndarray:
        held = self.allocate(array.shape, purpose, self.page_locked)
        held[...] = array
        return held
