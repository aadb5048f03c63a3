"""Unified memory, pages moved before they are touched."""

import numpy as np

from snn.strategies.common.managed import Unified

_ADVICE = {"data": ("read_mostly",), "weights": ("preferred_location", "accessed_by")}


class ManagedPrefetch(Unified):
    """What ``managed`` does, and, at ``setup``, advice: data is read mostly, so host and device each keep a
    copy; weights prefer the device, which maps them wherever they are. Per product: 3 prefetches to the
    device (A, B and the result, whose pages are then made there), 1 launch, 1 prefetch of the result to the
    host, 1 device synchronisation.

    CuPy on CUDA 13 prefetches to a device only. There the last prefetch needs the package cuda.bindings;
    without it the host faults the result in, as in ``managed``. Unsupported where the device attribute
    concurrentManagedAccess is 0."""

    def allocate(self, shape: tuple[int, ...], kind: str, page_locked: bool) -> np.ndarray:
        array = super().allocate(shape, kind, page_locked)
        for advice in _ADVICE.get(kind, ()):
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
