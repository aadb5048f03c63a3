"""The probe: a short fixed measurement of the cost of backend calls, which reveals drift over time."""

import time
from collections.abc import Callable

import numpy as np

from snn.backends.base import Backend

_SIDE = 256  # a matrix of the paper's step: 256 x 256 float32, 256 KiB
_REPEATS = 15


def probe(backend: Backend) -> dict[str, float]:
    """Median microseconds of an allocation, a copy to the device, a launch, and a 256 x 256 product.

    Each call is followed by a synchronisation. The probe frees what it allocates, even on errors.
    """
    matrix = np.ones((_SIDE, _SIDE), dtype=np.float32)
    # First, while nothing is allocated: otherwise the driver may serve a small block from mapped memory.
    costs = {"malloc_us": _median(backend, lambda: backend.free(backend.malloc(matrix.nbytes)))}
    buffers = []
    try:
        for _ in range(3):
            buffers.append(backend.malloc(matrix.nbytes))
        A, B, C = buffers
        backend.copy_in(A, matrix)
        backend.copy_in(B, matrix)
        costs["copy_us"] = _median(backend, lambda: backend.copy_in(A, matrix))
        costs["launch_us"] = _median(backend, lambda: backend.launch("matmul", (A, B, C), (1, 1, 1)))
        costs["product_us"] = _median(
            backend, lambda: backend.launch("matmul", (A, B, C), (_SIDE, _SIDE, _SIDE))
        )
        return costs
    finally:
        for buffer in buffers:
            backend.free(buffer)


def _median(backend: Backend, call: Callable[[], None]) -> float:
    seconds = []
    for _ in range(_REPEATS + 1):
        started = time.perf_counter()
        call()
        backend.synchronize()
        seconds.append(time.perf_counter() - started)
    return 1e6 * float(np.median(seconds[1:]))  # the first call includes lazy loading
