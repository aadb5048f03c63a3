"""Managed (unified) memory, with pages migrated by the driver when they are touched."""

import numpy as np

from snn.strategies.common.host_driven import ManagedMemory


class Managed(ManagedMemory):
    """Host-driven training in managed memory, without prefetches.

    Per product: 1 cudaMallocManaged for the result (and 1 for a transpose), 1 launch, 1 device
    synchronisation. Results and transposes are freed once they have been used. There are no copies: pages of
    data, weights, results and transposes migrate by page faults of the host or the device.
    """

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        try:
            self.multiply(A, B, C)
        finally:
            self.backend.synchronize()
        return C
