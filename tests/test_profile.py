"""Traces, time breakdowns and predictions hold every call and add up; NVTX ranges are around every call."""

import itertools
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from conftest import FOR_SEVERAL, STRATEGIES
from deferred import DeferredBackend
from every_source import EverySource
from failing_backend import FailingBackend
from real_records import quick
from test_measure import JOB

from snn import cli
from snn.backends.cpu.backend import CpuBackend
from snn.backends.ops import OPS
from snn.config import groups
from snn.config.compose import composed
from snn.errors import ConfigError, OutOfMemory
from snn.measurement import cell, passes
from snn.measurement.runs import count
from snn.models.network import mlp
from snn.models.training_step import training_step
from snn.profiling import call_costs as costs
from snn.profiling import nvtx, tracer
from snn.profiling import profile as module
from snn.profiling.call_costs import CallCost
from snn.profiling.calls import ENDED_BY, METHODS
from snn.profiling.observed import Call, ObservedBackend
from snn.profiling.profile import TimingBackend, break_down, profile
from snn.profiling.tracer import COLUMNS, Event, Signature, Trace
from snn.records import store
from snn.strategies import factory
from snn.strategies.device_driven import DeviceDriven
from snn.strategies.host_driven import HostDriven

NETWORK = mlp((4, 300, 1), init="he_uniform")
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
    assert any(call["call"] == "train" for call in found["calls"])


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in FOR_SEVERAL])
def test_a_trace_and_its_costs_hold_every_call_of_a_step(name, backend):
    job = replace(WIDE, strategy=groups.load("strategy", name))
    on_host = factory.class_of(job.strategy).on_host
    observed = ObservedBackend(backend)
    found = json.loads(json.dumps(profile(job, observed)))
    observed.live.check_nothing_held()
    assert found["trace"]["steps"] == (4 if factory.class_of(job.strategy).by_epoch else 2)
    ledger, _ = count(job, backend)
    steps = 3 * 4

    def calls(*names):
        return sum(one["count"] for one in found["calls"] if one["call"] in names)

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
    assert all(one["host_us"] > 0 for one in found["calls"])
    assert bool(found["calls"]) != on_host
    assert (found["predicted_calls_seconds"] > 0) != on_host
    assert found["trace"]["columns"] == list(COLUMNS)
    for row in found["trace"]["events"]:
        event = dict(zip(COLUMNS, row, strict=True))
        assert found["trace"]["sites"][event["site"]].startswith("snn/strategies/")
        assert event["start_us"] <= event["end_us"]
        if event["call"] in ("copy_in", "copy_out", *OPS):
            assert event["device_start_us"] <= event["device_end_us"]
    parts = found["attribution"]["seconds"]
    assert (parts["kernels"] > 0) != on_host and all(seconds >= 0 for seconds in parts.values())
    assert not on_host or {part for part, s in parts.items() if s} <= {"host_arithmetic", "waiting"}
    if ledger["streams_created"] > 5:  # in the loop
        assert parts["streams"] > 0


COPY, KERNEL, GRAPH, MALLOC = map(Signature, ("copy_in", "matmul", "graph_launch", "malloc"))


def test_a_trace_is_recorded_in_microseconds_with_each_call_site_once():
    calls = [Call("copy_in", call_site=site) for site in ("a", "b", "a")]
    events = [Event(COPY, 1.0, 2.5, 0, i + 0.25, None, 8, 16, call) for i, call in enumerate(calls)]
    plain = Trace(1, events).plain()
    assert plain["sites"] == ["a", "b"]
    rows = [dict(zip(plain["columns"], row, strict=True)) for row in plain["events"]]
    assert [row["site"] for row in rows] == [0, 1, 0]
    assert [row["device_start_us"] for row in rows] == [0.25e6, 1.25e6, 2.25e6]
    assert {(row["start_us"], row["end_us"], row["device_end_us"]) for row in rows} == {(1e6, 2.5e6, None)}
    assert {(row["device_bytes"], row["page_locked_bytes"]) for row in rows} == {(8, 16)}


def test_a_graph_is_captured_again_and_its_launch_timed():
    observed = ObservedBackend(DeferredBackend())
    found = profile(replace(WIDE, strategy=groups.load("strategy", "graph")), observed)
    observed.live.check_nothing_held()
    (launch,) = found["calls"]
    assert (launch["call"], launch["size"], launch["streamed"]) == ("graph_launch", (4 * 10,), True)
    assert (launch["count"], found["trace"]["steps"]) == (3, 4)  # 10 launches in each of 4 steps
    assert launch["host_us"] > 0


