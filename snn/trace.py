"""What a strategy asks of its backend in two steps, call by call: when, on which stream, how many bytes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from snn import memory
from snn.backends.base import Backend
from snn.backends.wrapper import Wrapper
from snn.glibc_random import GlibcRandom
from snn.measure import Job, start
from snn.network import draw_weights

_STEPS = 2


class Signature(NamedTuple):
    """What a call's cost depends on.

    ``size``: bytes, or the (m, k, n) of a product. ``page_locked``: of the host array. ``streamed``: whether
    a stream was given. ``context``: ``alone`` for an allocation while nothing else is held, and the free that
    leaves nothing; ``fresh`` for the first work on a stream since it was made.
    """

    call: str
    size: tuple[int, ...] = ()
    page_locked: bool | None = None
    streamed: bool = False
    context: str = ""


@dataclass(frozen=True)
class Event:
    """One call: seconds since the beginning on the host's clock, and on the device's where it worked.

    ``stream``: 0 for the default one, else the number of the stream among those alive. ``device_bytes`` and
    ``page_locked_bytes`` are held after the call. ``site``: the line that asked for it.
    """

    signature: Signature
    start: float
    end: float
    stream: int | None
    device_start: float | None
    device_end: float | None
    device_bytes: int
    page_locked_bytes: int
    site: str


class TracingBackend(Wrapper):
    """A backend that passes every call on and, from ``begin`` on, keeps it as an event."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._device: dict[Any, int] = {}
        self._host: dict[int, tuple[int, bool]] = {}
        self._streams: dict[Any, int] = {}
        self._fresh: set[Any] = set()
        self._began: float | None = None
        self._found: list[tuple[Event, Any, Any]] = []

    def begin(self) -> None:
        """Start both clocks, with the device idle."""
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

        def call() -> Any:
            buffer = self.inner.malloc(nbytes, kind)
            self._device[buffer] = nbytes
            return buffer

        return self._keep(signature, call)

    def free(self, buffer: Any) -> None:
        nbytes = self._device.pop(buffer)
        signature = Signature("free", (nbytes,), context="" if self._device else "alone")
        self._keep(signature, lambda: self.inner.free(buffer))

    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        nbytes = 4 * int(np.prod(shape))

        def call() -> np.ndarray:
            array = self.inner.host_alloc(shape, kind, page_locked)
            self._host[_address(array)] = (nbytes, page_locked)
            return array

        return self._keep(Signature("host_alloc", (nbytes,), page_locked), call)

    def host_free(self, array: np.ndarray) -> None:
        nbytes, page_locked = self._host.pop(_address(array))
        self._keep(Signature("host_free", (nbytes,), page_locked), lambda: self.inner.host_free(array))

    def copy_in(self, buffer: Any, array: np.ndarray, stream: Any = None) -> None:
        self._work(
            Signature("copy_in", (array.nbytes,), self._is_page_locked(array), stream is not None),
            lambda: self.inner.copy_in(buffer, array, stream),
            stream,
        )

    def copy_out(self, array: np.ndarray, buffer: Any, stream: Any = None) -> None:
        self._work(
            Signature("copy_out", (array.nbytes,), self._is_page_locked(array), stream is not None),
            lambda: self.inner.copy_out(array, buffer, stream),
            stream,
        )

    def matmul(self, A: Any, B: Any, C: Any, m: int, k: int, n: int, stream: Any = None) -> None:
        self._work(
            Signature("matmul", (m, k, n), streamed=stream is not None),
            lambda: self.inner.matmul(A, B, C, m, k, n, stream),
            stream,
        )

    def stream_create(self) -> Any:
        def call() -> Any:
            stream = self.inner.stream_create()
            taken = set(self._streams.values())
            self._streams[stream] = next(i for i in range(1, len(taken) + 2) if i not in taken)
            self._fresh.add(stream)
            return stream

        return self._keep(Signature("stream_create"), call)

    def stream_destroy(self, stream: Any) -> None:
        number = self._streams.pop(stream)
        self._fresh.discard(stream)
        self._keep(Signature("stream_destroy"), lambda: self.inner.stream_destroy(stream), number)

    def stream_synchronize(self, stream: Any) -> None:
        self._keep(
            Signature("stream_synchronize"),
            lambda: self.inner.stream_synchronize(stream),
            self._streams[stream],
        )

    def synchronize(self) -> None:
        self._keep(Signature("synchronize"), self.inner.synchronize)

    def _work(self, signature: Signature, call: Callable[[], Any], stream: Any) -> None:
        """A copy or a product: also timed where it is done."""
        if stream in self._fresh:
            signature = signature._replace(context="fresh")
            self._fresh.remove(stream)
        number = self._streams[stream] if stream is not None else 0
        if self._began is None:
            call()
        elif self.inner.asynchronous:
            first = self.inner.mark(stream)
            self._keep(signature, call, number)
            self._found[-1] = (self._found[-1][0], first, self.inner.mark(stream))
        else:
            self._keep(signature, call, number)
            event = self._found[-1][0]
            done = replace(event, device_start=event.start, device_end=event.end)
            self._found[-1] = (done, None, None)

    def _keep(self, signature: Signature, call: Callable[[], Any], stream: int | None = None) -> Any:
        if self._began is None:
            return call()
        started = time.perf_counter()
        result = call()
        ended = time.perf_counter()
        event = Event(
            signature,
            started - self._began,
            ended - self._began,
            stream,
            None,
            None,
            sum(self._device.values()),
            sum(nbytes for nbytes, page_locked in self._host.values() if page_locked),
            memory.caller(),
        )
        self._found.append((event, None, None))
        return result

    def _when(self, mark: Any) -> float:
        return self.inner.seconds_between(self._first_mark, mark)

    def _is_page_locked(self, array: np.ndarray) -> bool:
        address = _address(array)
        return any(
            page_locked
            for start, (nbytes, page_locked) in self._host.items()
            if start <= address < start + nbytes
        )


