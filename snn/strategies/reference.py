"""The paper's reference: pageable host memory, with device memory allocated and freed for every product."""

import numpy as np

from snn.strategies.common.host_driven import HostDriven, multiply_per_call


class Reference(HostDriven):
    """Host-driven training with pageable host matrices.

    Per product: 3 mallocs, 2 synchronous copies in, 1 launch, 1 device synchronisation, 1 synchronous copy
    out, 3 frees. Every host matrix is pageable.
    """

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        multiply_per_call(self.backend, A, B, C, self.backend.malloc, self.backend.free)
        return C