@pytest.mark.filterwarnings("error")
def test_a_training_that_diverges_has_a_profile_the_same_ranges_and_no_warning():
    found = profile(replace(JOB, learning_rate=1e30), CpuBackend())
    assert found["predicted_calls_seconds"] > 0 and sum(found["attribution"]["seconds"].values()) > 0
    assert ranges_of("reference", learning_rate=1e30) == ranges_of("reference")


@pytest.mark.parametrize(
    ("slowest", "part"), [("malloc", "allocation"), ("launch", "launch"), ("copy_out", "copy_out")]
)
def test_calls_that_take_milliseconds_are_predicted_and_attributed(slowest, part, monkeypatch):
    """Every call takes a millisecond, those of one name five."""
    seconds = dict.fromkeys(("malloc", "copy_in", "copy_out", "launch", "synchronize"), 0.001)
    slow = SlowBackend(monkeypatch, 1e-6, **seconds | {slowest: 0.005})
    found = profile(replace(WIDE, epochs=1, strategy=groups.load("strategy", "reference")), slow)
    parts = found["attribution"]["seconds"]
    assert max(parts, key=parts.get) == part
    calls = sum(s for part, s in parts.items() if part != "host_arithmetic")
    assert found["predicted_calls_seconds"] == pytest.approx(calls, rel=0.05)


def test_a_perfetto_file_has_a_process_a_record_and_a_thread_a_stream(tmp_path, capsys):
    from records_of import record
    from test_paper_tables import SWEEPS

    cells = SWEEPS["dataset_size"].cells[:2]
    paths = []
    for i, one in enumerate(cells):
        paths.append(tmp_path / f"{i}.json")
        store.write(paths[-1], record(one, [1.0]))
    output = tmp_path / "out" / "trace.json"
    assert cli.main(["perfetto", *map(str, paths), str(output)]) == 0
    events = json.loads(output.read_text())["traceEvents"]
    names = {(e["pid"], e["args"]["name"]) for e in events if e["ph"] == "M"}
    assert names >= {(1, "reference small 256"), (2, "streams small 256"), (1, "host"), (1, "default stream")}
    spans = [e for e in events if e["ph"] == "X" and e["pid"] == 1]
    assert [(e["tid"], e["ts"], e["dur"]) for e in spans] == [(1000, 0.0, 2.0), (0, 1.0, 1.0)]
    assert {e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"] == "device_bytes"} == {4}
    assert cli.main(["perfetto"]) == 2
    assert cli.main(["perfetto", str(tmp_path / "none.json"), str(output)]) == 2
    assert "none.json" in capsys.readouterr().err


class SlowBackend(CpuBackend):
    """Calls take so many seconds, and a look at the clock ``look``, by a clock of its own."""

    def __init__(self, monkeypatch, look=0.0, **seconds):
        super().__init__()
        self.now, self.count, self._look = 0.0, Counter(), look
        for each in (module, costs, tracer):
            monkeypatch.setattr(each, "time", SimpleNamespace(perf_counter=self._perf_counter))
        for name, one in seconds.items():
            setattr(self, name, self._slow(name, getattr(self, name), one))

    def _perf_counter(self):
        self.now += self._look
        return self.now

    def _slow(self, name, call, seconds):
        def slowed(*arguments):
            self.count[name] += 1
            self.now += seconds
            return call(*arguments)

        return slowed


class Paced:
    """A strategy whose epochs take so many seconds of the host, but the first a hundred."""

    def __init__(self, clock, timing, host):
        self._clock, self._timing, self._host, self.epochs, self.closed = clock, timing, host, 0, 0

    def starts(self, network, seed):
        yield seed

    def load(self, weights):
        self._timing.malloc(4)

    def epoch(self):
        self.epochs += 1
        self._clock.now += self._host if self.epochs > 1 else 100.0
        buffer = self._timing.malloc(4)
        self._timing.launch("relu", (buffer,), (1,))

    def close(self):
        self.closed += 1


@pytest.mark.parametrize(
    ("given", "host", "unit", "epochs"),
    [
        ((), 0.25, 0.1, 1),
        ((0.0,), 0.25, 0.1, 1),
        ((9.0,), 0.25, 0.1, 1),
        ((9.0,), 0.1, 0.01, 2),
        ((9.0,), 0.04, 0.01, 3),
        ((0.1,), 0.1, 0.01, 1),
        ((0.2,), 0.04, 0.01, 2),
        ((0.0,), 0.02, 0.01, 1),
    ],
)
def test_the_parts_of_an_epoch_by_a_clock_of_our_own(monkeypatch, given, host, unit, epochs):
    """An allocation takes two units, a launch four, the wait at the end one; a timer 10 ms."""
    backend = SlowBackend(monkeypatch, malloc=2 * unit, launch=4 * unit, synchronize=unit)
    made = []

    def start(job, timing):
        made.append(Paced(backend, timing, host))
        return made[-1]

    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(module, "_timer_seconds", lambda: 0.01)
    found = break_down(replace(JOB, epochs=10), backend, *given)
    assert (found["epochs"], made[0].epochs, made[0].closed) == (epochs, 2 + epochs, 1)
    assert backend.count["synchronize"] == 3
    calls = 2 * epochs + 1
    expected = dict.fromkeys(TimingBackend.PARTS, 0.0)
    expected |= {"allocation": 2 * unit * epochs, "launch": 4 * unit * epochs, "waiting": unit}
    expected |= {"host_arithmetic": max(host * epochs - 0.01 * calls, 0.0)}
    assert found["seconds"] == pytest.approx({part: 10 * s / epochs for part, s in expected.items()})


@pytest.mark.parametrize(("device", "epochs"), [(5.0, 1), (0.1, 3), (0.01, 30)])
def test_epochs_that_return_before_the_device_is_done_do_not_queue(monkeypatch, device, epochs):
    class Behind(SlowBackend):
        queued = 0.0

        def launch(self, *arguments):
            self.queued += device
            super().launch(*arguments)

        def synchronize(self):
            self.now += self.queued
            self.queued = 0.0

    backend = Behind(monkeypatch)
    monkeypatch.setattr(module, "start", lambda job, timing: Paced(backend, timing, 0.0))
    monkeypatch.setattr(module, "_timer_seconds", lambda: 0.0)
    found = break_down(replace(JOB, epochs=10), backend, 9.0)
    assert found["epochs"] == epochs
    assert found["seconds"]["waiting"] == pytest.approx(10 * device)


def test_what_a_timer_takes_is_what_it_does_not_measure(monkeypatch):
    """Each look at the clock is a second: a call has one within it, and one before the next."""
    looks = itertools.count()
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: float(next(looks))))
    assert module._timer_seconds(4) == (4 + 1) / 4
    assert module._timer_seconds() == (2000 + 1) / 2000


