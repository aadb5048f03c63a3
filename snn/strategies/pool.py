"""The reference with device and host memory from CuPy's memory pools."""

from functools import partial
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.host_driven import HostDriven, multiply_per_call


class Pool(HostDriven):
    """Host-driven training with memory from pools.

    ``setup`` creates a pool of device memory and one of pinned host memory, which holds every host matrix.
    Per product: 3 blocks from the device pool, 2 synchronous copies in, 1 launch, 1 device synchronisation, 1
    synchronous copy out, 3 blocks returned. A pool allocates from the system only when it has no free block,
    so in the loop an allocation costs only the search for a block.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._pool: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self._pool = self.backend.pool_create()
        self._free = partial(self.backend.pool_host_free, self._pool)
        self._malloc = partial(self.backend.pool_malloc, self._pool)
        self._free_device = partial(self.backend.pool_free, self._pool)
        super().setup(network, X, Y, batch_size, rate)

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        multiply_per_call(self.backend, A, B, C, self._malloc, self._free_device)
        return C

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        array = self.backend.pool_host_alloc(self._pool, shape, purpose)
        self._live[id(array)] = array
        return array

    def close(self) -> None:
        super().close()
        if self._pool is not None:
            self.backend.pool_destroy(self._pool)
            self._pool = None
