"""The calls of a trace made again, one at a time, without training: on memory of the same sizes."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.profiling.events import Event, Launch, Signature, Trace

_PREFETCHES = ("prefetch_in", "prefetch_out")


class Replay:
    """Makes a trace's calls again, over memory and streams of its own."""

    def __init__(self, backend: Backend, traced: Trace, stack: ExitStack) -> None:
        self._backend, self._events = backend, traced.events
        self._buffers: dict[int, Any] = {}
        self._arrays: dict[int, np.ndarray] = {}
        self._managed: dict[int, np.ndarray] = {}
        self._on_device: set[int] = set()
        self._pools: dict[int, Any] = {}
        self._pool_of = dict(traced.standing.pool_of)
        self._streams: dict[int, Any] = {}
        self._marks: dict[int, Any] = {}
        self._graphs: dict[int, Any] = {}
        self._written: set[int] = set()
        stack.callback(self._close)
        for number in traced.standing.streams:
            self._streams[number] = backend.stream_create()
        for number, stream in traced.standing.pools.items():
            self._pools[number] = backend.pool_create(None if stream is None else self._streams[stream])
        for number, nbytes in traced.standing.device.items():
            pool = self._pool_of.get(number)
            self._buffers[number] = (
                backend.malloc(nbytes) if pool is None else backend.pool_malloc(self._pools[pool], nbytes)
            )
            # A whole training waits for counters in its workspace, which are 0 at first.
            backend.copy_in(self._buffers[number], np.zeros(nbytes // 4, dtype=np.float32))
        for number, (nbytes, page_locked) in traced.standing.host.items():
            pool, shape = self._pool_of.get(number), (nbytes // 4,)
            self._arrays[number] = (
                backend.host_alloc(shape, page_locked=page_locked)
                if pool is None
                else backend.pool_host_alloc(self._pools[pool], shape)
            )
        for number, nbytes in traced.standing.managed.items():
            self._managed[number] = backend.managed_alloc((nbytes // 4,))
        for number in traced.standing.events:
            self._marks[number] = backend.event_create()
        self._parts = traced.standing.parts
        for number, launches in traced.standing.graphs.items():
            self._graphs[number] = self._captured(launches)

    def run(
        self,
        host: Mapping[Signature, list[float]] | None = None,
        total: Mapping[Signature, list[float]] | None = None,
        device: Mapping[Signature, list[float]] | None = None,
    ) -> None:
        """All calls once. Seconds go to the lists given: of the call, until it is done, between marks."""
        backend = self._backend
        for event in self._events:
            one = event.signature
            call = self._launch if one.call in OPS else getattr(self, "_" + one.call)
            self._prepare(event)
            stream = self._streams.get(event.operands[-1]) if one.streamed else None
            on_default = one.call in OPS or one.call in _PREFETCHES
            works = on_default or one.streamed
            first = backend.mark(stream) if device is not None and works else None
            started = time.perf_counter()
            call(event)
            asked = time.perf_counter()
            last = backend.mark(stream) if first is not None else None
            if one.streamed:
                backend.stream_synchronize(stream)
            elif on_default:
                backend.synchronize()
            done = time.perf_counter()
            if host is not None:
                host[one].append(asked - started)
            if total is not None:
                total[one].append(done - started)
            if device is not None and first is not None:
                device[one].append(backend.seconds_between(first, last))

    def _prepare(self, event: Event) -> None:
        """What training would have written is there before it is copied or moved, and numbers are numbers."""
        one = event.signature
        if one.call == "copy_in":
            number = event.operands[1]
            if number not in self._written:
                self._arrays[number].fill(1.0)
                self._written.add(number)
        elif one.call == "prefetch_in":
            self._touch(event.operands[0])
            self._on_device.add(event.operands[0])
        elif one.call in OPS and self._managed:
            for name, number in zip(OPS[one.call].operands, event.operands, strict=False):
                block = self._parts.get(number, (number,))[0]
                if block in self._managed and block not in self._on_device and name != "C":
                    self._touch(block)
                self._on_device.discard(block)

    def _touch(self, number: int) -> None:
        """Use a managed array on the host, so that its pages are there."""
        array = self._managed[number]
        if number in self._written:
            array.max()
        else:
            array.fill(1.0)
            self._written.add(number)

    def _malloc(self, event: Event) -> None:
        self._buffers[event.operands[0]] = self._backend.malloc(int(event.signature.size[0]))

    def _free(self, event: Event) -> None:
        self._backend.free(self._buffers.pop(event.operands[0]))

    def _host_alloc(self, event: Event) -> None:
        one = event.signature
        shape = (int(one.size[0]) // 4,)
        self._arrays[event.operands[0]] = self._backend.host_alloc(shape, page_locked=bool(one.page_locked))

    def _host_free(self, event: Event) -> None:
        self._written.discard(event.operands[0])
        self._backend.host_free(self._arrays.pop(event.operands[0]))

    def _pool_create(self, event: Event) -> None:
        number, *stream = event.operands
        self._pools[number] = self._backend.pool_create(self._streams[stream[0]] if stream else None)

    def _pool_destroy(self, event: Event) -> None:
        self._backend.pool_destroy(self._pools.pop(event.operands[0]))

    def _pool_malloc(self, event: Event) -> None:
        number, pool = event.operands
        self._buffers[number] = self._backend.pool_malloc(self._pools[pool], int(event.signature.size[0]))
        self._pool_of[number] = pool

    def _pool_free(self, event: Event) -> None:
        number, pool = event.operands
        del self._pool_of[number]
        self._backend.pool_free(self._pools[pool], self._buffers.pop(number))

    def _pool_host_alloc(self, event: Event) -> None:
        number, pool = event.operands
        shape = (int(event.signature.size[0]) // 4,)
        self._arrays[number] = self._backend.pool_host_alloc(self._pools[pool], shape)
        self._pool_of[number] = pool

    def _pool_host_free(self, event: Event) -> None:
        number, pool = event.operands
        self._written.discard(number)
        del self._pool_of[number]
        self._backend.pool_host_free(self._pools[pool], self._arrays.pop(number))

    def _managed_alloc(self, event: Event) -> None:
        shape = (int(event.signature.size[0]) // 4,)
        self._managed[event.operands[0]] = self._backend.managed_alloc(shape)

    def _managed_free(self, event: Event) -> None:
        number = event.operands[0]
        self._written.discard(number)
        self._on_device.discard(number)
        self._backend.managed_free(self._managed.pop(number))

    def _advise(self, event: Event) -> None:
        self._backend.advise(self._managed_part(event), event.signature.context)

    def _prefetch_in(self, event: Event) -> None:
        self._backend.prefetch_in(self._managed_part(event))

    def _prefetch_out(self, event: Event) -> None:
        self._backend.prefetch_out(self._managed_part(event))

    def _managed_part(self, event: Event) -> np.ndarray:
        number, offset = event.operands
        words = int(event.signature.size[0]) // 4
        return self._managed[number][offset // 4 : offset // 4 + words]

    def _copy_in(self, event: Event) -> None:
        buffer, array, stream = self._of_copy(event)
        self._backend.copy_in(buffer, array, stream)

    def _copy_out(self, event: Event) -> None:
        buffer, array, stream = self._of_copy(event)
        self._backend.copy_out(array, buffer, stream)
        self._written.add(event.operands[1])

    def _of_copy(self, event: Event) -> tuple[Any, np.ndarray, Any]:
        buffer, array, offset, *stream = event.operands
        words = int(event.signature.size[0]) // 4
        part = self._arrays[array][offset // 4 : offset // 4 + words]
        return self._buffer(buffer), part, self._streams[stream[0]] if stream else None

    def _launch(self, event: Event) -> None:
        one = event.signature
        numbers, stream = event.operands, None
        if one.streamed:
            numbers, stream = numbers[:-1], self._streams[numbers[-1]]
        buffers = tuple(self._buffer(number) for number in numbers)
        self._backend.launch(one.call, buffers, one.size, stream)

    def _graph_launch(self, event: Event) -> None:
        graph, stream = event.operands
        self._backend.graph_launch(self._graphs[graph], self._streams[stream])

    def _event_create(self, event: Event) -> None:
        self._marks[event.operands[0]] = self._backend.event_create()

    def _event_destroy(self, event: Event) -> None:
        self._backend.event_destroy(self._marks.pop(event.operands[0]))

    def _event_record(self, event: Event) -> None:
        mark, stream = event.operands
        self._backend.event_record(self._marks[mark], self._streams[stream])

    def _event_wait(self, event: Event) -> None:
        mark, stream = event.operands
        self._backend.event_wait(self._marks[mark], self._streams[stream])

    def _event_synchronize(self, event: Event) -> None:
        self._backend.event_synchronize(self._marks[event.operands[0]])

    def _stream_create(self, event: Event) -> None:
        self._streams[event.operands[0]] = self._backend.stream_create()

    def _stream_destroy(self, event: Event) -> None:
        self._backend.stream_destroy(self._streams.pop(event.operands[0]))

    def _stream_synchronize(self, event: Event) -> None:
        self._backend.stream_synchronize(self._streams[event.operands[0]])

    def _synchronize(self, event: Event) -> None:
        self._backend.synchronize()

    def _buffer(self, number: int) -> Any:
        """The device memory of this number, a block or a part of one."""
        if number in self._managed:
            return self._backend.managed_buffer(self._managed[number])
        if number in self._parts:
            block, offset, nbytes = self._parts[number]
            if block in self._managed:
                part = self._managed[block][offset // 4 : (offset + nbytes) // 4]
                return self._backend.managed_buffer(part)
            return self._backend.part(self._buffers[block], offset, nbytes)
        return self._buffers[number]

    def _captured(self, launches: Sequence[Launch]) -> Any:
        """A graph of these launches; each of them is done once before, since what is loaded then cannot be
        while a stream is captured."""
        stream = self._backend.stream_create()
        try:
            for capturing in (False, True):
                if capturing:
                    self._backend.graph_begin(stream)
                for op, numbers, buffers in launches:
                    self._backend.launch(op, tuple(map(self._buffer, buffers)), numbers, stream)
            return self._backend.graph_end(stream)
        finally:
            self._backend.stream_synchronize(stream)
            self._backend.stream_destroy(stream)

    def _close(self) -> None:
        self._backend.synchronize()
        for graph in self._graphs.values():
            self._backend.graph_destroy(graph)
        for mark in self._marks.values():
            self._backend.event_destroy(mark)
        for number, buffer in self._buffers.items():
            if number in self._pool_of:
                self._backend.pool_free(self._pools[self._pool_of[number]], buffer)
            else:
                self._backend.free(buffer)
        for number, array in self._arrays.items():
            if number in self._pool_of:
                self._backend.pool_host_free(self._pools[self._pool_of[number]], array)
            else:
                self._backend.host_free(array)
        for array in self._managed.values():
            self._backend.managed_free(array)
        for pool in self._pools.values():
            self._backend.pool_destroy(pool)
        for stream in self._streams.values():
            self._backend.stream_destroy(stream)
