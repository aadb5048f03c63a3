"""The latencies of a CUDA device's memory, in cycles: chains of loads that wait for each other."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cupy.cuda import runtime

from snn.backends.cuda.timing import address, load, memory_of
from snn.hardware.limits import CYCLES, Limit

KERNELS = ("kernels/limits/latencies.cu",)
"""What is launched: the latencies depend on it."""

_LINE = 128  # bytes, as in the kernels
_L1_BYTES = 16 << 10  # less than any L1 has
_L2_SHARE = 8  # of L2 is the chain that stays in it
_FAR_BYTES = 256 << 20  # several times the L2 of any device, and few enough pages for its tables
_STEPS = 4096  # loads per sample
_SAMPLES = 15


def measure(root: Path, l2_bytes: int, samples: int = _SAMPLES) -> Iterator[Limit]:
    """Cycles per load from shared memory, L1, L2 and main memory; frees what it allocates."""
    module = load(root / KERNELS[0])
    shared, l1, memory = (module.get_function(f"chase_{name}") for name in ("shared", "l1", "memory"))
    fill = module.get_function("fill_chain")
    yield _latency("shared_latency", "shared memory", shared, (), 0, samples)
    free, _ = runtime.memGetInfo()
    for what, where, function, nbytes in (
        ("l1_latency", "L1", l1, _L1_BYTES),
        ("l2_latency", "L2", memory, _power_of_two(l2_bytes // _L2_SHARE)),
        ("dram_latency", "main memory", memory, _power_of_two(min(_FAR_BYTES, free // 4))),
    ):
        lines = nbytes // _LINE
        with memory_of(nbytes) as chain:
            fill((256,), (256,), (address(chain), np.uint32(lines)))
            with memory_of(2 * l2_bytes):  # fills L2 with something else
                warm = 0 if what == "dram_latency" else lines
                yield _latency(what, f"{where}, {nbytes} bytes", function, (address(chain),), warm, samples)


def _latency(what: str, where: str, function: Any, chain: tuple[Any, ...], warm: int, samples: int) -> Limit:
    """Cycles per load, ``warm`` loads after the launch; the first sample is not kept."""
    found = []
    with memory_of(16) as state:  # the word, and 8 bytes later the cycles
        for _ in range(samples + 1):
            numbers = (np.int32(warm), np.int32(_STEPS))
            function((1,), (1,), (*chain, address(state), address(state + 8), *numbers))
            found.append(_cycles(state + 8) / _STEPS)
    how = f"{_STEPS} loads from {where}, each from where the last one said"
    return Limit(what, 1, CYCLES, how, tuple(found[1:]))


def _cycles(place: int) -> int:
    """What a kernel wrote there, when it has ended."""
    found = np.zeros(1, np.int64)
    runtime.memcpy(found.ctypes.data, place, found.nbytes, runtime.memcpyDeviceToHost)
    return int(found[0])


def _power_of_two(nbytes: int) -> int:
    """The largest power of two that is not more, at least a line."""
    return 1 << (max(nbytes, _LINE).bit_length() - 1)
