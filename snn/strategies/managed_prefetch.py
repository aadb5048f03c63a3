"""Managed (unified) memory, with pages prefetched before they are touched."""

import numpy as np

from snn.strategies.common.host_driven import ManagedMemory

_ADVICE = {"data": ("read_mostly",), "weights": ("preferred_location", "accessed_by")}


class ManagedPrefetch(ManagedMemory):
    """The strategy ``managed`` with memory advice and prefetches.

    ``setup`` gives the advice. Data is read mostly, so the host and the device each keep a copy. Weights
    prefer the device, which maps them wherever they are. Per product: 3 prefetches to the device (A, B and
    the result, whose pages are then created there), 1 launch, 1 prefetch of the result to the host, 1 device
    synchronisation.

    CuPy on CUDA 13 prefetches to a device only. The last prefetch then needs the package cuda.bindings.
    Without it the result reaches the host by page faults, as in ``managed``. The strategy is unsupported if
    the device attribute concurrentManagedAccess is 0.
    """

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        array = super().allocate(shape, purpose, page_locked)
        for advice in _ADVICE.get(purpose, ()):
            self.backend.advise(array, advice)
        return array

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        backend = self.backend
        try:
            for matrix in (A, B, C):
                backend.prefetch_in(matrix)
            self.multiply(A, B, C)
            if backend.prefetches_out:
                backend.prefetch_out(C)
        finally:
            backend.synchronize()
        return C
