"""The limits of a processor that have a meaning: its products by NumPy, and copies in its memory."""

import time
from collections.abc import Callable

import numpy as np

from snn.hardware.limits import BYTES, FLOPS, SECONDS, Limit, Measured

_SIDE = 512
_COPIED_BYTES = 1 << 26  # more than a processor's caches hold
_REPEATS = 5

_OF_CUDA = {
    FLOPS: ("tf32", "bf16"),
    BYTES: ("dram_read", "l2_read", "l2_copy"),
    SECONDS: (
        *("launch", "graph_node", "cluster_barrier", "cluster_exchange"),
        *("grid_barrier", "grid_exchange"),
    ),
}


def measure() -> Measured:
    """Product rate and memory bandwidth of as many threads as NumPy has; the rest is of CUDA devices."""
    A, B = (np.full((_SIDE, _SIDE), 0.5, np.float32) for _ in range(2))
    C = np.empty_like(A)
    operations = 2 * _SIDE**3
    rates = tuple(operations / s for s in _seconds(lambda: np.matmul(A, B, out=C)))
    source, target = (np.ones(_COPIED_BYTES // 4, np.float32) for _ in range(2))
    moved = 2 * _COPIED_BYTES
    copies = tuple(moved / s for s in _seconds(lambda: np.copyto(target, source)))
    none = [
        Limit(what, None, unit, "", reason="of CUDA devices")
        for unit, names in _OF_CUDA.items()
        for what in names
    ]
    return Measured(
        (
            Limit("fp32", None, FLOPS, f"NumPy's product of {_SIDE} x {_SIDE} matrices", rates),
            Limit("dram_copy", None, BYTES, "bytes read and written by a copy", copies),
            *none,
        )
    )


def _seconds(call: Callable[[], object]) -> list[float]:
    """Of each of several calls, after one that pays for what is loaded or touched first."""
    found = []
    for _ in range(_REPEATS + 1):
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return found[1:]
