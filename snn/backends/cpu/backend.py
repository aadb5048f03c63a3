"""The CPU backend: every call of the interface keeps its meaning, on host memory.

Device memory is a second block of host memory, a copy is a copy, a product is NumPy's, and a stream runs its
work immediately. Its measurements describe a CPU, not a GPU.
"""

import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from ctypes import addressof, c_char
from pathlib import Path
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu import ops, trainings
from snn.backends.launches import MOST_STEPS, Steps, TrainingLaunch, TrainingShape
from snn.backends.ops import NARROW, OPS
from snn.errors import Unsupported, out_of_memory
from snn.models.storage import FP32, packed, unpacked

_PAGE = 4096
_OF_HOST, _OF_DEVICE = 16, _PAGE // 2 + 48
"""Where in a page, in bytes, arrays and buffers of a page or more begin. On an AMD EPYC a copy of 4 to
256 KiB took 4 to 19 times as long where its target began 1 to 31 bytes further in a page than its source. Of
arrays that NumPy places it is chance whether they do; these never do, nor do parts at multiples of 64
bytes."""


_SHARES = 2
"""Default number of devices that train together; all of them are the same memory."""


class HostBuffer:
    """A block of host memory in the role of device memory; only the backend accesses its float32 array."""

    __slots__ = ("words",)

    def __init__(self, words: np.ndarray) -> None:
        self.words = words


def _refused(reason: str) -> Callable[..., Any]:
    """A method for what a CPU does not support."""

    def refuse(self: "CpuBackend", *arguments: Any) -> Any:
        raise Unsupported(reason)

    return refuse


def _nothing() -> Callable[..., Any]:
    """A method for what has nothing to do on a CPU."""
    return lambda self, *arguments: None


