"""Traces, call costs and predictions: every call is there, costs what it costs, and adds up."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from conftest import STRATEGIES
from deferred import DeferredBackend
from test_measure import JOB
from test_time_breakdown import NETWORK, SlowBackend

from snn import perfetto
from snn.backends.cpu.backend import CpuBackend
from snn.backends.ops import OPS
from snn.config import groups
from snn.measurement.runs import count
from snn.profiling.call_costs import CallCost, call_costs, simulate
from snn.profiling.observed import Call, ObservedBackend
from snn.profiling.profile import profile
from snn.profiling.tracer import COLUMNS, Event, Signature, Trace, trace
from snn.records import store
from snn.strategies.common import factory

RANDOM = np.random.default_rng(9)
WIDE = replace(JOB, network=NETWORK, X=RANDOM.random((40, 4), dtype=np.float32), batch_size=10, epochs=3)
WIDE = replace(WIDE, Y=RANDOM.random((40, 1), dtype=np.float32))


class Poisoned(CpuBackend):
    """Device memory is not a number until it is written; a whole training wants a workspace of 0."""

    def malloc(self, nbytes, kind=None):
        buffer = super().malloc(nbytes, kind)
        buffer.words.fill(np.nan)
        return buffer

    def launch(self, op, buffers, numbers, stream=None):
        if op == "train":
            assert not np.delete(buffers[-1].words, [2, 3]).any()  # the steps trained
        super().launch(op, buffers, numbers, stream)


def test_a_training_in_one_launch_is_timed_with_a_workspace_of_0():
    found = profile(replace(WIDE, strategy=groups.load("strategy", "persistent")), Poisoned())
    assert any(signature.call == "train" for signature in found.call_costs)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_trace_and_its_costs_hold_every_call_of_a_step(name, backend):
    job = replace(WIDE, strategy=groups.load("strategy", name))
    on_host = factory.class_of(job.strategy).on_host
    observed = ObservedBackend(backend)
    found = profile(job, observed)
    observed.live.check_nothing_held()
    assert found.trace.steps == (4 if factory.class_of(job.strategy).by_epoch else 2)
    ledger, _ = count(job, backend)
    steps = 3 * 4

    def calls(*names):
        return sum(n for signature, n in found.calls.items() if signature.call in names)

    waits = "synchronize", "stream_synchronize", "event_synchronize"
    for names, total in (
        (() if factory.class_of(job.strategy).at_once else tuple(OPS), "launches"),
        (("copy_in",), "h2d_copies"),
        (("copy_out",), "d2h_copies"),
        (waits, "synchronizations"),
        (("malloc",), "mallocs"),
        (("pool_malloc",), "pool_allocs"),
        (("pool_host_alloc",), "pool_host_allocs"),
        (("managed_alloc",), "managed_allocs"),
        (("prefetch_in", "prefetch_out"), "prefetches"),
        (("advise",), "advices"),
    ):
        assert calls(*names) <= ledger[total] <= calls(*names) + 40  # those of setup are not of a step
    assert calls("malloc") % steps == 0
    assert set(found.call_costs) >= set(found.calls)
    assert all(one.host_us > 0 for one in found.call_costs.values())
    assert bool(found.calls) != on_host
    assert (found.predicted_seconds > 0) != on_host
    for event in found.trace.events:
        assert event.call.call_site.startswith("snn/strategies/")
        assert event.start <= event.end
        if event.signature.call in ("copy_in", "copy_out", *OPS):
            assert event.device_start <= event.device_end
    plain = json.loads(json.dumps(found.plain()))
    assert plain["trace"]["columns"] == list(COLUMNS)
    assert all(len(row) == len(COLUMNS) for row in plain["trace"]["events"])
    assert (plain["attribution"]["seconds"]["kernels"] > 0) != on_host


def test_a_trace_is_recorded_in_microseconds_with_each_call_site_once():
    calls = [Call("copy_in", call_site=site) for site in ("a", "b", "a")]
    events = [
        Event(Signature("copy_in", (4,)), 1.0, 2.5, 0, i + 0.25, None, 8, 16, call)
        for i, call in enumerate(calls)
    ]
    plain = Trace(1, events).plain()
    assert plain["sites"] == ["a", "b"]
    rows = [dict(zip(plain["columns"], row, strict=True)) for row in plain["events"]]
    assert [row["site"] for row in rows] == [0, 1, 0]
    assert [row["device_start_us"] for row in rows] == [0.25e6, 1.25e6, 2.25e6]
    assert {(row["start_us"], row["end_us"], row["device_end_us"]) for row in rows} == {(1e6, 2.5e6, None)}
    assert {(row["device_bytes"], row["page_locked_bytes"]) for row in rows} == {(8, 16)}


def test_the_bytes_of_a_trace_are_those_held():
    found = trace(replace(WIDE, strategy=groups.load("strategy", "reference")), CpuBackend())
    held = 0
    for event in found.events:
        if event.signature.call in ("malloc", "free"):
            held += event.signature.size[0] * (1 if event.signature.call == "malloc" else -1)
        assert event.device_bytes == held
    assert held == 0
    alone = [event for event in found.events if event.signature.context == "alone"]
    assert len(alone) == 2 * sum(event.signature.call == "matmul" for event in found.events)


def test_a_graph_is_captured_again_and_its_launch_timed():
    observed = ObservedBackend(DeferredBackend())
    found = profile(replace(WIDE, strategy=groups.load("strategy", "graph")), observed)
    observed.live.check_nothing_held()
    (launch,) = found.calls
    assert launch == Signature("graph_launch", (4 * 10,), None, True)  # 10 launches in each of 4 steps
    assert (found.calls[launch], found.trace.steps) == (3, 4)
    assert found.call_costs[launch].host_us > 0


def test_costs_are_of_the_call_itself(monkeypatch):
    backend = ObservedBackend(SlowBackend("malloc", monkeypatch))
    traced = trace(replace(WIDE, strategy=groups.load("strategy", "pinned")), backend)
    found = call_costs(backend, traced)
    backend.live.check_nothing_held()
    assert set(found) == {event.signature for event in traced.events}
    for signature, cost in found.items():
        if signature.call == "malloc":
            assert 5000 <= cost.host_us < 5100
        elif signature.call in ("copy_in", "copy_out", "matmul"):
            assert 1000 <= cost.host_us < 1100
        else:
            assert cost.host_us < 1100


def event(call, stream=0, **details):
    return Event(Signature(call, **details), 0, 0, stream, None, None, 0, 0, Call(call))


COPY, KERNEL, WAIT = Signature("copy_in"), Signature("matmul"), Signature("stream_synchronize")
COSTS = {
    COPY: CallCost(1, 10, 2),
    KERNEL: CallCost(1, 20, 2),
    WAIT: CallCost(1),
    Signature("synchronize"): CallCost(1),
    Signature("malloc"): CallCost(50),
}


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
            [
                *(("copy_in", 1), ("matmul", 1), ("copy_in", 2), ("matmul", 2)),
                *(("stream_synchronize", 1), ("stream_synchronize", 2)),
            ],
            1 + 2 + 10 + 20 + 20 + 1,
        ),
        ([("copy_in", 1), ("malloc", 0), ("stream_synchronize", 1)], 1 + 50 + 1),  # long done
        ([("copy_in", 1), ("copy_in", 2), ("synchronize", 0)], 1 + 2 + 10 + 10 + 1),
    ],
)
def test_a_simulation_schedules_call_costs(calls, microseconds):
    assert simulate([event(*call) for call in calls], COSTS) == pytest.approx(1e-6 * microseconds)


@pytest.mark.filterwarnings("error")
def test_a_training_that_diverges_has_a_profile_and_no_warning():
    found = profile(replace(JOB, learning_rate=1e30), CpuBackend())
    assert found.predicted_seconds > 0 and sum(found.time_breakdown.seconds.values()) > 0


@pytest.mark.parametrize("slowest", ["malloc", "launch", "copy_out"])
def test_calls_that_take_milliseconds_are_predicted(slowest, monkeypatch):
    slow = SlowBackend(slowest, monkeypatch)
    job = replace(WIDE, epochs=1, strategy=groups.load("strategy", "reference"))
    found = profile(job, slow)
    calls = sum(s for part, s in found.time_breakdown.seconds.items() if part != "host_arithmetic")
    assert found.predicted_seconds == pytest.approx(calls, rel=0.05)


def test_a_profile_is_quick():
    started = time.process_time()
    profile(replace(WIDE, strategy=groups.load("strategy", "streams")), CpuBackend())
    assert time.process_time() - started < 3


def test_a_perfetto_file_has_a_process_a_record_and_a_thread_a_stream(tmp_path, capsys):
    from records_of import record
    from test_paper_tables import SWEEPS

    cells = SWEEPS["dataset_size"].cells[:2]
    paths = []
    for i, one in enumerate(cells):
        paths.append(tmp_path / f"{i}.json")
        store.write(paths[-1], record(one, [1.0]))
    output = tmp_path / "out" / "trace.json"
    assert perfetto.main([*map(str, paths), str(output)]) == 0
    events = json.loads(output.read_text())["traceEvents"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["ph"] == "M"}
    assert names >= {(1, "reference small 256"), (2, "streams small 256"), (1, "host"), (1, "default stream")}
    spans = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert [(e["tid"], e["ts"], e["dur"]) for e in spans] == [(1000, 0.0, 2.0), (0, 1.0, 1.0)]
    assert {e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"] == "device_bytes"} == {4}
    assert perfetto.main([]) == 2
    assert perfetto.main([str(tmp_path / "none.json"), str(output)]) == 2
    assert "none.json" in capsys.readouterr().err