@dataclass(frozen=True)
class Trace:
    """The events of ``steps`` steps of training, in the order in which they were asked for."""

    steps: int
    events: list[Event]

    def plain(self) -> dict[str, Any]:
        """The trace as a record holds it: columns, microseconds, and each line that allocated once."""
        sites = list(dict.fromkeys(event.site for event in self.events))
        rows = [
            [
                event.signature.call,
                list(event.signature.size),
                event.stream,
                *(None if t is None else round(1e6 * t, 2) for t in _times(event)),
                event.device_bytes,
                event.page_locked_bytes,
                sites.index(event.site),
            ]
            for event in self.events
        ]
        return {"steps": self.steps, "columns": list(COLUMNS), "events": rows, "sites": sites}


COLUMNS = (
    "call",
    "size",
    "stream",
    "start_us",
    "end_us",
    "device_start_us",
    "device_end_us",
    "device_bytes",
    "page_locked_bytes",
    "site",
)


def trace(job: Job, backend: Backend) -> Trace:
    """The calls of two steps, after as many that are not kept, on the first batches of the data."""
    rows = _STEPS * job.batch_size
    short = replace(job, X=job.X[:rows], Y=job.Y[:rows])
    batches = -(-len(short.X) // job.batch_size)
    epochs = -(-_STEPS // batches)
    tracing = TracingBackend(backend)
    strategy = start(short, tracing)
    try:
        with np.errstate(all="ignore"):
            strategy.load(draw_weights(job.network, GlibcRandom(job.seed)))
            for _ in range(epochs):
                strategy.epoch()
            tracing.begin()
            for _ in range(epochs):
                strategy.epoch()
            return Trace(epochs * batches, tracing.events())
    finally:
        strategy.close()


def _times(event: Event) -> tuple[float | None, ...]:
    return event.start, event.end, event.device_start, event.device_end


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
