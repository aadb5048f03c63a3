"""One product with device memory that is allocated before it and freed after it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from snn.backends.base import Backend


def multiply(
    backend: Backend,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    malloc: Callable[[int], Any],
    free: Callable[[Any], None],
) -> None:
    """C = A B: three mallocs, two copies in, one launch, one synchronisation, one copy out, three frees.

    ``malloc`` and ``free`` are the functions that allocate and free device memory.
    """
    buffers = []
    try:
        for matrix in (A, B, C):
            buffers.append(malloc(matrix.nbytes))
        dA, dB, dC = buffers
        backend.copy_in(dA, A)
        backend.copy_in(dB, B)
        backend.launch("matmul", (dA, dB, dC), (A.shape[0], A.shape[1], B.shape[1]))
        backend.synchronize()
        backend.copy_out(C, dC)
    finally:
        for buffer in buffers:
            free(buffer)
