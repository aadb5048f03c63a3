"""The calls of a trace, made again and timed one by one."""

from collections import defaultdict
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pytest
from scenario import Everything, Log, clock_of, traced

from snn.profiling import call_costs, observed, tracer
from snn.profiling.call_costs import Replay
from snn.profiling.observed import Call, ObservedBackend, Ref
from snn.profiling.tracer import Trace, Tracer


@pytest.fixture
def ticking(monkeypatch):
    return clock_of(monkeypatch, observed, tracer, call_costs)


@pytest.fixture
def run():
    with traced() as scenario:
        yield scenario


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
    backend = Everything()
    on = ObservedBackend(backend, tracing := Tracer(backend))
    A, B, C = (on.managed_alloc((2, 2)) for _ in range(3))
    kept = [resource.made_by for resource in on.live.resources.values()]
    a, b, _ = on.live.resources
    tracing.begin()
    on.prefetch_in(A)
    for _ in range(2):
        on.launch("matmul", tuple(map(on.managed_buffer, (A, B, C))), (2, 2, 2))
    D = on.managed_alloc((2, 2))
    d = list(on.live.resources)[-1]
    on.launch("relu", (on.managed_buffer(D),), (4,))
    on.prefetch_in(D)
    on.managed_free(D)
    with ExitStack() as stack:
        again = Replay(ObservedBackend(Everything()), Trace(1, tracing.events(), kept), stack)
        again.run()
        assert touched == [a, b, a, b, d, d]
        again.run()
    assert touched == [a, b, a, b, d, d] * 2


def test_touched_memory_is_numbers(run):
    backend = Everything()
    on = ObservedBackend(backend)
    held = on.managed_alloc((2, 2))
    call = next(iter(on.live.resources.values())).made_by
    again = Replay(on, Trace(1, [], [call]), ExitStack())
    number = call.makes
    assert np.isnan(again._handles[number]).all()
    again._touch(number)
    assert (again._handles[number] == 1).all()
    again._handles[number].fill(2.0)
    again._touch(number)
    assert (again._handles[number] == 2).all()
    reads = []
    again._handles[number] = SimpleNamespace(max=lambda: reads.append(number))
    again._touch(number)
    assert reads == [number] and held.shape == (2, 2)


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
