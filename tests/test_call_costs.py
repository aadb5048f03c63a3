"""What instrumented passes see of a scenario with a call of each kind; its calls made again; their costs."""

from collections import defaultdict
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from deferred import DeferredBackend
from every_source import EverySource
from test_measure import JOB

from snn.backends.base import Backend
from snn.config import groups
from snn.profiling import call_costs as costing
from snn.profiling import observed, tracer
from snn.profiling.call_costs import CallCost, Replay, call_costs, simulate
from snn.profiling.observed import Call, ObservedBackend, Observer, Ref
from snn.profiling.tracer import Event, Signature, Trace, Tracer


class Everything(DeferredBackend, EverySource):
    """Has whatever can be asked for, numbers its marks, and keeps what was asked of streams and copied in."""

    asynchronous = True

    def __init__(self):
        super().__init__()
        self.asked, self.copied, self.marks = [], [], 0

    def mark(self, stream=None):
        self.marks += 1
        self.asked.append(("mark", stream))
        return self.marks

    def seconds_between(self, first, last):
        return float(last - first)

    def synchronize(self):
        self.asked.append(("synchronize", None))
        super().synchronize()

    def stream_synchronize(self, stream):
        self.asked.append(("stream_synchronize", stream))
        super().stream_synchronize(stream)

    def host_alloc(self, shape, purpose="workspace", page_locked=True):
        array = super().host_alloc(shape, purpose, page_locked)
        array.fill(np.nan)
        return array

    def copy_in(self, buffer, array, stream=None):
        self.copied.append(array.copy())
        super().copy_in(buffer, array, stream)


class Log(Observer):
    """The calls in order."""

    def __init__(self):
        self.calls = []

    def after(self, call, live, started, ended):
        self.calls.append(call)


def before(on):
    """What is held when a scenario begins."""
    held = SimpleNamespace(stream=on.stream_create(), pool=on.pool_create())
    held.driver = on.pool_create(held.stream)
    held.data = on.host_alloc((4, 4), "data")
    held.block = on.malloc(64, "weights")
    held.of_pool = on.pool_malloc(held.pool, 32)
    held.managed = on.managed_alloc((2, 4), "weights")
    held.event = on.event_create()
    on.copy_in(held.block, held.data)
    on.launch("relu", (held.block,), (16,))
    on.graph_begin(held.stream)
    on.launch("relu", (held.block,), (16,), held.stream)
    on.launch("relu", (held.block,), (8,), held.stream)
    held.graph = on.graph_end(held.stream)
    held.later = on.event_create()
    return held


def steps(on, held):
    """Calls of every kind."""
    on.copy_in(held.block, held.data, held.stream)
    on.stream_synchronize(held.stream)
    other = on.stream_create()
    array = on.host_alloc((2, 4), "activations", False)
    array.fill(3.0)
    block = on.malloc(32)
    on.copy_in(on.part(held.block, 32, 32), array, other)
    on.event_record(held.event, other)
    on.event_wait(held.event, held.stream)
    on.event_synchronize(held.event)
    on.launch("relu", (on.part(held.block, 16, 16),), (4,), other)
    on.copy_out(held.data[1:3], block)
    back = on.host_alloc((4,))
    on.copy_out(back, on.part(block, 0, 16))
    on.copy_in(on.part(block, 16, 16), back)
    on.host_free(back)
    on.graph_launch(held.graph, held.stream)
    on.stream_synchronize(held.stream)
    on.stream_synchronize(other)
    on.stream_destroy(other)
    again = on.stream_create()
    on.launch("relu", (block,), (8,), again)
    on.stream_synchronize(again)
    of_pool, of_driver = on.pool_malloc(held.pool, 16), on.pool_malloc(held.driver, 48, "data")
    locked = on.pool_host_alloc(held.pool, (4,))
    locked.fill(2.0)
    on.copy_in(of_pool, locked)
    on.pool_host_free(held.pool, locked)
    on.pool_free(held.driver, of_driver)
    on.pool_free(held.pool, of_pool)
    on.advise(held.managed, "read_mostly")
    on.prefetch_in(held.managed)
    on.prefetch_out(held.managed[1:])
    on.launch("relu", (on.shared_buffer(held.managed),), (8,))
    on.synchronize()
    on.stream_destroy(again)
    on.free(block)
    on.host_free(array)


def clock_of(monkeypatch, *modules):
    """A clock of these modules that advances by one second whenever it is read."""
    clock = SimpleNamespace(now=0.0)

    def perf_counter():
        clock.now += 1
        return clock.now

    for module in modules:
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=perf_counter))
    return clock


def tracer_on(backend, *observers):
    tracing = Tracer(backend)
    return tracing, ObservedBackend(backend, tracing, *observers)


def traced():
    """A scenario that was traced: the backend, what is held, the tracer, and the calls before and after."""
    backend, log = Everything(), Log()
    tracing, on = tracer_on(backend, log)
    held = before(on)
    kept = [resource.made_by for resource in on.live.resources.values()]
    count, asked = len(log.calls), len(backend.asked)
    tracing.begin()
    begun = backend.asked[asked:]
    steps(on, held)
    seen = {"kept": kept, "calls": log.calls[count:], "begun": begun}
    return SimpleNamespace(on=on, backend=backend, tracing=tracing, **seen)


