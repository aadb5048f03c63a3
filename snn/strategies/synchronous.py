"""The simplest way to train on a device: each batch is copied from pageable memory, and waited for."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.device_driven import Batch, DeviceDriven


class Synchronous(DeviceDriven):
    """Device-driven training in which the host waits for every copy, and so for every step.

    ``setup`` copies the data to pageable host memory and allocates what every ``DeviceDriven`` does, one
    batch on the device, and the losses of an epoch in pageable memory. Per step there are 2 blocking copies
    in, the launches, and 1 blocking copy out of the batch's losses, which waits until the device has finished
    the step. Nothing is allocated, and nothing of two steps overlaps.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._batches: list[tuple[np.ndarray, np.ndarray, np.ndarray, Any]] = []
        self._on_device: tuple[Any, Any]
        self._whole: Batch

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        data = [self._pageable(matrix.shape, "data") for matrix in (X, Y)]
        for held, matrix in zip(data, (X, Y), strict=True):
            held[...] = matrix
        batch = min(batch_size, len(X))
        self._on_device = self.malloc(batch * X.shape[1], "data"), self.malloc(batch * Y.shape[1], "data")
        self._whole = self.batch(*self._on_device, batch)
        errors = self._pageable((len(X), network.loss.errors(network.outputs)), "gradients")
        for number, start in enumerate(range(0, len(X), batch_size)):
            E = self._errors[number if self.keeps_losses else 0].whole
            some = slice(start, start + batch_size)
            self._batches.append((data[0][some], data[1][some], errors[some], E))

    def epoch(self) -> None:
        backend, (x, y) = self.backend, self._on_device
        for X, Y, errors, E in self._batches:
            backend.copy_in(x, X)
            backend.copy_in(y, Y)
            self.step(self._whole._replace(rows=len(X)))
            backend.copy_out(errors, E)

    def loss(self) -> float:
        return self.network.loss.value(self._batches[-1][2]) if self._rows else float("nan")

    def epoch_losses(self) -> np.ndarray:
        return np.array([self.network.loss.value(errors) for _, _, errors, _ in self._batches])

    def close(self) -> None:
        self._batches = []
        super().close()

    def _pageable(self, shape: tuple[int, ...], purpose: str) -> np.ndarray:
        """A pageable host array, until ``close``."""
        array = self.backend.host_alloc(shape, purpose, False)
        self._host.append(array)
        return array
