"""What a strategy asks of its backend in two steps, call by call: when, on which stream, how many bytes."""

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import LeakError
from snn.profiling import memory
from snn.profiling.events import Event, Launch, Signature, Standing, Trace
from snn.profiling.forwarding import Wrapper
from snn.strategies.common import factory
from snn.strategies.common.job import Job, start

_STEPS = 2


def trace(job: Job, backend: Backend) -> Trace:
    """The calls of two steps, after as many that are not kept, on the first batches of the data.

    Where the host asks for whole epochs, of one: a shorter one would not cost its share.
    """
    rows = len(job.X) if factory.class_of(job.strategy).by_epoch else _STEPS * job.batch_size
    short = replace(job, X=job.X[:rows], Y=job.Y[:rows])
    batches = -(-len(short.X) // job.batch_size)
    epochs = -(-_STEPS // batches)
    tracing = TracingBackend(backend)
    strategy = start(short, tracing)
    try:
        with np.errstate(all="ignore"):
            strategy.load(next(strategy.starts(job.network, job.seed)))
            for _ in range(epochs):
                strategy.epoch()
            tracing.begin()
            for _ in range(epochs):
                strategy.epoch()
            return Trace(epochs * batches, tracing.events(), tracing.standing)
    finally:
        strategy.close()


class TracingBackend(Wrapper):
    """A backend that passes every call on and, from ``begin`` on, keeps it as an event."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._numbers = itertools.count()
        self._device: dict[Any, tuple[int, int]] = {}
        self._host: dict[int, tuple[int, int, bool]] = {}
        self._managed: dict[int, tuple[int, Any]] = {}
        self._pools: dict[Any, tuple[int, int | None]] = {}
        self._pool_of: dict[int, int] = {}
        self._streams: dict[Any, tuple[int, int]] = {}
        self._parts: dict[Any, int] = {}
        self._events: dict[Any, int] = {}
        self._graphs: dict[Any, int] = {}
        self._captured: dict[Any, list[Launch]] = {}
        self.standing = Standing()
        self._fresh: set[Any] = set()
        self._began: float | None = None
        self._found: list[tuple[Event, Any, Any]] = []

    def begin(self) -> None:
        """Start both clocks, with the device idle, and note what is held."""
        device, managed = dict(self._device.values()), {number for number, _ in self._managed.values()}
        self.standing.managed = {number: device.pop(number) for number in managed}
        self.standing.device = device
        self.standing.pools = dict(self._pools.values())
        self.standing.pool_of = dict(self._pool_of)
        self.standing.host = {number: (size, locked) for number, size, locked in self._host.values()}
        self.standing.streams = [number for number, _ in self._streams.values()]
        self.standing.events = list(self._events.values())
        self.inner.synchronize()
        self._first_mark = self.inner.mark()
        self.inner.synchronize()
        self._began = time.perf_counter()

    def events(self) -> list[Event]:
        """The events since ``begin``, once the device has finished."""
        self.inner.synchronize()
        return [
            replace(event, device_start=self._when(first), device_end=self._when(last)) if first else event
            for event, first, last in self._found
        ]

    def malloc(self, nbytes: int, kind: str | None = None) -> Any:
        signature = Signature("malloc", (nbytes,), context="" if self._device else "alone")

        number = next(self._numbers)

        def call() -> Any:
            buffer = self.inner.malloc(nbytes, kind)
            self._device[buffer] = number, nbytes
            return buffer

        return self._keep(signature, call, (number,))

    def free(self, buffer: Any) -> None:
        number, nbytes = self._forget(buffer)
        signature = Signature("free", (nbytes,), context="" if self._device else "alone")
        self._keep(signature, lambda: self.inner.free(buffer), (number,))

    def part(self, buffer: Any, offset: int, nbytes: int) -> Any:
        part = self.inner.part(buffer, offset, nbytes)
        if part not in self._device:  # one that begins with its block may be called as that
            whole, before = self._place(buffer)
            self._parts[part] = next(self._numbers)
            self.standing.parts[self._parts[part]] = whole, before + offset, nbytes
        return part

    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        number, nbytes = next(self._numbers), 4 * int(np.prod(shape))

        def call() -> np.ndarray:
            array = self.inner.host_alloc(shape, kind, page_locked)
            self._host[_address(array)] = number, nbytes, page_locked
            return array

        return self._keep(Signature("host_alloc", (nbytes,), page_locked), call, (number,))

    def host_free(self, array: np.ndarray) -> None:
        number, nbytes, page_locked = self._host.pop(_address(array))
        signature = Signature("host_free", (nbytes,), page_locked)
        self._keep(signature, lambda: self.inner.host_free(array), (number,))

    def pool_create(self, stream: Any = None) -> Any:
        number = next(self._numbers)
        operands = (number,) if stream is None else (number, self._streams[stream][0])

        def call() -> Any:
            pool = self.inner.pool_create(stream)
            self._pools[pool] = number, None if stream is None else self._streams[stream][0]
            return pool

        context = "cupy" if stream is None else "driver"
        return self._keep(Signature("pool_create", context=context), call, operands)

    def pool_destroy(self, pool: Any) -> None:
        context = self._sort(pool)
        number, _ = self._pools.pop(pool)
        self._keep(
            Signature("pool_destroy", context=context), lambda: self.inner.pool_destroy(pool), (number,)
        )

    def pool_malloc(self, pool: Any, nbytes: int, kind: str | None = None) -> Any:
        number, within = next(self._numbers), self._pools[pool][0]

        def call() -> Any:
            buffer = self.inner.pool_malloc(pool, nbytes, kind)
            self._device[buffer] = number, nbytes
            self._pool_of[number] = within
            return buffer

        signature = Signature("pool_malloc", (nbytes,), context=self._sort(pool))
        return self._keep(signature, call, (number, within))

    def pool_free(self, pool: Any, buffer: Any) -> None:
        number, nbytes = self._forget(buffer)
        signature = Signature("pool_free", (nbytes,), context=self._sort(pool))
        operands = number, self._pool_of.pop(number)
        self._keep(signature, lambda: self.inner.pool_free(pool, buffer), operands)

    def pool_host_alloc(self, pool: Any, shape: tuple[int, ...], kind: str = "workspace") -> np.ndarray:
        number, nbytes, within = next(self._numbers), 4 * int(np.prod(shape)), self._pools[pool][0]

        def call() -> np.ndarray:
            array = self.inner.pool_host_alloc(pool, shape, kind)
            self._host[_address(array)] = number, nbytes, True
            self._pool_of[number] = within
            return array

        signature = Signature("pool_host_alloc", (nbytes,), True, context=self._sort(pool))
        return self._keep(signature, call, (number, within))

    def pool_host_free(self, pool: Any, array: np.ndarray) -> None:
        number, nbytes, _ = self._host.pop(_address(array))
        signature = Signature("pool_host_free", (nbytes,), True, context=self._sort(pool))
        operands = number, self._pool_of.pop(number)
        self._keep(signature, lambda: self.inner.pool_host_free(pool, array), operands)

    def managed_alloc(self, shape: tuple[int, ...], kind: str = "workspace") -> np.ndarray:
        number, nbytes = next(self._numbers), 4 * int(np.prod(shape))

        def call() -> np.ndarray:
            array = self.inner.managed_alloc(shape, kind)
            buffer = self.inner.managed_buffer(array)
            self._managed[_address(array)] = number, buffer
            self._device[buffer] = number, nbytes
            return array

        return self._keep(Signature("managed_alloc", (nbytes,)), call, (number,))

    def managed_free(self, array: np.ndarray) -> None:
        number, nbytes = self._forget(self._managed.pop(_address(array))[1])
        self._keep(Signature("managed_free", (nbytes,)), lambda: self.inner.managed_free(array), (number,))

    def managed_buffer(self, array: np.ndarray) -> Any:
        buffer = self.inner.managed_buffer(array)
        if buffer not in self._device:
            self._parts[buffer] = next(self._numbers)
            self.standing.parts[self._parts[buffer]] = *self._managed_place(array), array.nbytes
        return buffer

    def advise(self, array: np.ndarray, advice: str) -> None:
        number, offset = self._managed_place(array)
        signature = Signature("advise", (array.nbytes,), context=advice)
        self._keep(signature, lambda: self.inner.advise(array, advice), (number, offset))

    def prefetch_in(self, array: np.ndarray) -> None:
        signature = Signature("prefetch_in", (array.nbytes,))
        self._work(signature, lambda: self.inner.prefetch_in(array), self._managed_place(array), None)

    def prefetch_out(self, array: np.ndarray) -> None:
        signature = Signature("prefetch_out", (array.nbytes,))
        self._work(signature, lambda: self.inner.prefetch_out(array), self._managed_place(array), None)

    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        host, offset, page_locked = self._found_in(array)
        self._work(
            Signature("copy_in", (array.nbytes,), page_locked, stream is not None),
            lambda: self.inner.copy_in(buffer, array, stream),
            (self._number(buffer), host, offset),
            stream,
        )

    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        host, offset, page_locked = self._found_in(array)
        self._work(
            Signature("copy_out", (array.nbytes,), page_locked, stream is not None),
            lambda: self.inner.copy_out(array, buffer, stream),
            (self._number(buffer), host, offset),
            stream,
        )

    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        named = tuple(self._number(buffer) for buffer in buffers)
        if stream in self._captured:
            self._captured[stream].append(Launch(op, numbers, named))
            self.inner.launch(op, buffers, numbers, stream)
            return
        self._work(
            Signature(op, numbers, streamed=stream is not None),
            lambda: self.inner.launch(op, buffers, numbers, stream),
            named,
            stream,
        )

    def stream_create(self) -> Any:
        number = next(self._numbers)

        def call() -> Any:
            stream = self.inner.stream_create()
            taken = {lane for _, lane in self._streams.values()}
            self._streams[stream] = number, next(i for i in range(1, len(taken) + 2) if i not in taken)
            self._fresh.add(stream)
            return stream

        return self._keep(Signature("stream_create"), call, (number,))

    def stream_destroy(self, stream: Any) -> None:
        number, lane = self._streams.pop(stream)
        self._fresh.discard(stream)
        self._keep(Signature("stream_destroy"), lambda: self.inner.stream_destroy(stream), (number,), lane)

    def stream_synchronize(self, stream: Any) -> None:
        number, lane = self._streams[stream]
        signature = Signature("stream_synchronize")
        self._keep(signature, lambda: self.inner.stream_synchronize(stream), (number,), lane)

    def event_create(self) -> Any:
        number = next(self._numbers)

        def call() -> Any:
            event = self.inner.event_create()
            self._events[event] = number
            return event

        return self._keep(Signature("event_create"), call, (number,))

    def event_destroy(self, event: Any) -> None:
        number = self._events.pop(event)
        self._keep(Signature("event_destroy"), lambda: self.inner.event_destroy(event), (number,))

    def event_record(self, event: Any, stream: Any) -> None:
        number, (on, lane) = self._events[event], self._streams[stream]
        self._keep(
            Signature("event_record"), lambda: self.inner.event_record(event, stream), (number, on), lane
        )

    def event_wait(self, event: Any, stream: Any) -> None:
        number, (on, lane) = self._events[event], self._streams[stream]
        self._keep(Signature("event_wait"), lambda: self.inner.event_wait(event, stream), (number, on), lane)

    def event_synchronize(self, event: Any) -> None:
        number = self._events[event]
        self._keep(Signature("event_synchronize"), lambda: self.inner.event_synchronize(event), (number,))

    def graph_begin(self, stream: Any) -> None:
        self.inner.graph_begin(stream)
        self._captured[stream] = []

    def graph_end(self, stream: Any) -> Any:
        graph = self.inner.graph_end(stream)
        self._graphs[graph] = next(self._numbers)
        self.standing.graphs[self._graphs[graph]] = self._captured.pop(stream)
        return graph

    def graph_launch(self, graph: Any, stream: Any) -> None:
        self._work(
            Signature("graph_launch", (len(self.standing.graphs[self._graphs[graph]]),), streamed=True),
            lambda: self.inner.graph_launch(graph, stream),
            (self._graphs[graph],),
            stream,
        )

    def graph_destroy(self, graph: Any) -> None:
        del self._graphs[graph]
        self.inner.graph_destroy(graph)

    def synchronize(self) -> None:
        self._keep(Signature("synchronize"), self.inner.synchronize)

    def _work(
        self, signature: Signature, call: Callable[[], Any], operands: tuple[int, ...], stream: Any
    ) -> None:
        """A copy or a launch: also timed where it is done."""
        if stream in self._fresh:
            signature = signature._replace(context="fresh")
            self._fresh.remove(stream)
        lane = 0
        if stream is not None:
            number, lane = self._streams[stream]
            operands = (*operands, number)
        if self._began is None:
            call()
        elif self.inner.asynchronous:
            first = self.inner.mark(stream)
            self._keep(signature, call, operands, lane)
            self._found[-1] = (self._found[-1][0], first, self.inner.mark(stream))
        else:
            self._keep(signature, call, operands, lane)
            event = self._found[-1][0]
            done = replace(event, device_start=event.start, device_end=event.end)
            self._found[-1] = (done, None, None)

    def _keep(
        self,
        signature: Signature,
        call: Callable[[], Any],
        operands: tuple[int, ...] = (),
        lane: int | None = None,
    ) -> Any:
        if self._began is None:
            return call()
        started = time.perf_counter()
        result = call()
        ended = time.perf_counter()
        event = Event(
            signature,
            started - self._began,
            ended - self._began,
            lane,
            None,
            None,
            sum(nbytes for _, nbytes in self._device.values()),
            sum(nbytes for _, nbytes, page_locked in self._host.values() if page_locked),
            memory.caller(),
            operands,
        )
        self._found.append((event, None, None))
        return result

    def _forget(self, buffer: Any) -> tuple[int, int]:
        """The number and bytes of a block that ends, and its parts with it."""
        number, nbytes = self._device.pop(buffer)
        for part in [part for part, at in self._parts.items() if self.standing.parts[at][0] == number]:
            del self._parts[part]
        return number, nbytes

    def _sort(self, pool: Any) -> str:
        return "cupy" if self._pools[pool][1] is None else "driver"

    def _number(self, buffer: Any) -> int:
        """The number of a block, or of a part of one."""
        return self._parts[buffer] if buffer in self._parts else self._device[buffer][0]

    def _place(self, buffer: Any) -> tuple[int, int]:
        """The number of the block in which a buffer lies, and where in it."""
        number = self._number(buffer)
        return self.standing.parts.get(number, (number, 0, 0))[:2]

    def _managed_place(self, array: np.ndarray) -> tuple[int, int]:
        """The number of the managed block that an array is, or is a part of, and the offset in it."""
        address = _address(array)
        for base, (number, buffer) in self._managed.items():
            if base <= address < base + self._device[buffer][1]:
                return number, address - base
        raise LeakError(f"an array of {array.nbytes} bytes is not one of managed memory")

    def _when(self, mark: Any) -> float:
        return self.inner.seconds_between(self._first_mark, mark)

    def _found_in(self, array: np.ndarray) -> tuple[int, int, bool]:
        """The number of the host array that this is, or is a part of, the offset in it, if page-locked."""
        address = _address(array)
        for base, (number, nbytes, page_locked) in self._host.items():
            if base <= address < base + nbytes:
                return number, address - base, page_locked
        raise LeakError(f"a copy of {array.nbytes} bytes is of an array that the backend did not allocate")


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
