"""Every host and device matrix allocated once, before training."""

import math

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.host_driven import HostDriven, Rehearsal, multiply_on_stream


class Preallocated(HostDriven):
    """Host-driven training without allocations in the loop.

    ``setup`` creates one stream and allocates three device buffers, as large as the largest A, B and C, and
    one pinned host matrix for each result and transpose of a step. Per product: 2 asynchronous copies in, 1
    launch, 1 asynchronous copy out, 1 stream synchronisation, no allocation.
    """

    page_locked = True
    keeps_matrices = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._step: list[np.ndarray] = []
        self._next = 0

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._stream = self.backend.stream_create()
        step = Rehearsal(self.backend, network, min(batch_size, len(X)))
        for sizes in zip(*step.products, strict=True):
            self._buffers.append(self.backend.malloc(max(sizes)))
        self._step = [
            self.allocate((request.elements,), request.purpose, self.page_locked) for request in step.requests
        ]

    def _forward(self, X: np.ndarray) -> np.ndarray:
        try:
            return super()._forward(X)
        finally:
            self._next = 0  # a forward pass has the first matrices of a step

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        try:
            multiply_on_stream(self.backend, self._stream, self._buffers, A, B, C)
        finally:
            self.backend.stream_synchronize(self._stream)
        return C

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        matrix = self._step[self._next]
        self._next = (self._next + 1) % len(self._step)
        return matrix[: math.prod(shape)].reshape(shape)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.result(shape)

    def discard(self, array: np.ndarray) -> None:
        """Keep the matrix for the next step."""

    def close(self) -> None:
        self._step = []
        super().close()
