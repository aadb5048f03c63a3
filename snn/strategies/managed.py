"""Unified memory, pages moved by the driver as they are touched."""

import numpy as np

from snn.strategies.common.managed import Unified


class Managed(Unified):
    """Per product: 1 cudaMallocManaged for the result (and 1 for a transpose), 1 launch, 1 device
    synchronisation; each is freed once it is used. No copies: host and device fault in the pages of data,
    weights, results and transposes, whichever touches them."""

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        try:
            self.multiply(A, B, C)
        finally:
            self.backend.synchronize()
        return C
