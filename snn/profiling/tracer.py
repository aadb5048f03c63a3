"""The trace of two steps: an event for every call, with its stream, its times and the bytes held."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.storage import FP32
from snn.profiling.observed import Call, Live, ObservedBackend, Observer
from snn.strategies import factory
from snn.strategies.factory import Job, start


class Signature(NamedTuple):
    """Everything that a call's cost depends on.

    ``size``: bytes or, for a launch, its numbers; ``call`` is then the name of what was launched.
    ``page_locked``: whether the host array is. ``streamed``: whether a stream was given. ``context``:
    ``alone`` for an allocation while nothing else is held, and for the free that leaves nothing; ``fresh``
    for the first work on a new stream; ``driver`` for memory of the driver's pool, ``cupy`` for CuPy's.
    """

    call: str
    size: tuple[float, ...] = ()
    page_locked: bool | None = None
    streamed: bool = False
    context: str = ""


@dataclass(frozen=True)
class Event:
    """One call: seconds since the beginning on the host's clock, and on the device's if it worked.

    ``stream``: 0 for the default one, else the number of the stream among those alive. ``device_bytes`` and
    ``page_locked_bytes`` are held after the call.
    """

    signature: Signature
    start: float
    end: float
    stream: int | None
    device_start: float | None
    device_end: float | None
    device_bytes: int
    page_locked_bytes: int
    call: Call


@dataclass(frozen=True)
class Trace:
    """The events of ``steps`` training steps in order, and the calls that made the resources held before.

    ``storage``: how operands were held (``snn.models.storage``).
    """

    steps: int
    events: list[Event]
    held: Sequence[Call] = ()
    storage: str = FP32

    def plain(self) -> dict[str, Any]:
        """The trace as a record holds it: columns, microseconds, and each call site once."""
        sites = list(dict.fromkeys(event.call.call_site for event in self.events))
        rows = []
        for event in self.events:
            times = (event.start, event.end, event.device_start, event.device_end)
            rows.append(
                [
                    *(event.signature.call, list(event.signature.size), event.stream),
                    *(None if t is None else round(1e6 * t, 2) for t in times),
                    *(event.device_bytes, event.page_locked_bytes, sites.index(event.call.call_site)),
                ]
            )
        return {"steps": self.steps, "columns": list(COLUMNS), "events": rows, "sites": sites}


COLUMNS = (
    *("call", "size", "stream", "start_us", "end_us", "device_start_us", "device_end_us"),
    *("device_bytes", "page_locked_bytes", "site"),
)
_STEPS = 2
_IN_ORDER = ("stream_synchronize", "event_record", "event_wait")  # of a stream, as work is
_CAPTURE = ("graph_begin", "graph_end", "graph_destroy")  # a graph is a resource, launching it an event


def trace(job: Job, backend: Backend) -> Trace:
    """The calls of two steps, after as many that are not kept, on the first batches of the data. Where the
    host asks for whole epochs, of one: a shorter one would not cost its share."""
    rows = len(job.X) if factory.class_of(job.strategy).by_epoch else _STEPS * job.batch_size
    short = replace(job, X=job.X[:rows], Y=job.Y[:rows])
    batches = -(-len(short.X) // job.batch_size)
    epochs = -(-_STEPS // batches)
    tracer = Tracer(backend)
    observed = ObservedBackend(backend, tracer)
    strategy = start(short, observed)
    try:
        with np.errstate(all="ignore"):
            strategy.load(next(strategy.starts(job.network, job.seed)))
            for _ in range(epochs):
                strategy.epoch()
            held = [resource.made_by for resource in observed.live.resources.values()]
            tracer.begin()
            for _ in range(epochs):
                strategy.epoch()
            return Trace(epochs * batches, tracer.events(), held, job.network.storage)
    finally:
        strategy.close()


class Tracer(Observer):
    """An observer that, from ``begin`` on, keeps every call that is not captured as an event."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lanes: dict[int, int] = {}
        self._fresh: set[int] = set()
        self._pools: dict[int, str] = {}
        self._began: float | None = None
        self._first_mark: Any = None
        self._mark: Any = None
        self._stream: Any = None
        self._events: list[tuple[Event, tuple[Any, ...]]] = []

    def begin(self) -> None:
        """Start both clocks, with the device idle."""
        self._backend.synchronize()
        self._first_mark = self._backend.mark()
        self._backend.synchronize()
        self._began = time.perf_counter()

    def events(self) -> list[Event]:
        """The events since ``begin``, once the device has finished."""
        self._backend.synchronize()
        found = []
        for event, marks in self._events:
            if marks:
                start, end = (self._backend.seconds_between(self._first_mark, mark) for mark in marks)
                event = replace(event, device_start=start, device_end=end)
            found.append(event)
        return found

    def before(self, call: Call, live: Live) -> None:
        if self._began is not None and self._backend.asynchronous and call.is_work and not call.captured:
            self._stream = None if call.stream is None else live.resources[call.stream.number].handle
            self._mark = self._backend.mark(self._stream)

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        if call.captured or call.name in _CAPTURE:
            return
        signature, lane = self._signature(call, live), self._lane(call)
        if self._began is None:
            return
        start, end = started - self._began, ended - self._began
        is_asynchronous = self._backend.asynchronous
        first, last = (start, end) if call.is_work and not is_asynchronous else (None, None)
        held = live.device_bytes, live.page_locked_bytes
        marks = (self._mark, self._backend.mark(self._stream)) if call.is_work and is_asynchronous else ()
        self._events.append((Event(signature, start, end, lane, first, last, *held, call), marks))

    def _signature(self, call: Call, live: Live) -> Signature:
        if not call.is_work:
            size: tuple[float, ...] = () if call.nbytes is None else (call.nbytes,)
            return Signature(call.name, size, call.page_locked, context=self._context(call, live))
        context = ""
        if call.stream is not None and call.stream.number in self._fresh:
            self._fresh.remove(call.stream.number)
            context = "fresh"
        name, size = call.name, (call.nbytes or 0,)
        if call.name == "launch":
            name, _, size = call.arguments
        elif call.name == "train":
            shape, _, steps = call.arguments
            name, size = shape.op, (steps.rows, shape.batch, *steps[1:5])
        elif call.name == "graph_launch":
            size = (live.kernels(call),)
        return Signature(name, size, call.page_locked, call.stream is not None, context)

    def _context(self, call: Call, live: Live) -> str:
        """The ``context`` in the signature of a call that is not device work."""
        if call.name == "advise":
            return call.arguments[1]
        if call.name in ("malloc", "free"):
            others = live.device_bytes - (call.nbytes or 0 if call.name == "malloc" else 0)
            return "" if others else "alone"
        if call.name == "pool_create" and call.makes is not None:
            self._pools[call.makes] = "cupy" if call.stream is None else "driver"
            return self._pools[call.makes]
        return self._pools[call.arguments[0].number] if call.name.startswith("pool_") else ""

    def _lane(self, call: Call) -> int | None:
        """The number of a call's stream among those alive; None of a call that is not in a stream's order."""
        if call.name == "stream_create" and call.makes is not None:
            taken = self._lanes.values()
            self._lanes[call.makes] = next(i for i in range(1, len(taken) + 2) if i not in taken)
            self._fresh.add(call.makes)
        elif call.ends in self._lanes:
            self._fresh.discard(call.ends)
            return self._lanes.pop(call.ends)
        elif call.is_work or call.name in _IN_ORDER:
            return 0 if call.stream is None else self._lanes[call.stream.number]
        return None
