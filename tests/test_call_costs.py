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


def traced(work):
    """A trace of work on a stream, memory and a host array."""
    tracing = Tracer(backend := Clocked())
    on = ObservedBackend(backend, tracing)
    stream, buffer, array = on.stream_create(), on.malloc(16), on.host_alloc((4,))
    held = [resource.made_by for resource in on.live.resources.values()]
    tracing.begin()
    work(on, stream, buffer, array)
    return Trace(1, tracing.events(), held)


def costs(trace, monkeypatch, asynchronous=True):
    backend = Clocked()
    backend.asynchronous = asynchronous
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=backend.perf_counter))
    monkeypatch.setattr(module, "_for_seconds", lambda seconds: [None])
    return call_costs(backend, trace)


def test_a_call_on_a_stream_costs_the_host_the_device_and_a_wait(monkeypatch):
    def work(on, stream, buffer, array):
        on.copy_in(buffer, array, stream)
        on.stream_synchronize(stream)

    found = costs(traced(work), monkeypatch)
    copy, wait = Signature("copy_in", (16,), True, True, "fresh"), Signature("stream_synchronize")
    # Until it is done 1 + 13 + 1 seconds: a second for the call, a quarter for the work, 1 + 3 for the wait.
    assert found == {
        copy: CallCost(SECOND, 0.25 * SECOND, (15 - 1 - 0.25 - 4) * SECOND),
        wait: CallCost((1 + 3) * SECOND),
    }
    assert CallCost(1.0) == CallCost(1.0, 0.0, 0.0)


def test_a_launch_without_a_stream_waits_for_all(monkeypatch):
    def work(on, stream, buffer, array):
        on.launch("relu", (buffer,), (4,))
        on.synchronize()

    found = costs(traced(work), monkeypatch)
    assert found == {
        Signature("relu", (4,)): CallCost(SECOND, 0.25 * SECOND, (1 + 12 + 1 - 1 - 0.25 - 3) * SECOND),
        Signature("synchronize"): CallCost((1 + 2) * SECOND),
    }


def test_a_wait_that_is_not_in_the_trace_costs_nothing(monkeypatch):
    def work(on, stream, buffer, array):
        on.launch("relu", (buffer,), (4,), stream)
        on.synchronize()

    found = costs(traced(work), monkeypatch)
    launch = found[Signature("relu", (4,), None, True, "fresh")]
    assert launch.latency_us == (1 + 13 + 1 - 1 - 0.25) * SECOND


def test_a_latency_is_not_negative(monkeypatch):
    monkeypatch.setattr(Clocked, "seconds_between", lambda self, first, last: 99.0)
    found = costs(traced(lambda on, stream, buffer, array: on.copy_in(buffer, array, stream)), monkeypatch)
    assert [(cost.device_us, cost.latency_us) for cost in found.values()] == [(99 * SECOND, 0.0)]


def test_a_call_that_returns_when_all_is_done_has_one_cost(monkeypatch):
    work = traced(lambda on, stream, buffer, array: on.copy_in(buffer, array))
    assert set(costs(work, monkeypatch).values()) == {CallCost(SECOND)}
    on_stream = traced(lambda on, stream, buffer, array: on.copy_in(buffer, array, stream))
    assert set(costs(on_stream, monkeypatch, asynchronous=False).values()) == {CallCost(SECOND)}


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
        found = call_costs(backend, traced(lambda on, *rest: on.synchronize()), *given)
    assert found == {}
    assert asked == seconds
    assert runs == [(False, False, False), (True, True, False), (False, False, True)][: len(seconds)]


def test_a_trace_without_events_has_no_costs():
    assert call_costs(Clocked(), Trace(1, [])) == {}


def test_costs_are_medians():
    assert module._median([1.0, 5.0, 2.0]) == 2 * SECOND


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


def test_a_stream_that_waits_for_an_event_begins_when_it_is_reached():
    record, wait = ("event_record", 1, 7), ("event_wait", 2, 7)
    copy, launch, end = ("copy_in", 1), ("matmul", 2), ("stream_synchronize", 2)
    assert seconds(copy, record, wait, launch, end) == pytest.approx(COPIED + 20)
    assert seconds(copy, record, launch, end) == pytest.approx(2 + 2 + 20)
    # What was asked for after the event was recorded is not waited for, nor is another event.
    assert seconds(record, copy, wait, launch, end) == pytest.approx(2 + 2 + 20)
    assert seconds(copy, record, ("event_wait", 2, 8), launch, end) == pytest.approx(2 + 2 + 20)


def test_a_wait_for_an_event_does_not_set_a_stream_back():
    calls = ("matmul", 2), ("copy_in", 1), ("event_record", 1, 7), ("event_wait", 2, 7), ("copy_in", 2)
    assert seconds(*calls, ("stream_synchronize", 2)) == pytest.approx(1 + 2 + 20 + 10)


def test_the_host_waits_for_an_event_and_for_no_more():
    copy, record, later = ("copy_in", 1), ("event_record", 1, 7), ("copy_in", 1)
    assert seconds(copy, record, later, ("event_synchronize", None, 7)) == pytest.approx(COPIED)
    assert seconds(copy, record, later, ("stream_synchronize", 1)) == pytest.approx(COPIED + 10)
    assert seconds(later, ("event_synchronize", None, 7)) == pytest.approx(1)  # never recorded
    for nothing in ([("event_synchronize", None, 7)], [("event_wait", 2, 7), ("stream_synchronize", 2)]):
        assert seconds(*nothing) == seconds(("event_record", 2, 7), *nothing) == 0
    assert seconds(("stream_synchronize", 2)) == seconds(("synchronize", 0)) == seconds() == 0


def test_a_prefetch_and_a_copy_share_an_engine_and_a_product_has_its_own():
    end = ("synchronize", 0)
    assert seconds(("prefetch_in", 1), ("copy_in", 2), end) == pytest.approx(COPIED + 10)
    assert seconds(("prefetch_in", 1), ("matmul", 2), end) == pytest.approx(2 + 2 + 20)


def test_the_first_work_of_a_stream_waits_for_the_host_and_its_latency_alone():
    assert seconds(("copy_out", 1), ("stream_synchronize", 1)) == pytest.approx(0.25 + 0.5 + 10)


@pytest.mark.parametrize("default", [0, None])
def test_the_default_stream_is_in_the_order_of_no_other(default):
    copy, launch = ("copy_in", default), ("matmul", 1)
    assert seconds(copy, launch, ("stream_synchronize", 1)) == pytest.approx(2 + 2 + 20)
    assert seconds(launch, copy, ("stream_synchronize", default)) == pytest.approx(2 + 2 + 10)


@pytest.mark.parametrize(("first", "then"), [(0, 1), (None, 1), (1, 0), (1, None)])
def test_the_default_stream_records_events_and_waits_for_them_as_others_do(first, then):
    work = ("copy_in", first), ("event_record", first, 7), ("event_wait", then, 7), ("matmul", then)
    assert seconds(*work, ("stream_synchronize", then)) == pytest.approx(COPIED + 20)
