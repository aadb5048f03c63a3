"""A short fixed measurement of what the backend's calls cost now: it shows drift between two moments."""

import time
from collections.abc import Callable

import numpy as np

from snn.backends.base import Backend

_SIDE = 256  # a matrix of the paper's step: 256 x 256 float32, 256 KiB
_REPEATS = 15


def probe(backend: Backend) -> dict[str, float]:
    """Median microseconds of an allocation, a copy in, a launch, and a product of 256 x 256 matrices.

    Each call is waited for. What the probe allocates it frees, whatever happens.
    """
    matrix = np.ones((_SIDE, _SIDE), dtype=np.float32)
    # First, while nothing is held: with memory alive a driver may serve a small block without mapping any.
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
    return 1e6 * float(np.median(seconds[1:]))  # the first one pays for what is loaded or grown late
