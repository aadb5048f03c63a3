"""Exact counts and bytes of what a strategy asked of its backend."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from snn import memory
from snn.backends.base import Backend, Buffer, Stream
from snn.backends.ops import OPS
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
    graph_launches: int = 0
    graph_kernels: int = 0
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
        self._parts: dict[Buffer, tuple[Buffer, int]] = {}
        self._streams: dict[Stream, str] = {}
        self._events: dict[Any, str] = {}
        self._captured: dict[Stream | None, int] = {}
        self._graphs: dict[Any, tuple[int, str]] = {}

    def malloc(self, nbytes: int, kind: str | None = None) -> Buffer:
        try:
            buffer = self.inner.malloc(nbytes, kind)
        except OutOfMemory as error:
            held = memory.held(self.device.blocks.values())
            raise OutOfMemory(f"{error}; held: {held or 'nothing'}; asked by {memory.caller()}") from error
        block = Block(self.inner.address(buffer), nbytes, kind, memory.caller(), told=kind is not None)
        if self.device.add(buffer, block):
            free, total = self.inner.memory()
            self._least_free = min(self._least_free or (free, total), (free, total))
        self.ledger.mallocs += 1
        self.ledger.malloc_bytes += nbytes
        self.ledger.peak_device_bytes = self.device.peak_bytes
        return buffer

    def part(self, buffer: Buffer, offset: int, nbytes: int) -> Buffer:
        if offset + nbytes > self._room(buffer):
            raise LeakError(f"a part of {nbytes} bytes at {offset} is not within {self._room(buffer)} bytes")
        part = self.inner.part(buffer, offset, nbytes)
        if part not in self.device.blocks:  # one that begins with its block may be called as that
            block, before = self._parts.get(buffer, (buffer, 0))
            self._parts[part] = block, before + offset
        return part

    def free(self, buffer: Buffer) -> None:
        if buffer not in self.device.blocks:
            raise LeakError("a device buffer was freed that is not allocated (or was freed before)")
        self.device.remove(buffer)
        self._parts = {part: where for part, where in self._parts.items() if where[0] != buffer}
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

    def launch(
        self, op: str, buffers: tuple[Buffer, ...], numbers: tuple[float, ...], stream: Stream | None = None
    ) -> None:
        kind = OPS[op]
        for name, buffer, count in zip(kind.operands, buffers, kind.elements(*numbers), strict=True):
            if self._room(buffer) < 4 * count:
                raise LeakError(f"{name} of {op} {numbers} is larger than its buffer")
        self._check_stream(stream)
        if stream in self._captured:
            self._captured[stream] += 1
        else:
            self.ledger.launches += 1
        self.inner.launch(op, buffers, numbers, stream)

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

    def event_create(self) -> Any:
        event = self.inner.event_create()
        self._events[event] = memory.caller()
        return event

    def event_destroy(self, event: Any) -> None:
        self._check_event(event)
        del self._events[event]
        self.inner.event_destroy(event)

    def event_record(self, event: Any, stream: Stream) -> None:
        self._check_event(event)
        self._check_stream(stream)
        self.inner.event_record(event, stream)

    def event_wait(self, event: Any, stream: Stream) -> None:
        self._check_event(event)
        self._check_stream(stream)
        self.inner.event_wait(event, stream)

    def event_synchronize(self, event: Any) -> None:
        self._check_event(event)
        self.ledger.synchronizations += 1
        self.inner.event_synchronize(event)

    def graph_begin(self, stream: Stream) -> None:
        self._check_stream(stream)
        self.inner.graph_begin(stream)
        self._captured[stream] = 0

    def graph_end(self, stream: Stream) -> Any:
        graph = self.inner.graph_end(stream)
        self._graphs[graph] = self._captured.pop(stream), memory.caller()
        return graph

    def graph_launch(self, graph: Any, stream: Stream) -> None:
        self._check_stream(stream)
        if graph not in self._graphs:
            raise LeakError("a graph was launched that does not exist (or was destroyed before)")
        self.ledger.graph_launches += 1
        self.ledger.graph_kernels += self._graphs[graph][0]
        self.inner.graph_launch(graph, stream)

    def graph_destroy(self, graph: Any) -> None:
        if graph not in self._graphs:
            raise LeakError("a graph was destroyed that does not exist (or was destroyed before)")
        del self._graphs[graph]
        self.inner.graph_destroy(graph)

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
        for what, sites in (
            ("stream", self._streams.values()),
            ("event", self._events.values()),
            ("graph", (site for _, site in self._graphs.values())),
        ):
            for site, number in Counter(sites).items():
                held.append(f"{memory.count(number, what)} created at {site}")
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

    def _block(self, buffer: Buffer) -> tuple[Block, int]:
        """The allocation that a buffer is, or is a part of, and the offset in it."""
        whole, offset = self._parts.get(buffer, (buffer, 0))
        try:
            return self.device.blocks[whole], offset
        except KeyError:
            raise LeakError("a device buffer was used that is not allocated (or was freed before)") from None

    def _room(self, buffer: Buffer) -> int:
        block, offset = self._block(buffer)
        return block.nbytes - offset

    def _touch(self, buffer: Buffer, array: np.ndarray) -> None:
        """A block whose kind was not told is of that of what is copied in or out; of several, workspace."""
        block, address = self._block(buffer)[0], _address(array)
        if block.told:
            return
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

    def _check_event(self, event: Any) -> None:
        if event not in self._events:
            raise LeakError("an event was used that does not exist (or was destroyed before)")


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
