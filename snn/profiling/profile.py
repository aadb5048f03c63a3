"""The profile of a cell: why it takes the time it takes, from separate passes after the timed runs.

The time breakdown times each call of a strategy to its backend. A host-driven strategy is one thread, so its
calls and the host arithmetic between them add up to the whole. Work of the device shows up as waiting of the
host, in synchronisations and synchronous copies.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend
from snn.profiling.call_costs import LEAST_SECONDS, call_costs, simulate
from snn.profiling.calls import METHODS, EveryCall, Method
from snn.profiling.tracer import Trace, trace
from snn.strategies import factory
from snn.strategies.factory import Job, start

_LEAST_SECONDS = 0.3

_MOST_STEPS = 128  # of an epoch that is timed call by call: more steps show nothing new, and may take seconds


class TimingBackend(EveryCall):
    """A backend that passes every call on and keeps, in ``seconds``, how long the host was in each part.

    It is not an observer: looking up what a call is about would take longer than a short call does.
    """

    PARTS = ("allocation", "host_allocation", "copy_in", "copy_out", "launch", "waiting", "streams")

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.reset()

    def reset(self) -> None:
        self.seconds = dict.fromkeys(self.PARTS, 0.0)
        self.calls = 0

    def do(self, method: Method, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        started = time.perf_counter()
        try:
            return getattr(self.inner, method.name)(*arguments, **named)
        finally:
            self.seconds[method.part] += time.perf_counter() - started
            self.calls += 1


def break_down(job: Job, backend: Backend, max_seconds: float = 0.0) -> dict[str, Any]:
    """The ``seconds`` of one run by part, ``host_arithmetic`` the rest, scaled from the ``epochs`` timed.

    Two epochs before them are not counted. As many are timed as take ``max_seconds``, of long ones only the
    first steps. What the timers take outside of the calls is measured and left out of the rest.
    """
    timing = TimingBackend(backend)
    steps = -(-len(job.X) // job.batch_size)
    sampled = steps if factory.class_of(job.strategy).by_epoch else min(steps, _MOST_STEPS)
    rows = sampled * job.batch_size
    strategy = start(replace(job, X=job.X[:rows], Y=job.Y[:rows]), timing)
    try:
        with np.errstate(all="ignore"):
            strategy.load(next(strategy.starts(job.network, job.seed)))
            strategy.epoch()
            backend.synchronize()
            # An epoch may return long before the device has finished it: a clock read between epochs would
            # let a thousand of them queue, so their number follows from one that is waited for.
            started = time.perf_counter()
            strategy.epoch()
            backend.synchronize()
            most = max(1, round(min(_LEAST_SECONDS, max_seconds) / (time.perf_counter() - started)))
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
    return {"epochs": epochs, "seconds": {part: value * scale for part, value in parts.items()}}


def _timer_seconds(calls: int = 2000) -> float:
    """Overhead of a timer around a call, outside the time that it measures, in seconds."""
    timing = TimingBackend(CpuBackend())
    started = time.perf_counter()
    for _ in range(calls):
        timing.synchronize()
    return (time.perf_counter() - started - timing.seconds["waiting"]) / calls


def profile(job: Job, backend: Backend, max_seconds: float = 0.0) -> dict[str, Any]:
    """Why a run takes its time, as a record holds it: ``explanation``. Raises OutOfMemory.

    ``attribution`` is the time breakdown, ``trace`` covers two steps, ``calls`` are a run's by signature
    with their costs, ``predicted_calls_seconds`` the time of these alone, without host arithmetic. No pass
    goes on for much longer than ``max_seconds``.
    """
    traced = trace(job, backend)
    steps = job.epochs * -(-len(job.X) // job.batch_size) / traced.steps
    counts = Counter(event.signature for event in traced.events)
    costs = call_costs(backend, traced, min(LEAST_SECONDS, max_seconds))
    breakdown = break_down(job, backend, max_seconds)
    # Make the kernels a separate part: subtract them from the waiting that hides them or, if a launch returns
    # only when all is done, from the launches.
    parts, hidden_in = breakdown["seconds"], "waiting" if backend.asynchronous else "launch"
    parts["kernels"] = min(steps * _kernel_seconds(traced), parts[hidden_in])
    parts[hidden_in] -= parts["kernels"]
    return {
        "attribution": breakdown,
        "trace": traced.plain(),
        "calls": [
            {**one._asdict(), "count": round(n * steps), **costs[one]._asdict()} for one, n in counts.items()
        ],
        "predicted_calls_seconds": steps * simulate(traced.events, costs),
    }


def _kernel_seconds(traced: Trace) -> float:
    """Seconds that the device computed, in all steps of the trace."""
    return sum(
        event.device_end - event.device_start
        for event in traced.events
        if METHODS[event.call.name].part == "launch"
        and event.device_start is not None
        and event.device_end is not None
    )
