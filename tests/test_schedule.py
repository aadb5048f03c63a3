"""Events in a schedule of calls: who waits for whom, and that nobody else does."""

import pytest

from snn.profiling.call_costs import CallCost, simulate
from snn.profiling.observed import Call, Ref
from snn.profiling.tracer import Event, Signature

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


def seconds(*calls):
    """Of calls with a stream and, of an event's, the event's number."""
    events = [
        Event(Signature(call), 0, 0, stream, None, None, 0, 0, Call(call, tuple(map(Ref, event))))
        for call, stream, *event in calls
    ]
    return 1e6 * simulate(events, COSTS)


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
