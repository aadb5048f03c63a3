"""A backend that observes another: every call becomes a ``Call``, is checked, and is told to observers.

It is used in separate instrumented passes; a timed run talks to the backend itself.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.backends.trainings import TrainingShape
from snn.errors import OutOfMemory
from snn.profiling.calls import DEVICE_MEMORY, ENDED_BY, Call, Memory, Observer, Ref, Resource, call_site
from snn.profiling.live import HOST_ARRAYS, Live
from snn.profiling.memory import held


class ObservedBackend(Backend):
    """Passes every call on to ``inner``; raises LeakError as ``Live`` does, before the call is made.

    Device memory, pools, streams, events and graphs are handed out as handles of its own. An OutOfMemory also
    says what held how much device memory, and who asked for more.
    """

    def __init__(self, inner: Backend, *observers: Observer) -> None:
        self.inner, self.live, self._observers = inner, Live(inner), observers
        self.fused, self.pretransposed, self.precision = inner.fused, inner.pretransposed, inner.precision
        self.convolves, self.computes = inner.convolves, inner.computes
        self.no_capture = inner.no_capture
        self.asynchronous, self.is_processor = inner.asynchronous, inner.is_processor
        self.prefetches_out = inner.prefetches_out

    def malloc(self, nbytes: int, purpose: str | None = None) -> Resource:
        call = self._call("malloc", nbytes, purpose, nbytes=nbytes, purpose=purpose)
        return self._allocate(call, self.inner.malloc, nbytes, purpose)

    def free(self, buffer: Any) -> None:
        self._end("free", self.live.freed(buffer, "free"), self.inner.free)

    def part(self, buffer: Any, offset: int, nbytes: int) -> Memory:
        ref = self.live.part(self.live.device_memory(buffer), offset, nbytes)
        return Memory(ref, self.inner.part(buffer.handle, offset, nbytes))

    def host_alloc(
        self, shape: tuple[int, ...], purpose: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        nbytes = 4 * math.prod(shape)
        call = self._call(
            "host_alloc", shape, purpose, page_locked, nbytes=nbytes, purpose=purpose, page_locked=page_locked
        )
        return self._do(call, self.inner.host_alloc, shape, purpose, page_locked).handle

    def host_free(self, array: np.ndarray) -> None:
        self._end("host_free", self.live.freed(array, "host_free"), self.inner.host_free)

    def pool_create(self, stream: Any = None) -> Resource:
        on = None if stream is None else self.live.find(stream, "stream")
        call = self._call("pool_create", None if on is None else on.ref)
        return self._do(call, self.inner.pool_create, None if on is None else on.handle)

    def pool_destroy(self, pool: Any) -> None:
        self._end("pool_destroy", self.live.unused_pool(pool), self.inner.pool_destroy)

    def pool_malloc(self, pool: Any, nbytes: int, purpose: str | None = None) -> Resource:
        found = self.live.find(pool, "pool")
        call = self._call("pool_malloc", found.ref, nbytes, purpose, nbytes=nbytes, purpose=purpose)
        return self._allocate(call, self.inner.pool_malloc, found.handle, nbytes, purpose)

    def pool_free(self, pool: Any, buffer: Any) -> None:
        found = self.live.find(pool, "pool")
        self._end("pool_free", self.live.freed(buffer, "pool_free", found), self.inner.pool_free, found)

    def pool_host_alloc(self, pool: Any, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        found, nbytes = self.live.find(pool, "pool"), 4 * math.prod(shape)
        call = self._call(
            "pool_host_alloc", found.ref, shape, purpose, nbytes=nbytes, purpose=purpose, page_locked=True
        )
        return self._do(call, self.inner.pool_host_alloc, found.handle, shape, purpose).handle

    def pool_host_free(self, pool: Any, array: np.ndarray) -> None:
        found = self.live.find(pool, "pool")
        freed = self.live.freed(array, "pool_host_free", found)
        self._end("pool_host_free", freed, self.inner.pool_host_free, found)

    def managed_alloc(self, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        call = self._call("managed_alloc", shape, purpose, nbytes=4 * math.prod(shape), purpose=purpose)
        return self._allocate(call, self.inner.managed_alloc, shape, purpose).handle

    def managed_free(self, array: np.ndarray) -> None:
        self._end("managed_free", self.live.freed(array, "managed_free"), self.inner.managed_free)

    def managed_buffer(self, array: np.ndarray) -> Memory:
        ref = self.live.array(array, "managed_alloc")
        return Memory(Ref(ref.number, ref.offset, ref.nbytes), self.inner.managed_buffer(array))

    def advise(self, array: np.ndarray, advice: str) -> None:
        ref = self.live.array(array, "managed_alloc")
        self._do(self._call("advise", ref, advice, nbytes=ref.nbytes), self.inner.advise, array, advice)

    def prefetch_in(self, array: np.ndarray) -> None:
        ref = self.live.array(array, "managed_alloc")
        self._do(self._call("prefetch_in", ref, nbytes=ref.nbytes), self.inner.prefetch_in, array)

    def prefetch_out(self, array: np.ndarray) -> None:
        ref = self.live.array(array, "managed_alloc")
        self._do(self._call("prefetch_out", ref, nbytes=ref.nbytes), self.inner.prefetch_out, array)

    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        to, source = self._copied(buffer, array)
        call = self._copy("copy_in", (to, source), source, stream)
        self._do(call, self.inner.copy_in, buffer.handle, array, _handle(stream))

    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        source, to = self._copied(buffer, array)
        call = self._copy("copy_out", (to, source), to, stream)
        self._do(call, self.inner.copy_out, array, buffer.handle, _handle(stream))

    def launch(
        self, op: str, buffers: tuple[Any, ...], numbers: tuple[float, ...], stream: Any = None
    ) -> None:
        operands = zip(OPS[op].operands, buffers, OPS[op].elements(*numbers), strict=True)
        refs = tuple(
            self.live.device_memory(buffer, 4 * count, name, "of", op, numbers)
            for name, buffer, count in operands
        )
        handles = tuple(buffer.handle for buffer in buffers)
        call = self._call("launch", op, refs, numbers, stream=stream)
        self._do(call, self.inner.launch, op, handles, numbers, _handle(stream))

    def training_plan(self, shape: TrainingShape) -> str:
        return self.inner.training_plan(shape)

    def may_stop(self, shape: TrainingShape) -> bool:
        return self.inner.may_stop(shape)

    def steps_per_launch(self, shape: TrainingShape) -> int:
        return self.inner.steps_per_launch(shape)

    def stream_create(self) -> Resource:
        return self._do(self._call("stream_create"), self.inner.stream_create)

    def stream_destroy(self, stream: Any) -> None:
        self._end("stream_destroy", self.live.find(stream, "stream"), self.inner.stream_destroy)

    def stream_synchronize(self, stream: Any) -> None:
        call = self._call("stream_synchronize", stream=stream)
        self._do(call, self.inner.stream_synchronize, stream.handle)

    def synchronize(self) -> None:
        self._do(self._call("synchronize"), self.inner.synchronize)

    def event_create(self) -> Resource:
        return self._do(self._call("event_create"), self.inner.event_create)

    def event_destroy(self, event: Any) -> None:
        self._end("event_destroy", self.live.find(event, "event"), self.inner.event_destroy)

    def event_record(self, event: Any, stream: Any) -> None:
        call = self._call("event_record", self.live.find(event, "event").ref, stream=stream)
        self._do(call, self.inner.event_record, event.handle, stream.handle)

    def event_wait(self, event: Any, stream: Any) -> None:
        call = self._call("event_wait", self.live.find(event, "event").ref, stream=stream)
        self._do(call, self.inner.event_wait, event.handle, stream.handle)

    def event_synchronize(self, event: Any) -> None:
        call = self._call("event_synchronize", self.live.find(event, "event").ref)
        self._do(call, self.inner.event_synchronize, event.handle)

    def graph_begin(self, stream: Any) -> None:
        self._do(self._call("graph_begin", stream=stream), self.inner.graph_begin, stream.handle)
        self.live.capturing[stream.ref.number] = []

    def graph_end(self, stream: Any) -> Resource:
        captured = self.live.capturing.pop(self.live.find(stream, "stream").ref.number)
        call = self._call("graph_end", *captured, stream=stream)
        return self._do(call, self.inner.graph_end, stream.handle)

    def graph_launch(self, graph: Any, stream: Any) -> None:
        call = self._call("graph_launch", self.live.find(graph, "graph").ref, stream=stream)
        self._do(call, self.inner.graph_launch, graph.handle, stream.handle)

    def graph_destroy(self, graph: Any) -> None:
        self._end("graph_destroy", self.live.find(graph, "graph"), self.inner.graph_destroy)

    # Questions, of which no observer is told.

    def pool_bytes(self, pool: Any) -> int:
        return self.inner.pool_bytes(self.live.find(pool, "pool").handle)

    def memory(self) -> tuple[int, int]:
        return self.inner.memory()

    def address(self, buffer: Any) -> int:
        return self.inner.address(buffer.handle)

    def mark(self, stream: Any = None) -> Any:
        return self.inner.mark(_handle(stream))

    def seconds_between(self, first: Any, last: Any) -> float:
        return self.inner.seconds_between(first, last)

    def _copied(self, buffer: Any, array: np.ndarray) -> tuple[Ref, Ref]:
        """Device memory and host array of a copy, where there is room for it."""
        on_host = self.live.array(array, *HOST_ARRAYS)
        on_device = self.live.device_memory(buffer, on_host.nbytes, "a copy")
        self.live.infer_purpose(on_device, on_host)
        return on_device, on_host

    def _copy(self, name: str, arguments: tuple[Ref, Ref], array: Ref, stream: Any) -> Call:
        page_locked = self.live.resources[array.number].made_by.page_locked
        return self._call(name, *arguments, stream=stream, nbytes=array.nbytes, page_locked=page_locked)

    def _call(self, name: str, *arguments: Any, stream: Any = None, **facts: Any) -> Call:
        on = None if stream is None else self.live.find(stream, "stream").ref
        captured = on is not None and on.number in self.live.capturing
        makes = self.live.next_number() if name in ENDED_BY else None
        return Call(name, arguments, on, captured=captured, makes=makes, call_site=call_site(), **facts)

    def _allocate(self, call: Call, do: Callable[..., Any], *arguments: Any) -> Resource:
        try:
            return self._do(call, do, *arguments)
        except OutOfMemory as error:
            holders = held(self.live.of(*DEVICE_MEMORY)) or "nothing"
            raise OutOfMemory(f"{error}; held: {holders}; asked by {call.call_site}") from error

    def _end(self, name: str, resource: Resource, do: Callable[..., Any], *pool: Resource) -> None:
        made = resource.made_by
        resources = (*pool, resource)
        call = Call(
            name,
            tuple(each.ref for each in resources),
            nbytes=made.nbytes,
            page_locked=made.page_locked,
            ends=resource.ref.number,
            call_site=call_site(),
        )
        self._do(call, do, *(each.handle for each in resources))

    def _do(self, call: Call, do: Callable[..., Any], *arguments: Any) -> Any:
        """Make a call; returns the resource of one that makes any, else what the call returns."""
        for observer in self._observers:
            observer.before(call, self.live)
        started = time.perf_counter()
        try:
            result = do(*arguments)
        except BaseException:
            for observer in self._observers:
                observer.failed(call)
            raise
        ended = time.perf_counter()
        result = self.live.update(call, result)
        for observer in self._observers:
            observer.after(call, self.live, started, ended)
        return result


def _handle(stream: Any) -> Any:
    """The observed backend's handle of a stream, which may be none."""
    return None if stream is None else stream.handle
