"""What calls cost, by a clock of our own: the host, the device and the wait; and a schedule of the costs."""

from types import SimpleNamespace

import numpy as np
import pytest
from every_source import EverySource

from snn.profiling import call_costs as module
from snn.profiling.call_costs import CallCost, call_costs, simulate
from snn.profiling.observed import Call, ObservedBackend, Ref
from snn.profiling.tracer import Event, Signature, Trace, Tracer

SECOND = 1e6  # microseconds


class Clocked(EverySource):
    """A wait takes 10 seconds where something was asked for before it; else 3 of a stream, and 2 of all."""

    asynchronous = True

    def __init__(self):
        super().__init__()
        self.now, self.pending = 0.0, False

    def perf_counter(self):
        self.now += 1
        return self.now

    def _ask(self):
        self.pending = True

    def _wait(self, idle):
        self.now += idle + 10 * self.pending
        self.pending = False

    def copy_in(self, buffer, array, stream=None):
        super().copy_in(buffer, array)
        if stream is not None:
            self._ask()

    def launch(self, op, buffers, numbers, stream=None):
        super().launch(op, buffers, numbers)
        self._ask()

    def stream_synchronize(self, stream):
        self._wait(3)

    def synchronize(self):
        self._wait(2)

    def mark(self, stream=None):
        return self.now

    def seconds_between(self, first, last):
        return 0.25


def traced(*calls):
    """A trace of calls on a stream, memory and a host array."""
    tracing = Tracer(backend := Clocked())
    on = ObservedBackend(backend, tracing)
    stream, buffer, array = on.stream_create(), on.malloc(16), on.host_alloc((4,))
    held = [resource.made_by for resource in on.live.resources.values()]
    given = {"copy": (buffer, array), "launch": ("relu", (buffer,), (4,)), "wait": ()}
    tracing.begin()
    for name, *streamed in calls:
        do = {"copy": on.copy_in, "launch": on.launch, "wait": on.synchronize}[name]
        if name == "wait" and streamed:
            do = on.stream_synchronize
        do(*given[name], *(stream for _ in streamed))
    return Trace(1, tracing.events(), held)


def costs(trace, monkeypatch, asynchronous=True):
    backend = Clocked()
    backend.asynchronous = asynchronous
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=backend.perf_counter))
    monkeypatch.setattr(module, "_for_seconds", lambda seconds: [None])
    return call_costs(backend, trace)


COPY_ON, LAUNCH_ON, WAIT_ON = ("copy", "on"), ("launch", "on"), ("wait", "on")
LAUNCH = Signature("relu", (4,))
FRESH = {"streamed": True, "context": "fresh"}


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        # Until a copy is done 1 + 13 + 1 s: one for the call, a quarter for the work, 1 + 3 for the wait.
        (
            (COPY_ON, WAIT_ON),
            {
                Signature("copy_in", (16,), True, **FRESH): (1, 0.25, 15 - 1 - 0.25 - 4),
                Signature("stream_synchronize"): (1 + 3,),
            },
        ),
        # Without a stream it waits for all.
        (
            (("launch",), ("wait",)),
            {LAUNCH: (1, 0.25, 14 - 1 - 0.25 - 3), Signature("synchronize"): (1 + 2,)},
        ),
        # A wait that is not in the trace costs nothing.
        (
            (LAUNCH_ON, ("wait",)),
            {LAUNCH._replace(**FRESH): (1, 0.25, 15 - 1 - 0.25), Signature("synchronize"): (1 + 2,)},
        ),
        ((("copy",),), {Signature("copy_in", (16,), True): (1,)}),  # it returns when all is done
    ],
)
def test_a_call_costs_the_host_the_device_and_a_wait(monkeypatch, calls, expected):
    found = costs(traced(*calls), monkeypatch)
    assert found == {key: CallCost(*(SECOND * one for one in cost)) for key, cost in expected.items()}


def test_a_latency_is_not_negative_and_a_processor_has_none(monkeypatch):
    trace = traced(COPY_ON)
    assert set(costs(trace, monkeypatch, asynchronous=False).values()) == {CallCost(SECOND, 0.0, 0.0)}
    monkeypatch.setattr(Clocked, "seconds_between", lambda self, first, last: 99.0)
    assert [one[1:] for one in costs(trace, monkeypatch).values()] == [(99 * SECOND, 0.0)]


@pytest.mark.parametrize(
    ("given", "asynchronous", "seconds"),
    [((), True, [0.05, 0.25, 0.125]), ((0.01,), True, [0.01, 0.01, 0.005]), ((0.1,), False, [0.05, 0.1])],
)
def test_calls_are_made_so_long_first_to_warm_up(monkeypatch, given, asynchronous, seconds):
    asked, runs = [], []

    def run(self, host=None, total=None, device=None):
        runs.append((host is not None, total is not None, device is not None))
        np.float32(3e38) * np.float32(10)  # what is computed does not matter

    monkeypatch.setattr(module, "_for_seconds", lambda one: asked.append(one) or [None])
    monkeypatch.setattr(module.Replay, "run", run)
    backend = Clocked()
    backend.asynchronous = asynchronous
    with np.errstate(all="raise"):
        found = call_costs(backend, traced(("wait",)), *given)
    assert found == {}
    assert asked == seconds
    assert runs == [(False, False, False), (True, True, False), (False, False, True)][: len(seconds)]


def test_costs_are_medians_and_a_trace_without_events_has_none():
    assert module._median([1.0, 5.0, 2.0]) == 2 * SECOND
    assert call_costs(Clocked(), Trace(1, [])) == {}


