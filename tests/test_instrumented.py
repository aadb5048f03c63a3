"""What instrumented passes see: every call of a scenario that has one of each kind."""

from dataclasses import replace

import pytest
from scenario import Everything, before, clock_of, close, steps, traced
from test_measure import JOB

from snn.config import groups
from snn.profiling import call_costs, observed, tracer
from snn.profiling.ledger import Ledger
from snn.profiling.observed import Call, ObservedBackend, Ref, Resource
from snn.profiling.tracer import Event, Signature, Trace, Tracer


@pytest.fixture
def ticking(monkeypatch):
    return clock_of(monkeypatch, observed, tracer, call_costs)


@pytest.fixture
def run():
    with traced() as scenario:
        yield scenario


def test_a_trace_begins_with_the_device_idle_and_both_clocks_at_0(run):
    assert [name for name, _ in run.begun if name != "stream_synchronize"] == [
        *("synchronize", "mark", "synchronize")
    ]
    assert [stream for name, stream in run.begun if name == "mark"] == [None]
    first = run.tracing.events()[0]
    assert 0 < first.start < first.end < 1


EVENTS = [
    ("copy_in", (64,), True, True, "fresh", 1, 1.0, 2.0, 128, 64),
    ("stream_synchronize", (), None, False, "", 1, None, None, 128, 64),
    ("stream_create", (), None, False, "", None, None, None, 128, 64),
    ("host_alloc", (32,), False, False, "", None, None, None, 128, 64),
    ("malloc", (32,), None, False, "", None, None, None, 160, 64),
    ("copy_in", (32,), False, True, "fresh", 2, 3.0, 4.0, 160, 64),
    ("event_record", (), None, False, "", 2, None, None, 160, 64),
    ("event_wait", (), None, False, "", 1, None, None, 160, 64),
    ("event_synchronize", (), None, False, "", None, None, None, 160, 64),
    ("relu", (4,), None, True, "", 2, 5.0, 6.0, 160, 64),
    ("copy_out", (32,), True, False, "", 0, 7.0, 8.0, 160, 64),
    ("host_alloc", (16,), True, False, "", None, None, None, 160, 80),
    ("copy_out", (16,), True, False, "", 0, 9.0, 10.0, 160, 80),
    ("copy_in", (16,), True, False, "", 0, 11.0, 12.0, 160, 80),
    ("host_free", (16,), True, False, "", None, None, None, 160, 64),
    ("graph_launch", (2,), None, True, "", 1, 13.0, 14.0, 160, 64),
    ("stream_synchronize", (), None, False, "", 1, None, None, 160, 64),
    ("stream_synchronize", (), None, False, "", 2, None, None, 160, 64),
    ("stream_destroy", (), None, False, "", 2, None, None, 160, 64),
    ("stream_create", (), None, False, "", None, None, None, 160, 64),
    ("relu", (8,), None, True, "fresh", 2, 15.0, 16.0, 160, 64),
    ("stream_synchronize", (), None, False, "", 2, None, None, 160, 64),
    ("pool_malloc", (16,), None, False, "cupy", None, None, None, 176, 64),
    ("pool_malloc", (48,), None, False, "driver", None, None, None, 224, 64),
    ("pool_host_alloc", (16,), True, False, "cupy", None, None, None, 224, 80),
    ("copy_in", (16,), True, False, "", 0, 17.0, 18.0, 224, 80),
    ("pool_host_free", (16,), True, False, "cupy", None, None, None, 224, 64),
    ("pool_free", (48,), None, False, "driver", None, None, None, 176, 64),
    ("pool_free", (16,), None, False, "cupy", None, None, None, 160, 64),
    ("advise", (32,), None, False, "read_mostly", None, None, None, 160, 64),
    ("prefetch_in", (32,), None, False, "", 0, 19.0, 20.0, 160, 64),
    ("prefetch_out", (16,), None, False, "", 0, 21.0, 22.0, 160, 64),
    ("relu", (8,), None, False, "", 0, 23.0, 24.0, 160, 64),
    ("synchronize", (), None, False, "", None, None, None, 160, 64),
    ("stream_destroy", (), None, False, "", 2, None, None, 160, 64),
    ("free", (32,), None, False, "", None, None, None, 128, 64),
    ("host_free", (32,), False, False, "", None, None, None, 128, 64),
]


def test_every_call_is_an_event_with_its_signature_its_lane_and_what_is_held(run):
    found = [
        (
            *event.signature,
            *(event.stream, event.device_start, event.device_end),
            *(event.device_bytes, event.page_locked_bytes),
        )
        for event in run.tracing.events()
    ]
    assert found == EVENTS
    assert [event.call for event in run.tracing.events()] == run.calls


def test_what_memory_is_for_is_known_from_its_allocation(run):
    found = [(call.name, call.purpose) for call in (*run.kept, *run.calls) if call.nbytes and call.makes]
    assert found == [
        *(("host_alloc", "data"), ("malloc", "weights"), ("pool_malloc", None), ("managed_alloc", "weights")),
        *(("host_alloc", "activations"), ("malloc", None), ("host_alloc", "workspace")),
        *(("pool_malloc", None), ("pool_malloc", "data"), ("pool_host_alloc", "workspace")),
    ]
    graph = next(call for call in run.kept if call.name == "graph_end")
    assert [(call.name, call.captured) for call in graph.arguments] == [("launch", True)] * 2
    assert graph.stream is not None and graph.stream.number == run.kept[0].makes
    assert not any(call.captured for call in (*run.kept, *run.calls))
    made = [call.makes for call in (*run.kept, *run.calls) if call.makes is not None]
    ended = [call.ends for call in run.calls if call.ends is not None]
    assert len(set(made)) == len(made) and set(ended) <= set(made)
    assert {call.name for call in run.calls if call.ends is not None} == {
        *("stream_destroy", "host_free", "pool_host_free", "pool_free", "free")
    }