@pytest.fixture
def ticking(monkeypatch):
    return clock_of(monkeypatch, observed, tracer, costing)


@pytest.fixture
def run():
    return traced()


def test_a_trace_begins_with_the_device_idle_and_both_clocks_at_0(run):
    begun = [name for name, _ in run.begun if name != "stream_synchronize"]
    assert begun == ["synchronize", "mark", "synchronize"]
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
    shown = ("stream", "device_start", "device_end", "device_bytes", "page_locked_bytes")
    events = run.tracing.events()
    found = [(*event.signature, *(getattr(event, name) for name in shown)) for event in events]
    assert found == EVENTS
    assert [event.call for event in events] == run.calls


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

    tracing, on = tracer_on(Busy())
    buffer, array = on.malloc(8), on.host_alloc((2,))
    tracing.begin()
    on.copy_in(buffer, array)
    (copy,) = tracing.events()
    assert (copy.device_start, copy.device_end) == (1.0, 2.0)


def test_a_processor_works_while_the_host_does(ticking):
    backend = Everything()
    backend.asynchronous = False
    tracing, on = tracer_on(backend)
    buffer, array = on.malloc(8), on.host_alloc((2,))
    tracing.begin()
    on.copy_in(buffer, array)
    on.synchronize()
    copy, wait = tracing.events()
    assert (copy.start, copy.end, copy.device_start, copy.device_end) == (1.0, 2.0, 1.0, 2.0)
    assert (wait.start, wait.end, wait.device_start, wait.device_end) == (3.0, 4.0, None, None)


def test_the_only_block_is_alone_and_streams_that_are_alive_have_different_lanes():
    tracing, on = tracer_on(Everything())
    a, b = on.stream_create(), on.stream_create()
    on.stream_destroy(a)
    c, d = on.stream_create(), on.stream_create()
    tracing.begin()
    first, second = on.malloc(8), on.malloc(4)
    on.free(first)
    on.free(second)
    for stream in (c, b, d):
        on.stream_synchronize(stream)
    events = tracing.events()
    assert [event.signature.context for event in events[:4]] == ["alone", "", "", "alone"]
    assert [event.stream for event in events[4:]] == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "rows", "batch", "steps"),
    [("reference", 10, 4, 2), ("reference", 3, 4, 2), ("graph", 10, 4, 3), ("graph", 4, 4, 2)],
)
def test_a_trace_is_of_two_steps_or_of_whole_epochs(name, rows, batch, steps):
    short = {"X": JOB.X[:rows], "Y": JOB.Y[:rows], "batch_size": batch}
    job = replace(JOB, strategy=groups.load("strategy", name), **short)
    found = tracer.trace(job, Everything())
    assert found.steps == steps
    signatures = [event.signature for event in found.events]
    launches = [one for one in signatures if one.call in ("matmul", "graph_launch")]
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


def test_a_backends_traits_are_those_of_the_inner_one():
    traits = {name for name, value in vars(Backend).items() if not callable(value) and name[0] != "_"}
    names = traits - {"pageable_fallbacks"}  # of the inner one
    for value in (True, False, "bf16"):
        inner = Everything()
        for name in names:
            setattr(inner, name, value)
        assert [getattr(ObservedBackend(inner), name) for name in names] == [value] * len(names)


def normal(calls, known):
    """Calls with resources numbered by their first use after those that are known."""
    numbers = {number: i for i, number in enumerate(known)}

    def plain(value):
        if isinstance(value, Ref):
            return ("ref", numbers.setdefault(value.number, len(numbers)), *value[1:])
        if isinstance(value, tuple) and not isinstance(value, Call):
            return tuple(map(plain, value))
        return value

    rows = []
    for call in calls:
        if call.makes is not None:
            numbers.setdefault(call.makes, len(numbers))
        rows.append((call.name, plain(call.arguments), plain(call.stream), call.nbytes, call.page_locked))
    return rows


def replayed(run, backend, times=1, **lists):
    """The calls of each replay of a scenario, normal, as those of the scenario with its waits."""
    log = Log()
    on = ObservedBackend(backend, log)
    found = []
    with ExitStack() as stack:
        again = Replay(on, Trace(2, run.tracing.events(), run.kept), stack)
        setup = log.calls[:]
        for _ in range(times):
            count, known = len(log.calls), list(on.live.resources)
            again.run(**lists)
            found.append(normal(log.calls[count:], known))
            assert list(on.live.resources) == known
    on.live.check_nothing_held()
    return setup, found


def with_waits(calls):
    for call in calls:
        yield call
        if call.is_work and call.stream is not None:
            yield Call("stream_synchronize", stream=call.stream)
        elif call.name in ("launch", "prefetch_in", "prefetch_out"):
            yield Call("synchronize")


def test_a_replay_makes_the_same_calls_each_waited_for(run):
    expected = normal(with_waits(run.calls), [call.makes for call in run.kept])
    _, found = replayed(run, Everything(), times=2)
    assert found == [expected, expected]