class CpuBackend(Backend):
    """Host memory and NumPy's arithmetic, which is also the oracle of the CUDA kernels.

    ``fused`` and ``pretransposed``, as in the files of ``config/kernel``, and ``convolves`` choose the same
    sequence of ops that a CUDA kernel of that kind gets.
    """

    asynchronous = False
    is_processor = True

    def __init__(self, fused: bool = False, pretransposed: bool = False, convolves: bool = False) -> None:
        self.fused, self.pretransposed, self.convolves = fused, pretransposed, convolves
        self._stream_numbers, self._event_numbers = itertools.count(1), itertools.count(1)

    def malloc(self, nbytes: int, purpose: str | None = None) -> HostBuffer:
        return HostBuffer(self._words(-(-nbytes // 4), _OF_DEVICE))

    def free(self, buffer: HostBuffer) -> None:
        buffer.words = np.empty(0, dtype=np.float32)

    def part(self, buffer: HostBuffer, offset: int, nbytes: int) -> HostBuffer:
        if offset % 4:  # of 16-bit elements
            return HostBuffer(buffer.words.view(np.uint16)[offset // 2 : -(-(offset + nbytes) // 2)])
        return HostBuffer(buffer.words[offset // 4 : -(-(offset + nbytes) // 4)])

    def host_alloc(
        self, shape: tuple[int, ...], purpose: str = "workspace", page_locked: bool | str = True
    ) -> np.ndarray:
        return self._words(math.prod(shape), _OF_HOST).reshape(shape)

    def host_free(self, array: np.ndarray) -> None:
        """Nothing to do: NumPy frees an array when the last reference goes away."""

    def shared_buffer(self, array: np.ndarray) -> HostBuffer:
        return HostBuffer(array.reshape(-1))

    def copy_in(self, buffer: HostBuffer, array: np.ndarray, stream: int | None = None) -> None:
        buffer.words[: array.size] = array.ravel()

    def copy_out(self, array: np.ndarray, buffer: HostBuffer, stream: int | None = None) -> None:
        array.ravel()[:] = buffer.words[: array.size]

    def launch(
        self, op: str, buffers: tuple[HostBuffer, ...], numbers: tuple[float, ...], stream: int | None = None
    ) -> None:
        words = [buffer.words for buffer in buffers]
        if self.storage == FP32:
            getattr(ops, op)(*words, *numbers)
            return
        elements: dict[HostBuffer, int] = {}  # a buffer may be several operands, of which some are empty
        for name, buffer, n in zip(OPS[op].operands, buffers, OPS[op].elements(*numbers), strict=True):
            if name in NARROW.get(op, ()):
                elements[buffer] = max(n, elements.get(buffer, 0))
        halves = {buffer: buffer.words.view(np.uint16)[:n] for buffer, n in elements.items()}
        values = {buffer: unpacked(bits, self.storage) for buffer, bits in halves.items()}
        getattr(ops, op)(*(values.get(buffer, buffer.words) for buffer in buffers), *numbers)
        for buffer, bits in halves.items():
            bits[...] = packed(values[buffer], self.storage)

    def training_launch(self, shape: TrainingShape) -> TrainingLaunch:
        many = f", {shape.members} networks one after the other" if shape.members > 1 else ""
        return TrainingLaunch(f"NumPy, all epochs in one call{many}")

    def steps_per_launch(self, shape: TrainingShape) -> int:
        return MOST_STEPS

    def train(
        self, shape: TrainingShape, buffers: tuple[HostBuffer, ...], steps: Steps, stream: int | None = None
    ) -> None:
        trainings.train(shape, [buffer.words for buffer in buffers], steps)

    def stream_create(self) -> int:
        return next(self._stream_numbers)

    def event_create(self) -> int:
        return next(self._event_numbers)

    _never_pending = _nothing()
    stream_destroy = stream_synchronize = synchronize = _never_pending
    event_destroy = event_record = event_wait = event_synchronize = _never_pending

    _no_graphs = _refused("CUDA graphs need a CUDA device")
    graph_begin = graph_end = graph_launch = graph_destroy = _no_graphs

    _no_pools = _refused("the memory pools of CuPy and of the driver need a CUDA device")
    pool_create = pool_destroy = pool_malloc = pool_free = _no_pools
    pool_host_alloc = pool_host_free = pool_bytes = _no_pools

    _not_managed = _refused("managed memory needs a CUDA device")
    managed_alloc = managed_free = _not_managed
    advise = prefetch_in = prefetch_out = _not_managed

    def others(self, devices: int | None) -> list[Backend]:
        return [self] * ((devices or _SHARES) - 1)

    def all_reduce(
        self, buffer: HostBuffer, nbytes: int, stream: Any, further: Sequence[tuple[HostBuffer, Any]]
    ) -> None:
        parts = [one.words[: nbytes // 4] for one in (buffer, *(other for other, _ in further))]
        total = np.sum(parts, axis=0, dtype=np.float32)
        for part in parts:
            part[:] = total

    def memory(self) -> tuple[int, int]:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        try:
            lines = Path("/proc/meminfo").read_text().splitlines()
            return 1024 * next(
                int(line.split()[1]) for line in lines if line.startswith("MemAvailable")
            ), total
        except (OSError, StopIteration):  # a system without /proc/meminfo
            return total, total

    def address(self, buffer: HostBuffer) -> int:
        return buffer.words.__array_interface__["data"][0]

    def _words(self, size: int, place: int) -> np.ndarray:
        """An array of this many numbers, at this place of a page unless it is smaller than a page."""
        try:
            words = np.empty(size + _PAGE // 4 if 4 * size >= _PAGE else size, dtype=np.float32)
        except (MemoryError, ValueError) as error:
            raise out_of_memory("malloc", 4 * size, *self.memory()) from error
        if words.size == size:
            return words
        address = addressof(c_char.from_buffer(words.data))  # in less time than words.ctypes.data takes
        start = (place - address) % _PAGE // 4
        return words[start : start + size]

    def mark(self, stream: int | None = None) -> float:
        return time.perf_counter()

    def seconds_between(self, first: float, last: float) -> float:
        return last - first
