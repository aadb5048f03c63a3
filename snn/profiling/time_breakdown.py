"""The time breakdown of a run: each call that a strategy makes of its backend, timed in a separate pass.

A host-driven strategy is one thread, so its calls and the host arithmetic between them add up to the whole.
What the device does meanwhile appears where the host waits: in synchronisations and synchronous copies.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend
from snn.backends.trainings import TrainingShape
from snn.strategies.common import factory
from snn.strategies.common.job import Job, start
from snn.strategies.common.strategy import Strategy

_LEAST_SECONDS = 0.3

_MOST_STEPS = 128
"""Of an epoch that is timed call by call: more tell nothing new, and may take seconds."""


def _timed(part: str, name: str) -> Callable[..., Any]:
    """A method that passes a call on to the inner backend and adds its seconds to a part."""

    def call(self: "TimingBackend", *arguments: Any) -> Any:
        started = time.perf_counter()
        try:
            return getattr(self.inner, name)(*arguments)
        finally:
            self.seconds[part] += time.perf_counter() - started
            self.calls += 1

    return call


class TimingBackend(Backend):
    """A backend that passes every call on and keeps, in ``seconds``, how long the host was in each part.

    It is no observer: looking up what a call is about would take longer than a short call does.
    """

    PARTS = ("allocation", "host_allocation", "copy_in", "copy_out", "launch", "waiting", "streams")

    malloc = _timed("allocation", "malloc")
    free = _timed("allocation", "free")
    host_alloc = _timed("host_allocation", "host_alloc")
    host_free = _timed("host_allocation", "host_free")
    pool_create = _timed("allocation", "pool_create")
    pool_destroy = _timed("allocation", "pool_destroy")
    pool_malloc = _timed("allocation", "pool_malloc")
    pool_free = _timed("allocation", "pool_free")
    pool_host_alloc = _timed("host_allocation", "pool_host_alloc")
    pool_host_free = _timed("host_allocation", "pool_host_free")
    managed_alloc = _timed("allocation", "managed_alloc")
    managed_free = _timed("allocation", "managed_free")
    advise = _timed("allocation", "advise")
    prefetch_in = _timed("copy_in", "prefetch_in")
    prefetch_out = _timed("copy_out", "prefetch_out")
    copy_in = _timed("copy_in", "copy_in")
    copy_out = _timed("copy_out", "copy_out")
    launch = _timed("launch", "launch")
    graph_launch = _timed("launch", "graph_launch")
    synchronize = _timed("waiting", "synchronize")
    stream_synchronize = _timed("waiting", "stream_synchronize")
    stream_create = _timed("streams", "stream_create")
    stream_destroy = _timed("streams", "stream_destroy")
    event_create = _timed("streams", "event_create")
    event_destroy = _timed("streams", "event_destroy")
    event_record = _timed("streams", "event_record")
    event_wait = _timed("streams", "event_wait")
    event_synchronize = _timed("waiting", "event_synchronize")
    graph_begin = _timed("streams", "graph_begin")
    graph_end = _timed("streams", "graph_end")
    graph_destroy = _timed("streams", "graph_destroy")

    def __init__(self, inner: Backend) -> None:
        self.inner = inner
        self.fused, self.pretransposed, self.precision = inner.fused, inner.pretransposed, inner.precision
        self.convolves = inner.convolves
        self.asynchronous, self.is_processor = inner.asynchronous, inner.is_processor
        self.prefetches_out = inner.prefetches_out
        self.reset()

    def reset(self) -> None:
        """Forget what was timed so far."""
        self.seconds = dict.fromkeys(self.PARTS, 0.0)
        self.calls = 0

    # Questions and arithmetic on addresses, which are not timed.

    def part(self, buffer: Any, offset: int, nbytes: int) -> Any:
        return self.inner.part(buffer, offset, nbytes)

    def managed_buffer(self, array: np.ndarray) -> Any:
        return self.inner.managed_buffer(array)

    def pool_bytes(self, pool: Any) -> int:
        return self.inner.pool_bytes(pool)

    def training_plan(self, shape: TrainingShape) -> str:
        return self.inner.training_plan(shape)

    def may_stop(self, shape: TrainingShape) -> bool:
        return self.inner.may_stop(shape)

    def steps_per_launch(self, shape: TrainingShape) -> int:
        return self.inner.steps_per_launch(shape)

    def memory(self) -> tuple[int, int]:
        return self.inner.memory()

    def address(self, buffer: Any) -> int:
        return self.inner.address(buffer)

    def mark(self, stream: Any = None) -> Any:
        return self.inner.mark(stream)

    def seconds_between(self, first: Any, last: Any) -> float:
        return self.inner.seconds_between(first, last)


@dataclass(frozen=True)
class TimeBreakdown:
    """``seconds`` of one run by part, ``host_arithmetic`` the rest; scaled from the ``epochs`` timed."""

    epochs: int
    seconds: dict[str, float]


def break_down(job: Job, backend: Backend, max_seconds: float = 0.0) -> TimeBreakdown:
    """Time the parts of a few epochs, after two that are not counted, and scale them to the job's epochs.

    At least one epoch is timed, and as many as take ``max_seconds``. Of long epochs only the first steps are
    taken, unless the strategy is asked for a whole epoch at a time.
    What the timers themselves take outside of the calls is measured and left out of the rest.
    """
    timing = TimingBackend(backend)
    steps = -(-len(job.X) // job.batch_size)
    sampled = min(steps, _MOST_STEPS)
    if factory.class_of(job.strategy).by_epoch:
        sampled = steps
    rows = sampled * job.batch_size
    strategy = start(replace(job, X=job.X[:rows], Y=job.Y[:rows]), timing)
    try:
        with np.errstate(all="ignore"):
            strategy.load(next(strategy.starts(job.network, job.seed)))
            strategy.epoch()
            backend.synchronize()
            most = _epochs_in(min(_LEAST_SECONDS, max_seconds), strategy, backend)
            timing.reset()
            epochs, started = 0, time.perf_counter()
            while epochs < most:
                strategy.epoch()
                epochs += 1
            timing.synchronize()
            total = time.perf_counter() - started - timing.calls * _timer_seconds()
            parts = dict(timing.seconds)
    finally:
        strategy.close()
    parts["host_arithmetic"] = max(total - sum(parts.values()), 0.0)
    scale = job.epochs / epochs * steps / sampled
    return TimeBreakdown(epochs, {part: value * scale for part, value in parts.items()})


def _epochs_in(seconds: float, strategy: Strategy, backend: Backend) -> int:
    """How many epochs take these seconds, at least one; by an epoch that the device has finished.

    An epoch may return long before: a clock read between epochs would let a thousand of them queue.
    """
    started = time.perf_counter()
    strategy.epoch()
    backend.synchronize()
    return max(1, round(seconds / (time.perf_counter() - started)))


def _timer_seconds(calls: int = 2000) -> float:
    """What a timer takes around a call, outside of what it measures, in seconds."""
    timing = TimingBackend(CpuBackend())
    started = time.perf_counter()
    for _ in range(calls):
        timing.synchronize()
    return (time.perf_counter() - started - timing.seconds["waiting"]) / calls
