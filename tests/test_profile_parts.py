"""A profile from passes of our own: how calls of a trace become those of a run, and where kernels go."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from test_measure import JOB

from snn.profiling import profile as module
from snn.profiling.call_costs import CallCost
from snn.profiling.observed import Call
from snn.profiling.profile import TimeBreakdown
from snn.profiling.tracer import Event, Signature, Trace

COPY, KERNEL, GRAPH, MALLOC = map(Signature, ("copy_in", "matmul", "graph_launch", "malloc"))


def event(signature, first=None, last=None):
    return Event(signature, 0.0, 1.0, 0, first, last, 0, 0, Call(signature.call, call_site="here"))


TRACED = Trace(
    2,
    [
        event(COPY, 0.0, 100.0),
        event(KERNEL, 1.0, 1.5),
        event(KERNEL, 2.0, 2.25),
        event(GRAPH, 3.0, 4.0),
        event(KERNEL),
        event(MALLOC),
    ],
)
COSTS = {COPY: CallCost(3e6), KERNEL: CallCost(1e6), GRAPH: CallCost(2e6), MALLOC: CallCost(5e6)}


@pytest.fixture
def profiled(monkeypatch):
    """A profile of three epochs of three steps, 4.5 times the trace, on a device with these parts."""

    def profile(parts, asynchronous=True, given=()):
        asked = []
        monkeypatch.setattr(module, "trace", lambda *of: TRACED)
        monkeypatch.setattr(module, "call_costs", lambda backend, traced, s: asked.append(s) or COSTS)
        monkeypatch.setattr(
            module, "break_down", lambda job, backend, s: asked.append(s) or TimeBreakdown(1, parts)
        )
        job = replace(JOB, X=np.zeros((10, 4), np.float32), batch_size=4, epochs=3)
        found = module.profile(job, SimpleNamespace(asynchronous=asynchronous), *given)
        return found, asked

    return profile


def test_the_calls_of_a_run_are_those_of_its_steps(profiled):
    found, asked = profiled({"waiting": 100.0, "launch": 1.0})
    assert found.calls == {COPY: 4, KERNEL: 14, GRAPH: 4, MALLOC: 4}  # 4.5 and 13.5, rounded to even
    assert found.predicted_seconds == pytest.approx(4.5 * (3 + 3 * 1 + 2 + 5))
    assert found.call_costs is COSTS and found.trace is TRACED
    assert asked == [0.0, 0.0]


def test_no_pass_takes_much_longer_than_it_may(profiled):
    for most, of_costs in ((0.1, 0.1), (9.0, 0.25)):
        assert profiled({"waiting": 1.0}, True, (most,))[1] == [of_costs, most]


@pytest.mark.parametrize(("asynchronous", "hidden_in"), [(True, "waiting"), (False, "launch")])
def test_kernels_are_taken_out_of_what_hides_them(profiled, asynchronous, hidden_in):
    """The device computed half a second, a quarter and one, 4.5 times; copies are no kernels."""
    parts = {"waiting": 50.0, "launch": 70.0, "allocation": 1.0}
    found, _ = profiled(parts, asynchronous)
    kernels = 4.5 * (0.5 + 0.25 + 1.0)
    expected = parts | {"kernels": kernels, hidden_in: parts[hidden_in] - kernels}
    assert found.time_breakdown == TimeBreakdown(1, expected)
    short, _ = profiled({"waiting": 2.0, "launch": 3.0}, asynchronous)
    hidden = {"waiting": 2.0, "launch": 3.0}[hidden_in]
    assert short.time_breakdown.seconds["kernels"] == hidden
    assert short.time_breakdown.seconds[hidden_in] == 0.0


def test_a_profile_is_recorded_as_plain_values(profiled):
    plain = profiled({"waiting": 100.0, "launch": 1.0})[0].plain()
    assert plain["attribution"]["epochs"] == 1 and plain["attribution"]["seconds"]["launch"] == 1.0
    assert plain["trace"] == TRACED.plain() and plain["predicted_calls_seconds"] == 4.5 * 13
    assert plain["calls"][1] == {
        **{"call": "matmul", "size": (), "page_locked": None, "streamed": False, "context": ""},
        **{"count": 14, "host_us": 1e6, "device_us": 0.0, "latency_us": 0.0},
    }
