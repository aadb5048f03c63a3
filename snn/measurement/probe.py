"""The probe: a short fixed measurement of the cost of backend calls, which reveals drift over time."""

import time
from collections.abc import Callable

import numpy as np

from snn.backends.base import Backend

_SIDE = 256  # a matrix of the paper's step: 256 x 256 float32, 256 KiB
_ALLOCATED = 4 << 20  # bytes: more than a driver's page, so that it maps memory each time
_REPEATS = 15


def probe(backend: Backend) -> dict[str, float]:
    """Median microseconds of an allocation, a copy to the device, a launch, and a 256 x 256 product.

    Each call is followed by a synchronisation. The probe frees what it allocates, even on errors. What it
    allocates for the first is 4 MiB: a small block costs a tenth where a page is partly used by anybody in
    the process, such as PyTorch.
    """
    matrix = np.ones((_SIDE, _SIDE), dtype=np.float32)
    costs = {"malloc_us": _median(backend, lambda: backend.free(backend.malloc(_ALLOCATED)))}
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
