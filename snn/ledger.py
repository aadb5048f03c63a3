"""Exact counts and bytes of what a strategy asked of its backend."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from snn import memory
from snn.backends.base import Backend, Buffer, Stream
from snn.backends.wrapper import Wrapper
from snn.errors import LeakError, OutOfMemory
from snn.memory import Block, Space


@dataclass
class Ledger:
    """Totals of the calls that reached the device, and the most bytes alive at once."""

    mallocs: int = 0
    malloc_bytes: int = 0
    frees: int = 0
    host_allocs: int = 0
    host_alloc_bytes: int = 0
    host_frees: int = 0
    pageable_allocs: int = 0
    pageable_alloc_bytes: int = 0
    h2d_copies: int = 0
    h2d_bytes: int = 0
    d2h_copies: int = 0
    d2h_bytes: int = 0
    launches: int = 0
    synchronizations: int = 0
    streams_created: int = 0
    streams_destroyed: int = 0
    peak_device_bytes: int = 0
    peak_host_bytes: int = 0

    def totals(self) -> dict[str, int]:
        return asdict(self)


class CountingBackend(Wrapper):
    """A backend that passes every call on, counts it, and refuses misuse.

    It is used in an untimed pass only; a timed pass talks to the backend itself. Raises LeakError
    where a strategy frees or uses what it does not hold, copies more than a buffer has room for, or
    copies an array that is not C-contiguous float32.
    """

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.ledger = Ledger()
        self.device, self.page_locked, self.pageable = Space(), Space(), Space()
        self._least_free: tuple[int, int] | None = None
        self._streams: dict[Stream, str] = {}

    def malloc(self, nbytes: int, kind: str | None = None) -> Buffer:
        try:
            buffer = self.inner.malloc(nbytes, kind)
        except OutOfMemory as error:
            held = memory.held(self.device.blocks.values())
            raise OutOfMemory(f"{error}; held: {held or 'nothing'}; asked by {memory.caller()}") from error
        block = Block(self.inner.address(buffer), nbytes, kind, memory.caller())
        if self.device.add(buffer, block):
            free, total = self.inner.memory()
            self._least_free = min(self._least_free or (free, total), (free, total))
        self.ledger.mallocs += 1
        self.ledger.malloc_bytes += nbytes
        self.ledger.peak_device_bytes = self.device.peak_bytes
        return buffer

    def free(self, buffer: Buffer) -> None:
        self._room(buffer)
        self.device.remove(buffer)
        self.ledger.frees += 1
        self.inner.free(buffer)

    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        array = self.inner.host_alloc(shape, kind, page_locked)
        block = Block(_address(array), array.nbytes, kind, memory.caller())
        if page_locked:
            self.page_locked.add(id(array), block)
            self.ledger.host_allocs += 1
            self.ledger.host_alloc_bytes += array.nbytes
            self.ledger.peak_host_bytes = self.page_locked.peak_bytes
        else:
            self.pageable.add(id(array), block)
            self.ledger.pageable_allocs += 1
            self.ledger.pageable_alloc_bytes += array.nbytes
        return array

    def host_free(self, array: np.ndarray) -> None:
        if id(array) in self.page_locked.blocks:
            self.page_locked.remove(id(array))
            self.ledger.host_frees += 1
        elif id(array) in self.pageable.blocks:
            self.pageable.remove(id(array))
        else:
            raise LeakError("a host array was freed that is not allocated (or was freed before)")
        self.inner.host_free(array)

    def copy_in(self, buffer: Buffer, array: np.ndarray, stream: Stream | None = None) -> None:
        self._check_copy(buffer, array)
        self._check_stream(stream)
        self._touch(buffer, array)
        self.ledger.h2d_copies += 1
        self.ledger.h2d_bytes += array.nbytes
        self.inner.copy_in(buffer, array, stream)

    def copy_out(self, array: np.ndarray, buffer: Buffer, stream: Stream | None = None) -> None:
        self._check_copy(buffer, array)
        self._check_stream(stream)
        self._touch(buffer, array)
        self.ledger.d2h_copies += 1
        self.ledger.d2h_bytes += array.nbytes
        self.inner.copy_out(array, buffer, stream)

    def matmul(
        self, A: Buffer, B: Buffer, C: Buffer, m: int, k: int, n: int, stream: Stream | None = None
    ) -> None:
        for name, buffer, count in (("A", A, m * k), ("B", B, k * n), ("C", C, m * n)):
            if self._room(buffer) < 4 * count:
                raise LeakError(f"{name} of a {m}x{k} by {k}x{n} product is larger than its buffer")
        self._check_stream(stream)
        self.ledger.launches += 1
        self.inner.matmul(A, B, C, m, k, n, stream)

    def stream_create(self) -> Stream:
        stream = self.inner.stream_create()
        self._streams[stream] = memory.caller()
        self.ledger.streams_created += 1
        return stream

    def stream_destroy(self, stream: Stream) -> None:
        self._check_stream(stream)
        del self._streams[stream]
        self.ledger.streams_destroyed += 1
        self.inner.stream_destroy(stream)

    def stream_synchronize(self, stream: Stream) -> None:
        self._check_stream(stream)
        self.ledger.synchronizations += 1
        self.inner.stream_synchronize(stream)

    def synchronize(self) -> None:
        self.ledger.synchronizations += 1
        self.inner.synchronize()

    def check_nothing_held(self) -> None:
        """Raise LeakError, saying what, if anything that was allocated or created is still alive."""
        held = [
            f"{where}: {memory.held(space.blocks.values())}"
            for where, space in (
                ("on the device", self.device),
                ("page-locked", self.page_locked),
                ("pageable", self.pageable),
            )
            if space.blocks
        ]
        for site, number in Counter(self._streams.values()).items():
            held.append(f"{memory.count(number, 'stream')} created at {site}")
        if held:
            raise LeakError("allocated and never freed: " + "; ".join(held))

    def describe_memory(self) -> dict[str, Any]:
        """Peaks by kind, layout and warnings of the pass so far: plain values for a record."""
        free, total = self._least_free or self.inner.memory()
        return {
            "device": self.device.describe(),
            "page_locked": self.page_locked.describe(),
            "least_free_bytes": free,
            "total_bytes": total,
            "warnings": memory.warnings(free, total),
        }

    def _room(self, buffer: Buffer) -> int:
        try:
            return self.device.blocks[buffer].nbytes
        except KeyError:
            raise LeakError("a device buffer was used that is not allocated (or was freed before)") from None

    def _touch(self, buffer: Buffer, array: np.ndarray) -> None:
        """A device block is of the kind of what is copied into it or out of it; of several, workspace."""
        block, address = self.device.blocks[buffer], _address(array)
        for space in (self.page_locked, self.pageable):
            for other in space.blocks.values():
                if other.address <= address < other.address + other.nbytes:
                    block.kind = other.kind if block.kind in (None, other.kind) else "workspace"
                    return

    def _check_copy(self, buffer: Buffer, array: np.ndarray) -> None:
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise LeakError(f"a copy needs a C-contiguous float32 array, not {array.dtype} {array.strides}")
        if array.nbytes > self._room(buffer):
            raise LeakError(f"a copy of {array.nbytes} bytes does not fit a buffer of {self._room(buffer)}")

    def _check_stream(self, stream: Stream | None) -> None:
        if stream is not None and stream not in self._streams:
            raise LeakError("a stream was used that does not exist (or was destroyed before)")


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
