"""The reference with all of its memory from CuPy's pools."""

from functools import partial
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common import per_call
from snn.strategies.common.host_driven import HostDriven


class Pool(HostDriven):
    """``setup`` makes a pool of device memory and one of page-locked host memory; every host matrix is of the
    latter. Per product: 3 blocks of the device's pool, 2 synchronous copies in, 1 launch, 1 device
    synchronisation, 1 synchronous copy out, 3 blocks given back. The pools ask the system only for what they
    do not have yet, so nothing of it remains in the loop but looking for a block."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._pool: Any = None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self._pool = self.backend.pool_create()
        self._free = partial(self.backend.pool_host_free, self._pool)
        self._malloc = partial(self.backend.pool_malloc, self._pool)
        self._give_back = partial(self.backend.pool_free, self._pool)
        super().setup(network, X, Y, batch_size, learning_rate)

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        per_call.multiply(self.backend, A, B, C, self._malloc, self._give_back)
        return C

    def allocate(self, shape: tuple[int, ...], kind: str, page_locked: bool) -> np.ndarray:
        array = self.backend.pool_host_alloc(self._pool, shape, kind)
        self._live[id(array)] = array
        return array

    def close(self) -> None:
        super().close()
        if self._pool is not None:
            self.backend.pool_destroy(self._pool)
            self._pool = None
