"""Cost of each call of a strategy by itself, and the predicted time of all its calls together.

To measure the costs, the calls of a trace are repeated one at a time, without training, on memory of the same
sizes. Scheduling the costs in the order of the trace predicts the total time.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.models.storage import FP32
from snn.profiling.calls import ENDED_BY, HOST_ARRAYS, METHODS
from snn.profiling.observed import Call, Ref
from snn.profiling.tracer import Event, Signature, Trace

_WARM_UP_SECONDS = 0.05
LEAST_SECONDS = 0.25  # a processor has slow moments that last longer than a few steps


class CallCost(NamedTuple):
    """Microseconds: of the host for the call, of the device for the work, and of waiting until it begins. A
    call that returns when all is done has only the first."""

    host_us: float
    device_us: float = 0.0
    latency_us: float = 0.0


def call_costs(backend: Backend, traced: Trace, seconds: float = LEAST_SECONDS) -> dict[Signature, CallCost]:
    """The median cost of each call of a trace. Everything allocated for it is freed.

    The calls are repeated in the trace's order, since a call costs more after others than after itself, with
    a wait after each. Work that the host does not wait for is timed three times: the call, the
    call until it is done, and, with marks around it, the device's part; the rest of the second is latency.
    """
    if not traced.events:
        return {}
    host, total, device = (defaultdict[Signature, list[float]](list) for _ in range(3))
    with ExitStack() as stack, np.errstate(all="ignore"):  # what is computed does not matter
        if traced.storage != FP32:
            stack.callback(backend.store, FP32)
            backend.store(traced.storage)
        replay = Replay(backend, traced, stack)
        for _ in _for_seconds(min(_WARM_UP_SECONDS, seconds)):  # late loading and growing are not timed
            replay.run()
        for _ in _for_seconds(seconds):
            replay.run(host, total)
        if backend.asynchronous:
            for _ in _for_seconds(seconds / 2):
                replay.run(device=device)
    costs = {signature: CallCost(_median(times)) for signature, times in host.items()}
    for signature, seconds_of_device in device.items():
        idle = costs.get(Signature("stream_synchronize" if signature.streamed else "synchronize"))
        asked, worked = costs[signature].host_us, _median(seconds_of_device)
        rest = _median(total[signature]) - asked - worked - (idle.host_us if idle else 0.0)
        costs[signature] = CallCost(asked, worked, max(rest, 0.0))
    return costs


def _for_seconds(seconds: float) -> Iterator[None]:
    """Once, and again until the seconds have passed."""
    until = time.perf_counter() + seconds
    yield
    while time.perf_counter() < until:
        yield


def _median(seconds: list[float]) -> float:
    return 1e6 * float(np.median(seconds))


_Seconds = Mapping[Signature, list[float]]


class Replay:
    """Repeats a trace's calls with new resources, which the exit stack frees."""

    def __init__(self, backend: Backend, traced: Trace, stack: ExitStack) -> None:
        self._backend, self._events = backend, traced.events
        self._made_by: dict[int, Call] = {}
        self._handles: dict[int, Any] = {}
        self._written: set[int] = set()
        self._on_device: set[int] = set()
        stack.callback(self._close)
        for call in traced.held:
            if call.name == "graph_end":
                self._take(call, self._graph(call))
                continue
            buffer = getattr(backend, call.name)(*self._arguments(call))
            self._take(call, buffer)
            if call.name in ("malloc", "pool_malloc"):  # one-launch training waits for counters of 0
                zeros = backend.host_alloc(((call.nbytes or 0) // 4,), "workspace", False)
                zeros.fill(0.0)
                backend.copy_in(buffer, zeros)
                backend.host_free(zeros)

    def run(
        self, host: _Seconds | None = None, total: _Seconds | None = None, device: _Seconds | None = None
    ) -> None:
        """All calls once. Seconds go to the lists given: of the call, until it is done, between marks."""
        backend = self._backend
        for event in self._events:
            call, signature = event.call, event.signature
            self._prepare(call)
            arguments, method = self._arguments(call), getattr(backend, call.name)
            stream = None if call.stream is None else self._handles[call.stream.number]
            # A copy without a stream returns when it is done.
            on_default = call.stream is None and call.is_work and not call.name.startswith("copy_")
            marked = device is not None and (signature.streamed or on_default)
            first = backend.mark(stream) if marked else None
            started = time.perf_counter()
            result = method(*arguments)
            asked = time.perf_counter()
            last = backend.mark(stream) if first is not None else None
            if signature.streamed:
                backend.stream_synchronize(stream)
            elif on_default:
                backend.synchronize()
            done = time.perf_counter()
            self._take(call, result)
            if host is not None:
                host[signature].append(asked - started)
            if total is not None:
                total[signature].append(done - started)
            if device is not None and first is not None:
                device[signature].append(backend.seconds_between(first, last))

    def _take(self, call: Call, result: Any) -> None:
        """Keep the resource that a call has made, and drop the one that it has ended."""
        if call.makes is not None:
            self._made_by[call.makes], self._handles[call.makes] = call, result
        if call.ends is not None:
            del self._made_by[call.ends], self._handles[call.ends]
            self._written.discard(call.ends)
            self._on_device.discard(call.ends)
        if call.name == "copy_out":
            self._written.add(call.arguments[0].number)

    def _arguments(self, call: Call) -> list[Any]:
        """A call's arguments with the replay's resources instead of the trace's."""
        stream = () if call.stream is None else (call.stream,)
        return [self._argument(argument) for argument in (*call.arguments, *stream)]

    def _argument(self, argument: Any) -> Any:
        if not isinstance(argument, Ref):
            several = type(argument) is tuple
            return tuple(self._argument(each) for each in argument) if several else argument
        handle, made_by = self._handles[argument.number], self._made_by[argument.number]
        if isinstance(handle, np.ndarray):
            array = handle
            if (argument.nbytes, argument.shape) != (handle.nbytes, handle.shape):
                words = slice(argument.offset // 4, (argument.offset + argument.nbytes) // 4)
                array = handle.reshape(-1)[words].reshape(argument.shape or -1)
            return array if argument.shape else self._backend.shared_buffer(array)
        if argument.nbytes != (made_by.nbytes or 0):
            return self._backend.part(handle, argument.offset, argument.nbytes)
        return handle

    def _prepare(self, call: Call) -> None:
        """Write finite numbers where training would have written, before a copy or a move reads them."""
        if call.name == "copy_in":
            number = call.arguments[1].number
            if number not in self._written:
                self._handles[number].fill(1.0)
                self._written.add(number)
        elif call.name == "prefetch_in":
            self._touch(call.arguments[0].number)
            self._on_device.add(call.arguments[0].number)
        elif call.name == "launch":
            op, buffers, _ = call.arguments
            for name, ref in zip(OPS[op].operands, buffers, strict=True):
                if self._made_by[ref.number].name in HOST_ARRAYS and ref.number not in self._written:
                    self._touch(ref.number)
                elif self._made_by[ref.number].name == "managed_alloc":
                    if ref.number not in self._on_device and name != "C":
                        self._touch(ref.number)
                    self._on_device.discard(ref.number)

    def _touch(self, number: int) -> None:
        """Use a managed array on the host, so that its pages are there."""
        array = self._handles[number]
        if number in self._written:
            array.max()
        else:
            array.fill(1.0)
            self._written.add(number)

    def _graph(self, call: Call) -> Any:
        """A graph of the same calls, each made once before: no kernel can be loaded during a capture."""
        stream = self._backend.stream_create()
        try:
            for capturing in (False, True):
                if capturing:
                    self._backend.graph_begin(stream)
                for captured in call.arguments:
                    arguments = map(self._argument, captured.arguments)
                    getattr(self._backend, captured.name)(*arguments, stream)
            return self._backend.graph_end(stream)
        finally:
            self._backend.stream_synchronize(stream)
            self._backend.stream_destroy(stream)

    def _close(self) -> None:
        self._backend.synchronize()
        while self._handles:
            number, handle = self._handles.popitem()  # the last first: memory before its pool
            made_by = self._made_by.pop(number)
            of_pool = made_by.name in ("pool_malloc", "pool_host_alloc")
            pool = (self._argument(made_by.arguments[0]),) if of_pool else ()
            getattr(self._backend, ENDED_BY[made_by.name])(*pool, handle)


def simulate(events: Sequence[Event], costs: Mapping[Signature, CallCost]) -> float:
    """Seconds of these calls without anything between them.

    The host pays each call's cost and goes on. Work that it does not wait for begins when its latency has
    passed, its stream has done all earlier work, and its engine (copies in, copies out, kernels) is free; a
    synchronisation returns when the work of its stream, of an event, or of all streams is done.
    """
    host = 0.0
    streams: dict[int, float] = {}
    marks: dict[int, float] = {}
    engines = dict.fromkeys(("copy_in", "copy_out", "launch"), 0.0)
    for event in events:
        cost, call, about = costs[event.signature], event.signature.call, event.call.arguments[:1]
        stream, mark = event.stream or 0, about[0].number if call.startswith("event_") else 0
        host += cost.host_us
        if call == "stream_synchronize":
            host = max(host, streams.get(stream, 0.0) + cost.host_us)
        elif call == "synchronize":
            host = max(host, max(streams.values(), default=0.0) + cost.host_us)
        elif call == "event_record":
            marks[mark] = streams.get(stream, 0.0)
        elif call == "event_wait":
            streams[stream] = max(streams.get(stream, 0.0), marks.get(mark, 0.0))
        elif call == "event_synchronize":
            host = max(host, marks.get(mark, 0.0))
        elif cost.device_us:
            engine = METHODS[event.call.name].part
            begin = max(host + cost.latency_us, streams.get(stream, 0.0), engines[engine])
            streams[stream] = engines[engine] = begin + cost.device_us
    return 1e-6 * host
