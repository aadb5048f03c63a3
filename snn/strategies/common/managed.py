"""Host matrices in managed memory, which the device reads and writes itself."""

import numpy as np

from snn.backends.base import Backend
from snn.strategies.common.host_driven import HostDriven


class Unified(HostDriven):
    """Every host matrix is managed, so a product is a launch: nothing is copied by the strategy, and the
    driver moves the pages that host and device touch in turn."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._free = backend.managed_free

    def allocate(self, shape: tuple[int, ...], kind: str, page_locked: bool) -> np.ndarray:
        array = self.backend.managed_alloc(shape, kind)
        self._live[id(array)] = array
        return array

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        """Launch C = A B on the default stream."""
        buffer = self.backend.managed_buffer
        operands = buffer(A), buffer(B), buffer(C)
        self.backend.launch("matmul", operands, (A.shape[0], A.shape[1], B.shape[1]))
