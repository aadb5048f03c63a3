"""The reference with stream-ordered device memory from the driver's pool."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.host_driven import HostDriven, multiply_on_stream


class AsyncPool(HostDriven):
    """Host-driven training with device memory from ``cudaMallocAsync``.

    ``setup`` creates a stream and makes the driver's pool keep freed memory. Per product, all on that stream:
    3 cudaMallocAsync, 2 copies in, 1 launch, 1 copy out, 3 cudaFreeAsync; then 1 stream synchronisation.
    Every host matrix is pageable, as in the reference, so in each copy the host waits while the driver stages
    the data.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._pool: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self._stream = self.backend.stream_create()
        self._pool = self.backend.pool_create(self._stream)
        super().setup(network, X, Y, batch_size, rate)

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        backend, pool, stream = self.backend, self._pool, self._stream
        buffers = []
        try:
            for matrix in (A, B, C):
                buffers.append(backend.pool_malloc(pool, matrix.nbytes))
            dA, dB, dC = buffers
            multiply_on_stream(backend, stream, (dA, dB, dC), A, B, C)
        finally:
            for buffer in buffers:
                backend.pool_free(pool, buffer)
            backend.stream_synchronize(stream)
        return C

    def close(self) -> None:
        if self._pool is not None:
            self.backend.pool_destroy(self._pool)
            self._pool = None
        super().close()