def test_a_replay_sets_up_what_is_held_zeroed_and_the_graph_after_a_rehearsal(run):
    backend = Everything()
    setup, _ = replayed(run, backend, times=0)
    assert [call.name for call in setup] == [
        *("stream_create", "pool_create", "pool_create", "host_alloc"),
        *("malloc", "host_alloc", "copy_in", "host_free"),
        *("pool_malloc", "host_alloc", "copy_in", "host_free"),
        *("managed_alloc", "event_create"),
        *("stream_create", "launch", "launch", "graph_begin", "launch", "launch", "graph_end"),
        *("stream_synchronize", "stream_destroy", "event_create"),
    ]
    assert [array.tolist() for array in backend.copied] == [[0.0] * 16, [0.0] * 8]
    assert [call.page_locked for call in setup if call.name == "host_alloc"] == [True, False, False]


def test_what_training_would_have_written_is_there_before_it_is_copied(run):
    """In every replay anew; what was copied out stays."""
    backend = Everything()
    replayed(run, backend, times=2)
    first, second = backend.copied[2 : 2 + 4], backend.copied[2 + 4 :]
    for copied in (first, second):
        _, array, back, locked = copied
        assert (array == 1).all() and array.shape == (2, 4)
        assert (locked == 1).all() and locked.shape == (4,)
        assert np.isnan(back).all()
    assert (first[0] == 1).all()


def test_managed_memory_is_touched_before_what_moves_it(run, monkeypatch):
    touched = []
    monkeypatch.setattr(Replay, "_touch", lambda self, number: touched.append(number))
    tracing, on = tracer_on(Everything())
    A, B, C = (on.managed_alloc((2, 2)) for _ in range(3))
    kept = [resource.made_by for resource in on.live.resources.values()]
    a, b, _ = on.live.resources
    tracing.begin()
    on.prefetch_in(A)
    for _ in range(2):
        on.launch("matmul", tuple(map(on.shared_buffer, (A, B, C))), (2, 2, 2))
    D = on.managed_alloc((2, 2))
    d = list(on.live.resources)[-1]
    on.launch("relu", (on.shared_buffer(D),), (4,))
    on.prefetch_in(D)
    on.managed_free(D)
    with ExitStack() as stack:
        again = Replay(ObservedBackend(Everything()), Trace(1, tracing.events(), kept), stack)
        again.run()
        assert touched == [a, b, a, b, d, d]
        again.run()
    assert touched == [a, b, a, b, d, d] * 2


def test_a_replay_times_the_call_until_it_is_done_and_the_device(run, ticking):
    """Each look at the clock is a second, and so is each mark."""
    backend = Everything()
    host, total, device = (defaultdict(list) for _ in range(3))
    with ExitStack() as stack:
        again = Replay(backend, Trace(2, run.tracing.events(), run.kept), stack)
        again.run()
        assert not host and not total and not device
        marks = backend.marks
        again.run(host, total)
        assert backend.marks == marks
        again.run(device=device)
    counts = defaultdict(int)
    for event in run.tracing.events():
        counts[event.signature] += 1
    assert host == {signature: [1.0] * count for signature, count in counts.items()}
    assert total == {signature: [2.0] * count for signature, count in counts.items()}
    on_default = {"relu", "prefetch_in", "prefetch_out"}
    timed = {one for one in counts if one.streamed or one.call in on_default}
    assert device == {one: [1.0] * counts[one] for one in timed}


# ---- costs, by a clock of our own, and a schedule of them


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


def trace_of(*calls):
    """A trace of calls on a stream, memory and a host array."""
    tracing, on = tracer_on(Clocked())
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
    monkeypatch.setattr(costing, "time", SimpleNamespace(perf_counter=backend.perf_counter))
    monkeypatch.setattr(costing, "_for_seconds", lambda seconds: [None])
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
    found = costs(trace_of(*calls), monkeypatch)
    assert found == {key: CallCost(*(SECOND * one for one in cost)) for key, cost in expected.items()}


def test_a_latency_is_not_negative_and_a_processor_has_none(monkeypatch):
    trace = trace_of(COPY_ON)
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

    monkeypatch.setattr(costing, "_for_seconds", lambda one: asked.append(one) or [None])
    monkeypatch.setattr(costing.Replay, "run", run)
    backend = Clocked()
    backend.asynchronous = asynchronous
    with np.errstate(all="raise"):
        found = call_costs(backend, trace_of(("wait",)), *given)
    assert found == {}
    assert asked == seconds
    assert runs == [(False, False, False), (True, True, False), (False, False, True)][: len(seconds)]


def test_costs_are_medians_and_a_trace_without_events_has_none():
    assert costing._median([1.0, 5.0, 2.0]) == 2 * SECOND
    assert call_costs(Clocked(), Trace(1, [])) == {}


def test_something_is_done_once_and_until_the_seconds_have_passed(monkeypatch):
    clock = iter([10.0, 10.5, 11.0, 11.5, 12.0])
    monkeypatch.setattr(costing, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert len(list(costing._for_seconds(1.0))) == 2
    assert len(list(costing._for_seconds(0.25))) == 1


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
