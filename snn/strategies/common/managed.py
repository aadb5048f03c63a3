"""Host matrices in managed memory (unified memory), which the device reads and writes in place."""

import numpy as np

from snn.backends.base import Backend
from snn.strategies.common.host_driven import HostDriven


class ManagedMemory(HostDriven):
    """Host-driven training with every host matrix in managed memory.

    A product is one launch. The strategy copies nothing; the driver migrates pages as the host and the device
    touch them in turn.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._free = backend.managed_free

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        array = self.backend.managed_alloc(shape, purpose)
        self._live[id(array)] = array
        return array

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        """Launch C = A B on the default stream."""
        buffer = self.backend.managed_buffer
        operands = buffer(A), buffer(B), buffer(C)
        self.backend.launch("matmul", operands, (A.shape[0], A.shape[1], B.shape[1]))