def test_something_is_done_once_and_until_the_seconds_have_passed(monkeypatch):
    clock = iter([10.0, 10.5, 11.0, 11.5, 12.0])
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert len(list(module._for_seconds(1.0))) == 2
    assert len(list(module._for_seconds(0.25))) == 1


COSTS = {
    Signature("copy_in"): CallCost(1, 10, 2),
    Signature("matmul"): CallCost(1, 20, 2),
    Signature("prefetch_in"): CallCost(1, 10, 2),
    Signature("copy_out"): CallCost(0.25, 10, 0.5),
    **{Signature(call): CallCost(0) for call in ("event_record", "event_wait", "event_synchronize")},
    **{Signature(call): CallCost(0) for call in ("stream_synchronize", "synchronize")},
}
COPIED = 1 + 2 + 10
"""Microseconds until a copy that was asked for at 0 is done."""


def call_of(name, event):
    return Call("launch" if name == "matmul" else name, tuple(map(Ref, event)))


def seconds(*calls, costs=COSTS):
    """Of calls with a stream and, of an event's, the event's number."""
    events = [
        Event(Signature(call), 0, 0, stream, None, None, 0, 0, call_of(call, event))
        for call, stream, *event in calls
    ]
    return 1e6 * simulate(events, costs)


@pytest.mark.parametrize(
    ("calls", "microseconds"),
    [
        ([("malloc", 0), ("malloc", 0)], 100),
        ([("copy_in", 1)], 1),  # nobody waits
        ([("copy_in", 1), ("stream_synchronize", 1)], 1 + 2 + 10 + 1),
        # In one stream one after the other, the second's latency hidden.
        ([("copy_in", 1), ("matmul", 1), ("stream_synchronize", 1)], 1 + 2 + 10 + 20 + 1),
        # The second stream's copy beside the first one's product; products share the multiprocessors.
        (
            [*((call, stream) for stream in (1, 2) for call in ("copy_in", "matmul")), ("synchronize", 0)],
            1 + 2 + 10 + 20 + 20 + 1,
        ),
        ([("copy_in", 1), ("malloc", 0), ("stream_synchronize", 1)], 1 + 50 + 1),  # long done
        ([("copy_in", 1), ("copy_in", 2), ("synchronize", 0)], 1 + 2 + 10 + 10 + 1),
    ],
)
def test_the_host_pays_for_each_call_and_for_what_it_waits(calls, microseconds):
    paid = {Signature(call): CallCost(1) for call in ("stream_synchronize", "synchronize")}
    costs = COSTS | paid | {Signature("malloc"): CallCost(50)}
    assert seconds(*calls, costs=costs) == pytest.approx(microseconds)


COPY, PRODUCT, RECORD, WAIT = ("copy_in", 1), ("matmul", 2), ("event_record", 1, 7), ("event_wait", 2, 7)
END, OF_1, OF_ALL, OF_EVENT = (
    *(("stream_synchronize", 2), ("stream_synchronize", 1)),
    *(("synchronize", 0), ("event_synchronize", None, 7)),
)


@pytest.mark.parametrize(
    ("calls", "microseconds"),
    [
        # A stream that waits for an event begins when it is reached.
        ([COPY, RECORD, WAIT, PRODUCT, END], COPIED + 20),
        ([COPY, RECORD, PRODUCT, END], 2 + 2 + 20),
        # What was asked for after the event was recorded is not waited for, nor is another event.
        ([RECORD, COPY, WAIT, PRODUCT, END], 2 + 2 + 20),
        ([COPY, RECORD, ("event_wait", 2, 8), PRODUCT, END], 2 + 2 + 20),
        # A wait for an event does not set a stream back.
        ([PRODUCT, COPY, RECORD, WAIT, ("copy_in", 2), END], 1 + 2 + 20 + 10),
        # The host waits for an event and for no more.
        ([COPY, RECORD, COPY, OF_EVENT], COPIED),
        ([COPY, RECORD, COPY, OF_1], COPIED + 10),
        ([COPY, OF_EVENT], 1),  # never recorded
        *(([*before, OF_EVENT], 0) for before in ([], [("event_record", 2, 7)])),
        *(([*before, WAIT, END], 0) for before in ([], [("event_record", 2, 7)])),
        *((calls, 0) for calls in ([END], [OF_ALL], [])),
        # A prefetch and a copy share an engine, and a product has its own.
        ([("prefetch_in", 1), ("copy_in", 2), OF_ALL], COPIED + 10),
        ([("prefetch_in", 1), PRODUCT, OF_ALL], 2 + 2 + 20),
        # The first work of a stream waits for the host and its latency alone.
        ([("copy_out", 1), OF_1], 0.25 + 0.5 + 10),
        # The default stream is in the order of no other.
        *(([("copy_in", at), ("matmul", 1), OF_1], 2 + 2 + 20) for at in (0, None)),
        *(([("matmul", 1), ("copy_in", at), ("stream_synchronize", at)], 2 + 2 + 10) for at in (0, None)),
        # It records events and waits for them as others do.
        *(
            (
                [
                    *(("copy_in", first), ("event_record", first, 7)),
                    *(("event_wait", then, 7), ("matmul", then), ("stream_synchronize", then)),
                ],
                COPIED + 20,
            )
            for first, then in ((0, 1), (None, 1), (1, 0), (1, None))
        ),
    ],
)
def test_events_streams_and_engines_order_the_work(calls, microseconds):
    assert seconds(*calls) == pytest.approx(microseconds)
