"""The measured peak rates of a CPU: matrix products by NumPy, and copies in memory."""

import time
from collections.abc import Callable

import numpy as np

from snn.hardware.devices import machine_bytes
from snn.hardware.limits import BYTES, CYCLES, FLOPS, SECONDS, Limit, Measured

_SIDE = 512
_COPIED_BYTES = 1 << 26  # more than the caches of a CPU hold
_REPEATS = 5

_OF_CUDA = {
    FLOPS: ("tf32", "bf16"),
    BYTES: ("dram_read", "l2_read", "l2_copy"),
    SECONDS: (
        *("launch", "launch_compiled", "graph_node", "cluster_barrier", "cluster_exchange"),
        *("grid_barrier", "grid_exchange"),
    ),
    CYCLES: (
        *("register_latency", "shared_latency", "l1_latency", "l2_latency", "dram_latency"),
        *("sum_by_shuffles", "sum_by_atomics"),
    ),
}


def measure() -> Measured:
    """Product rate and memory bandwidth with NumPy's own threads; the other limits need a CUDA device."""
    A, B = (np.full((_SIDE, _SIDE), 0.5, np.float32) for _ in range(2))
    C = np.empty_like(A)
    operations = 2 * _SIDE**3
    rates = tuple(operations / s for s in seconds_of(lambda: np.matmul(A, B, out=C)))
    source, target = (np.ones(_COPIED_BYTES // 4, np.float32) for _ in range(2))
    moved = 2 * _COPIED_BYTES
    copies = tuple(moved / s for s in seconds_of(lambda: np.copyto(target, source)))
    none = [
        Limit(what, None, unit, "", reason="needs a CUDA device")
        for unit, names in _OF_CUDA.items()
        for what in names
    ]
    return Measured(
        (
            Limit("fp32", None, FLOPS, f"NumPy's product of {_SIDE} x {_SIDE} matrices", rates),
            Limit("dram_copy", None, BYTES, "bytes read and written by a copy", copies),
            *none,
        ),
        properties={"memory_bytes": machine_bytes()},
    )


def seconds_of(call: Callable[[], object], repeats: int = _REPEATS) -> list[float]:
    """The seconds of each of several calls, after an uncounted first one."""
    seconds = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds[1:]