def test_work_is_marked_on_its_stream_before_and_after_it(run):
    marks = [stream for name, stream in run.backend.asked if name == "mark"][1:]
    on_default = [call.stream is None for call in run.calls if call.is_work]
    assert [stream is None for stream in marks[::2]] == on_default
    assert marks[::2] == marks[1::2]


def test_times_of_the_device_are_read_once_it_has_finished():
    """CUDA refuses the time of an event that is still to come."""

    class Busy(Everything):
        busy = False

        def mark(self, stream=None):
            self.busy = True
            return super().mark(stream)

        def synchronize(self):
            self.busy = False
            super().synchronize()

        def seconds_between(self, first, last):
            assert not self.busy
            return super().seconds_between(first, last)

    tracing = Tracer(backend := Busy())
    on = ObservedBackend(backend, tracing)
    buffer, array = on.malloc(8), on.host_alloc((2,))
    tracing.begin()
    on.copy_in(buffer, array)
    (copy,) = tracing.events()
    assert (copy.device_start, copy.device_end) == (1.0, 2.0)


def test_nothing_is_an_event_before_the_beginning():
    tracing = Tracer(backend := Everything())
    on = ObservedBackend(backend, tracing)
    held = before(on)
    asked = len(backend.asked)
    steps(on, held)
    assert tracing.events() == []
    assert ("mark", None) not in backend.asked[asked:]
    close(on, held)


def test_a_processor_works_while_the_host_does(ticking):
    backend = Everything()
    backend.asynchronous = False
    tracing = Tracer(backend)
    on = ObservedBackend(backend, tracing)
    buffer, array = on.malloc(8), on.host_alloc((2,))
    tracing.begin()
    on.copy_in(buffer, array)
    on.synchronize()
    copy, wait = tracing.events()
    assert (copy.start, copy.end, copy.device_start, copy.device_end) == (1.0, 2.0, 1.0, 2.0)
    assert (wait.start, wait.end, wait.device_start, wait.device_end) == (3.0, 4.0, None, None)


def test_the_only_block_is_allocated_and_freed_alone():
    tracing = Tracer(backend := Everything())
    on = ObservedBackend(backend, tracing)
    tracing.begin()
    first = on.malloc(8)
    second = on.malloc(4)
    on.free(first)
    on.free(second)
    assert [event.signature.context for event in tracing.events()] == ["alone", "", "", "alone"]


def test_streams_that_are_alive_have_different_lanes():
    tracing = Tracer(backend := Everything())
    on = ObservedBackend(backend, tracing)
    a, b = on.stream_create(), on.stream_create()
    on.stream_destroy(a)
    c, d = on.stream_create(), on.stream_create()
    tracing.begin()
    for stream in (c, b, d):
        on.stream_synchronize(stream)
    assert [event.stream for event in tracing.events()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "rows", "batch", "steps"),
    [("reference", 10, 4, 2), ("reference", 3, 4, 2), ("graph", 10, 4, 3), ("graph", 4, 4, 2)],
)
def test_a_trace_is_of_two_steps_or_of_whole_epochs(name, rows, batch, steps):
    job = replace(
        JOB, strategy=groups.load("strategy", name), X=JOB.X[:rows], Y=JOB.Y[:rows], batch_size=batch
    )
    found = tracer.trace(job, Everything())
    assert found.steps == steps
    launches = [
        event.signature for event in found.events if event.signature.call in ("matmul", "graph_launch")
    ]
    if name == "reference":
        assert launches[0].size[0] == min(rows, batch)
        assert len(launches) == 5 * steps  # of a network with one hidden layer
    else:
        assert len(launches) == steps // -(-rows // batch)
    assert found.held


def test_what_the_first_steps_make_is_held_when_the_trace_begins():
    found = tracer.trace(replace(JOB, strategy=groups.load("strategy", "combined")), Everything())
    assert "stream_create" not in {event.call.name for event in found.events}
    assert [call.name for call in found.held].count("stream_create") == 3


def test_a_ledger_begins_at_nothing():
    assert set(Ledger().totals().values()) == {0}


def test_a_call_is_about_nothing_unless_it_is_said():
    assert tuple(Call("x")) == ("x", (), None, None, None, None, False, None, None, "")
    assert tuple(Ref(3)) == (3, 0, 0, ())
    assert tuple(Signature("x")) == ("x", (), None, False, "")
    one = Resource(Ref(3, 0, 8), None, Call("malloc", call_site="here"))
    assert (one.address, one.purpose, one.explicit_purpose, one.nbytes, one.call_site) == (
        0,
        None,
        True,
        8,
        "here",
    )
    event = Event(Signature("x"), 0.0, 1.0, None, None, None, 0, 0, Call("x"))
    assert Trace(1, [event]).held == ()


def test_a_backends_traits_are_those_of_the_inner_one():
    names = ("fused", "pretransposed", "precision", "asynchronous", "is_processor", "prefetches_out")
    for value in (True, False, "bf16"):
        inner = Everything()
        for name in names:
            setattr(inner, name, value)
        assert [getattr(ObservedBackend(inner), name) for name in names] == [value] * len(names)
