"""The paper's second strategy: the device calls of the reference with pinned host memory."""

import numpy as np

from snn.strategies.common.host_driven import HostDriven, multiply_per_call


class Pinned(HostDriven):
    """Host-driven training as in the reference, with pinned host matrices.

    Pinned (page-locked) memory cannot be swapped out, so the device copies it directly, without the driver's
    staging. Per product: 1 pinned host allocation (the result, freed once it has been used), then the calls
    of the reference. Data and weights are pinned from ``setup`` to ``close``; transposes stay pageable, as in
    the paper. All copies are synchronous.
    """

    page_locked = True

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        multiply_per_call(self.backend, A, B, C, self.backend.malloc, self.backend.free)
        return C

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.allocate(shape, "workspace", page_locked=False)