def test_a_call_that_fails_is_timed_as_well(monkeypatch):
    monkeypatch.setattr(CpuBackend, "malloc", lambda *arguments: 1 // 0)
    timing = TimingBackend(CpuBackend())
    with pytest.raises(ZeroDivisionError):
        timing.malloc(4)
    assert timing.calls == 1 and timing.seconds["allocation"] > 0
    timing.reset()
    assert (timing.calls, timing.seconds) == (0, dict.fromkeys(TimingBackend.PARTS, 0.0))


@pytest.mark.parametrize("fail_at", [1, 3, 40])
def test_everything_is_freed_and_no_range_open_when_it_fails(fail_at):
    observed, recorded = ObservedBackend(FailingBackend(fail_at)), Recorded()
    with pytest.raises(OutOfMemory):
        break_down(JOB, observed)
    observed.live.check_nothing_held()
    with pytest.raises(OutOfMemory):
        nvtx.annotate(JOB, FailingBackend(fail_at), recorded.push, recorded.pop)
    assert recorded.names and recorded.open == 0


def test_memory_that_runs_out_afterwards_does_not_cost_what_was_measured(monkeypatch, capsys):
    full = Mock(side_effect=OutOfMemory("planted"))
    monkeypatch.setattr(passes, "profile", full)
    monkeypatch.setattr(cell, "_check_ranges", lambda *arguments: None)
    monkeypatch.setattr(nvtx, "annotate", full)
    pretend_cupy(monkeypatch, full, full)
    found = cell.run(composed([*SMALL, "profile=nvtx"]))
    assert (found["explanation"], found["status"], len(found["runs"])) == (None, "ok", 2)
    assert "no NVTX ranges: planted" in capsys.readouterr().err


def test_of_a_long_epoch_the_first_steps_are_timed_and_scaled(monkeypatch):
    X, Y = (np.ones((21, width), dtype=np.float32) for width in (2, 1))
    changes = {"network": mlp((2, 1)), "X": X, "Y": Y, "epochs": 3, "batch_size": 2}
    job = replace(JOB, strategy=groups.load("strategy", "resident"), **changes)
    seconds = {}
    for most in (4, 128):
        monkeypatch.setattr(module, "_MOST_STEPS", most)
        backend = SlowBackend(monkeypatch, launch=1.0)
        breakdown = break_down(job, backend, 1e-9)
        seconds[most] = breakdown["seconds"]["launch"]
        assert backend.count["launch"] % (3 * min(most, 11)) == 0
        assert breakdown["epochs"] == 1
    launches = backend.count["launch"] / 33
    assert seconds == {4: pytest.approx(33 * launches), 128: pytest.approx(33 * launches)}


def event(signature, first=None, last=None):
    call = Call("launch" if signature is KERNEL else signature.call, call_site="here")
    return Event(signature, 0.0, 1.0, 0, first, last, 0, 0, call)


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
        timed = {"epochs": 1, "seconds": parts}
        monkeypatch.setattr(module, "break_down", lambda job, backend, s: asked.append(s) or timed)
        job = replace(JOB, X=np.zeros((10, 4), np.float32), batch_size=4, epochs=3)
        found = module.profile(job, SimpleNamespace(asynchronous=asynchronous), *given)
        return found, asked

    return profile


def test_the_calls_of_a_run_are_those_of_its_steps(profiled):
    found, asked = profiled({"waiting": 100.0, "launch": 1.0})
    counts = {call["call"]: call["count"] for call in found["calls"]}
    assert counts == {"copy_in": 4, "matmul": 14, "graph_launch": 4, "malloc": 4}  # 4.5, 13.5: to even
    assert found["predicted_calls_seconds"] == pytest.approx(4.5 * (3 + 3 * 1 + 2 + 5))
    assert found["trace"] == TRACED.plain()
    assert found["calls"][1] == {
        **{"call": "matmul", "size": (), "page_locked": None, "streamed": False, "context": ""},
        **{"count": 14, "host_us": 1e6, "device_us": 0.0, "latency_us": 0.0},
    }
    assert asked == [0.0, 0.0]


def test_no_pass_takes_much_longer_than_it_may(profiled):
    for most, of_costs in ((0.1, 0.1), (9.0, 0.25)):
        assert profiled({"waiting": 1.0}, True, (most,))[1] == [of_costs, most]


@pytest.mark.parametrize(("asynchronous", "hidden_in"), [(True, "waiting"), (False, "launch")])
def test_kernels_are_taken_out_of_what_hides_them(profiled, asynchronous, hidden_in):
    """The device computed half a second, a quarter and one, 4.5 times; copies are no kernels."""
    kernels = 4.5 * (0.5 + 0.25 + 1.0)
    for parts in ({"waiting": 50.0, "launch": 70.0, "allocation": 1.0}, {"waiting": 2.0, "launch": 3.0}):
        hidden = min(kernels, parts[hidden_in])
        expected = parts | {"kernels": hidden, hidden_in: parts[hidden_in] - hidden}
        found, _ = profiled(dict(parts), asynchronous)
        assert found["attribution"] == {"epochs": 1, "seconds": expected}


# ---- NVTX ranges: balanced, around every call, and named by step, layer and call


LAYERS = (4, 7, 6, 5, 1)
SMALL = quick("network.hidden=[4]")
X, Y = (RANDOM.random((50, n), dtype=np.float32) for n in (4, 1))
DEEP = replace(JOB, network=mlp(LAYERS, init="he_uniform"), X=X, Y=Y, batch_size=9)


class Recorded:
    """Keeps the names of ranges, of which none is within another."""

    def __init__(self):
        self.names, self.open = [], 0

    def push(self, name):
        assert self.open == 0
        self.open += 1
        self.names.append(name)

    def pop(self):
        self.open -= 1


def ranges_of(name, learning_rate=DEEP.learning_rate, **network):
    recorded = Recorded()
    job = replace(DEEP, strategy=groups.load("strategy", name), network=replace(DEEP.network, **network))
    job = replace(job, learning_rate=learning_rate)
    observed = ObservedBackend(EverySource())
    nvtx.annotate(job, observed, recorded.push, recorded.pop)
    observed.live.check_nothing_held()
    assert recorded.open == 0
    return recorded.names


LABEL = re.compile(r"(step \d) / layer (\d) Linear (forward|backward) / (.+)")


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name not in FOR_SEVERAL])
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
def test_products_have_the_shape_of_their_layer(name, order):
    kind = factory.class_of(groups.load("strategy", name))
    labels = [match.groups() for match in map(LABEL.fullmatch, ranges_of(name, update_order=order)) if match]
    if not issubclass(kind, HostDriven | DeviceDriven) or kind.at_once:
        assert not labels  # all steps are in one launch, or the device does nothing
        return
    times = 1 if issubclass(kind, HostDriven) else 2
    order = [step for step, _ in itertools.groupby(label[0] for label in labels)]
    assert order == ["step 1", "step 2", "step 3"] * times
    for _, layer, direction, call in labels:
        if call.startswith("matmul"):
            k, n = LAYERS[int(layer) // 2 : int(layer) // 2 + 2]
            inner_and_columns = tuple(map(int, call.split()[1].split("x")[1:]))
            shapes = (
                [(k, n)] if direction == "forward" else [(9, n), (n, k)]
            )  # of the gradient, or propagated
            assert inner_and_columns in shapes
    steps = 3 if issubclass(kind, HostDriven) else 6  # the steps before them have the same names
    layers = [*((i, "forward") for i in "1357"), *((i, "backward") for i in "7531")]
    assert [layer for layer, _ in itertools.groupby(label[1:3] for label in labels)] == steps * layers


def test_all_calls_of_a_host_driven_product_are_labelled():
    names = [name.split(" / ") for name in ranges_of("reference")]
    assert [name[-1] for name in names if name[:2] == ["step 1", "layer 1 Linear forward"]] == [
        *("host_alloc", "malloc", "malloc", "malloc", "copy_in", "copy_in", "matmul 9x4x7", "synchronize"),
        *("copy_out", "free", "free", "free"),
    ]


@pytest.mark.parametrize("pretransposed", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_launches_are_labelled_as_those_of_the_kernels_step(fused, pretransposed):
    """Three steps before those that count, with the same names; transposes of a load belong to none."""
    recorded = Recorded()
    job = replace(DEEP, strategy=groups.load("strategy", "resident"))
    nvtx.annotate(job, EverySource(fused, pretransposed), recorded.push, recorded.pop)
    step = training_step(job.network, job.batch_size, 0.0, fused, pretransposed).launches
    expected = [
        f"step {number} / {launch.label} / {launch.op} "
        + "x".join(str(n) for n in launch.numbers if isinstance(n, int))
        for number in (1, 2, 3)
        for launch in step
    ]
    assert [name for name in recorded.names if name.startswith("step ")] == 2 * expected
    rest = {name.split()[0] for name in recorded.names if not name.startswith("step ")}
    assert ("transpose" in rest) == pretransposed
    assert not rest & {launch.op for launch in step}


def test_ranges_are_pushed_only_if_they_are_asked_for_and_can_be_seen(monkeypatch):
    monkeypatch.setattr(nvtx, "annotate", None)
    assert cell.run(composed(SMALL))["status"] == "ok"
    with pytest.raises(ConfigError, match="profile=nvtx is for Nsight Systems"):
        cell.run(composed([*SMALL, "profile=nvtx"]))
    with pytest.raises(ConfigError, match="profile is 'nsys': it must be one of none, nvtx"):
        composed(["profile=nsys"])


def pretend_cupy(monkeypatch, push, pop):
    cuda = SimpleNamespace(nvtx=SimpleNamespace(RangePush=push, RangePop=pop))
    for name, part in (("cupy", SimpleNamespace(cuda=cuda)), ("cupy.cuda", cuda)):
        monkeypatch.setitem(sys.modules, name, part)


def test_a_record_is_the_same_with_ranges(monkeypatch):
    recorded = Recorded()
    monkeypatch.setattr(cell, "_check_ranges", lambda *arguments: None)
    pretend_cupy(monkeypatch, recorded.push, recorded.pop)
    plain = cell.run(composed(SMALL))
    annotated = cell.run(composed([*SMALL, "profile=nvtx"]))
    assert recorded.names
    assert plain["cell"] == annotated["cell"]
    assert plain["provenance"]["source_hash"] == annotated["provenance"]["source_hash"]
    assert plain.keys() == annotated.keys()


@pytest.mark.gpu
def test_ranges_on_the_gpu(cuda_backend):
    from cupy.cuda import nvtx as cupy_nvtx

    nvtx.annotate(DEEP, cuda_backend, cupy_nvtx.RangePush, cupy_nvtx.RangePop)


def test_a_resource_is_made_and_ended_in_the_same_part_of_a_run():
    assert ENDED_BY and {METHODS[made].part == METHODS[ended].part for made, ended in ENDED_BY.items()} == {
        True
    }
