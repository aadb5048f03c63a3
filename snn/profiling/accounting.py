"""A backend that counts what is asked of it, and watches what it holds."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from snn.backends.base import Backend, Buffer, Stream
from snn.backends.ops import OPS
from snn.errors import LeakError, OutOfMemory
from snn.profiling import memory
from snn.profiling.forwarding import Wrapper
from snn.profiling.ledger import Ledger
from snn.profiling.memory import Block, Space


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
        self._pools: dict[Any, str] = {}
        self._pooled: dict[Any, Any] = {}
        self._managed: dict[int, Buffer] = {}
        self._streams: dict[Stream, str] = {}
        self._events: dict[Any, str] = {}
        self._captured: dict[Stream | None, int] = {}
        self._graphs: dict[Any, tuple[int, str]] = {}

    def malloc(self, nbytes: int, kind: str | None = None) -> Buffer:
        buffer = self._had(self.inner.malloc, nbytes, kind)
        self._hold(buffer, Block(self.inner.address(buffer), nbytes, kind, memory.caller(), kind is not None))
        self.ledger.mallocs += 1
        self.ledger.malloc_bytes += nbytes
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
        if buffer in self._pooled or buffer in self._managed.values():
            raise LeakError("a device buffer of a pool, or a managed one, was freed as one of cudaMalloc")
        self._let_go(buffer)
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
        if id(array) in self.page_locked.blocks and id(array) not in self._pooled:
            self.page_locked.remove(id(array))
            self.ledger.host_frees += 1
        elif id(array) in self.pageable.blocks:
            self.pageable.remove(id(array))
        else:
            raise LeakError("a host array was freed that is not allocated (or was freed before)")
        self.inner.host_free(array)

    def pool_create(self, stream: Stream | None = None) -> Any:
        self._check_stream(stream)
        pool = self.inner.pool_create(stream)
        self._pools[pool] = memory.caller()
        return pool

    def pool_destroy(self, pool: Any) -> None:
        self._check_pool(pool)
        if pool in self._pooled.values():
            raise LeakError("a pool was destroyed while memory of it is in use")
        del self._pools[pool]
        self.inner.pool_destroy(pool)

    def pool_malloc(self, pool: Any, nbytes: int, kind: str | None = None) -> Buffer:
        self._check_pool(pool)
        buffer = self._had(self.inner.pool_malloc, pool, nbytes, kind)
        self._hold(buffer, Block(self.inner.address(buffer), nbytes, kind, memory.caller(), kind is not None))
        self._pooled[buffer] = pool
        self.ledger.pool_allocs += 1
        self.ledger.pool_alloc_bytes += nbytes
        self.ledger.peak_pool_bytes = max(self.ledger.peak_pool_bytes, self.inner.pool_bytes(pool))
        return buffer

    def pool_free(self, pool: Any, buffer: Buffer) -> None:
        self._check_pooled(pool, buffer)
        self._let_go(buffer)
        self.ledger.pool_frees += 1
        self.inner.pool_free(pool, buffer)

    def pool_host_alloc(self, pool: Any, shape: tuple[int, ...], kind: str = "workspace") -> np.ndarray:
        self._check_pool(pool)
        array = self.inner.pool_host_alloc(pool, shape, kind)
        self.page_locked.add(id(array), Block(_address(array), array.nbytes, kind, memory.caller()))
        self._pooled[id(array)] = pool
        self.ledger.pool_host_allocs += 1
        self.ledger.pool_host_alloc_bytes += array.nbytes
        self.ledger.peak_host_bytes = self.page_locked.peak_bytes
        return array

    def pool_host_free(self, pool: Any, array: np.ndarray) -> None:
        self._check_pooled(pool, id(array))
        self.page_locked.remove(id(array))
        self.ledger.pool_host_frees += 1
        self.inner.pool_host_free(pool, array)

    def managed_alloc(self, shape: tuple[int, ...], kind: str = "workspace") -> np.ndarray:
        array = self._had(self.inner.managed_alloc, shape, kind)
        buffer = self._managed[id(array)] = self.inner.managed_buffer(array)
        self._hold(buffer, Block(_address(array), array.nbytes, kind, memory.caller()))
        self.ledger.managed_allocs += 1
        self.ledger.managed_alloc_bytes += array.nbytes
        return array

    def managed_free(self, array: np.ndarray) -> None:
        if id(array) not in self._managed:
            raise LeakError("a managed array was freed that is not allocated (or was freed before)")
        self._let_go(self._managed.pop(id(array)))
        self.ledger.managed_frees += 1
        self.inner.managed_free(array)

    def managed_buffer(self, array: np.ndarray) -> Buffer:
        whole, offset = self._check_managed(array)
        buffer = self.inner.managed_buffer(array)
        if buffer not in self.device.blocks:
            self._parts[buffer] = whole, offset
        return buffer

    def advise(self, array: np.ndarray, advice: str) -> None:
        self._check_managed(array)
        self.ledger.advices += 1
        self.inner.advise(array, advice)

    def prefetch_in(self, array: np.ndarray) -> None:
        self._prefetched(array)
        self.inner.prefetch_in(array)

    def prefetch_out(self, array: np.ndarray) -> None:
        self._prefetched(array)
        self.inner.prefetch_out(array)

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
            ("pool", self._pools.values()),
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

    def _had(self, allocate: Callable[..., Any], *arguments: Any) -> Any:
        """What an allocation gives; an OutOfMemory of it also says who held how much, and who asked."""
        try:
            return allocate(*arguments)
        except OutOfMemory as error:
            held = memory.held(self.device.blocks.values())
            raise OutOfMemory(f"{error}; held: {held or 'nothing'}; asked by {memory.caller()}") from error

    def _hold(self, buffer: Buffer, block: Block) -> None:
        if self.device.add(buffer, block):
            free, total = self.inner.memory()
            self._least_free = min(self._least_free or (free, total), (free, total))
        self.ledger.peak_device_bytes = self.device.peak_bytes

    def _let_go(self, buffer: Buffer) -> None:
        if buffer not in self.device.blocks:
            raise LeakError("a device buffer was freed that is not allocated (or was freed before)")
        self.device.remove(buffer)
        self._parts = {part: where for part, where in self._parts.items() if where[0] != buffer}

    def _prefetched(self, array: np.ndarray) -> None:
        self._check_managed(array)
        self.ledger.prefetches += 1
        self.ledger.prefetch_bytes += array.nbytes

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

    def _check_pool(self, pool: Any) -> None:
        if pool not in self._pools:
            raise LeakError("a pool was used that does not exist (or was destroyed before)")

    def _check_pooled(self, pool: Any, block: Any) -> None:
        self._check_pool(pool)
        if self._pooled.get(block) is not pool:
            raise LeakError("memory was given back to a pool that it is not of (or was given back before)")
        del self._pooled[block]

    def _check_managed(self, array: np.ndarray) -> tuple[Buffer, int]:
        """The managed block that an array is, or is a part of, and the offset in it."""
        address = _address(array)
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise LeakError(f"the device needs a C-contiguous float32 array, not {array.dtype}")
        for buffer in self._managed.values():
            block = self.device.blocks[buffer]
            if block.address <= address and address + array.nbytes <= block.address + block.nbytes:
                return buffer, address - block.address
        raise LeakError("a managed array was used that is not allocated (or was freed before)")

    def _check_stream(self, stream: Stream | None) -> None:
        if stream is not None and stream not in self._streams:
            raise LeakError("a stream was used that does not exist (or was destroyed before)")

    def _check_event(self, event: Any) -> None:
        if event not in self._events:
            raise LeakError("an event was used that does not exist (or was destroyed before)")


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
