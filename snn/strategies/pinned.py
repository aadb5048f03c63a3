"""The paper's second strategy: the reference's device calls over page-locked host memory."""

import numpy as np

from snn.strategies.common import per_call
from snn.strategies.common.host_driven import HostDriven


class Pinned(HostDriven):
    """Per product: 1 page-locked host allocation (the result, freed once it is used), then what the
    reference does. Data and weights are page-locked for the strategy's life; transposes stay
    pageable, as in the paper. All copies are synchronous."""

    page_locked = True

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        per_call.multiply(self.backend, A, B, C, self.backend.malloc, self.backend.free)
        return C

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.allocate(shape, "workspace", page_locked=False)
