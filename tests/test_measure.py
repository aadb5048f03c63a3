"""The protocol: how many runs, when to stop, what an outcome is, what is timed, and an exact ledger."""

import math
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from conftest import ROOT, STRATEGIES
from deferred import DeferredBackend
from every_source import EverySource
from failing_backend import FailingBackend
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import datasets
from snn.analysis.verdicts import ended
from snn.backends.cpu.backend import CpuBackend
from snn.config import compose, groups
from snn.errors import LeakError, OutOfMemory
from snn.measurement import cell, runs
from snn.measurement.accuracy import untrained_loss
from snn.measurement.passes import job_of, probe
from snn.measurement.protocol import Round, of_round
from snn.models.network import mlp
from snn.profiling.calls import Unlaunched
from snn.strategies import factory
from snn.strategies.base import unwatched
from snn.strategies.device_driven import Resident
from snn.strategies.factory import Job, start
from snn.strategies.host_driven import Reference

RANDOM = np.random.default_rng(3)
JOB = Job(
    strategy=groups.load("strategy", "reference"),
    network=mlp((4, 3, 1)),
    X=RANDOM.random((10, 4), dtype=np.float32),
    Y=RANDOM.random((10, 1), dtype=np.float32),
    seed=1,
    epochs=2,
    batch_size=4,
    learning_rate=0.01,
)
RULES = Round(runs=4, min_runs=2)
COLD = ("protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0")


def job_with(name, **changed):
    """The job by a strategy of the project."""
    return replace(JOB, strategy=groups.load("strategy", name), **changed)


def job_by(kind, **changed):
    """The job by a strategy of these tests."""
    return replace(JOB, strategy={"_target_": f"{__name__}.{kind.__name__}", "name": "mine"}, **changed)


def test_runs_continue_the_random_stream_and_warm_up_does_not_shift_it():
    seen = []
    plain = runs.measure(JOB, RULES, CpuBackend(), lambda runs: seen.append(len(runs)))
    assert seen == [1, 2, 3, 4]
    warm = Round(runs=4, warmup_seconds=0.02, max_warmup_seconds=0.1)
    warmed = runs.measure(JOB, warm, CpuBackend())
    errors = [run.final_loss for run in plain.runs]
    assert len(set(errors)) == 4
    assert errors == [run.final_loss for run in warmed.runs]
    assert len(warmed.runs) == 4
    assert warmed.warmup.seconds >= 0.02
    assert plain.warmup.epochs == 0
    assert plain.stopped == "runs"
    assert plain.status == "ok"


def test_a_record_says_how_many_epochs_the_warm_up_took(monkeypatch):
    epochs, epoch = [], Reference.epoch
    monkeypatch.setattr(Reference, "epoch", lambda self: epochs.append(1) or epoch(self))
    runs.measure(JOB, RULES, CpuBackend())
    without = len(epochs)
    found = runs.measure(JOB, replace(RULES, warmup_seconds=0.01), CpuBackend())
    assert found.warmup.epochs == len(epochs) - 2 * without >= 1


def test_rounds_together_make_the_runs_of_one_job():
    whole = runs.measure(JOB, RULES, CpuBackend())
    rules = {"runs": 4, "min_runs": 1, "rounds": 2, "max_seconds": None, "relative_error": None}
    rules |= {"warmup_seconds": 0, "max_warmup_seconds": 0}
    halves = [runs.measure(JOB, of_round(rules, n), CpuBackend()) for n in (1, 2)]
    assert [run.final_loss for half in halves for run in half.runs] == [run.final_loss for run in whole.runs]


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=10)
@given(epochs=st.integers(1, 8))
def test_the_ledger_is_that_of_counting_every_epoch(name, epochs):
    job = job_with(name, epochs=epochs)
    found, _ = runs.count(job, EverySource())
    everything = runs._COUNTED_EPOCHS
    try:
        runs._COUNTED_EPOCHS = 1000
        assert found == runs.count(job, EverySource())[0]
    finally:
        runs._COUNTED_EPOCHS = everything


class Prepared(Reference):
    """Knows the length of its training before it trains."""

    told = None

    def prepare(self, epochs):
        self.told = epochs

    def load(self, weights):
        assert self.told == JOB.epochs
        super().load(weights)


def test_a_strategy_is_told_how_long_it_will_train():
    job = job_by(Prepared)
    backend = CpuBackend()
    found = runs.Measurement()
    runs._time_runs(job, RULES, backend, found, lambda runs: None, unwatched)
    assert len(found.runs) == 4


class Growing(Reference):
    """Asks for one more synchronisation in every epoch."""

    epochs = 0

    def epoch(self):
        super().epoch()
        self.epochs += 1
        for _ in range(self.epochs):
            self.backend.synchronize()


def test_a_strategy_whose_epochs_differ_is_counted_to_the_end():
    job = job_by(Growing, epochs=7)
    found, _ = runs.count(job, CpuBackend())
    assert found["synchronizations"] == 7 * 3 * 5 + sum(range(1, 8))


class Leaking(Reference):
    def setup(self, *arguments):
        super().setup(*arguments)
        self.backend.malloc(12)


def test_a_leak_fails_the_cell():
    said = r"never freed: on the device: 1 block with 12 bytes from tests/test_measure.py:\d+ in setup"
    with pytest.raises(LeakError, match=said):
        runs.measure(job_by(Leaking), RULES, CpuBackend())


def test_divergence_is_an_outcome_with_its_times():
    found = runs.measure(replace(JOB, learning_rate=1e30, epochs=5), RULES, CpuBackend())
    assert found.status == "diverged"
    assert "4 of 4 runs" in found.reason
    assert all(run.seconds > 0 for run in found.runs)


SMALL_CNN = ("network=cnn", "network.layers=[conv2d 2 3,relu,maxpool2d 2,linear 10]")


@pytest.mark.parametrize("chosen", [("network=three_hidden",), ("dataset=patterns", *SMALL_CNN)])
def test_the_loss_before_training_is_that_of_the_first_step(chosen):
    """A training of one batch, whose loss is taken before its update."""
    rows = ("dataset.rows=64", "training.batch_size=64", "training.epochs=1", "protocol.runs=1", *COLD)
    config = compose.composed(["device=cpu", "strategy=resident", *chosen, *rows])
    job = job_of(config, datasets.make(config["dataset"]))
    (run,) = runs.measure(job, of_round(config["protocol"], 1), CpuBackend()).runs
    assert untrained_loss(job) == pytest.approx(run.final_loss, rel=1e-4)


def test_a_huge_loss_is_measured_beside_that_of_the_untrained_network():
    """Clipped steps that are far too long leave a finite loss: the record's readings tell, its status not."""
    large = ("network=three_hidden", "network.init=he_uniform", "training.learning_rate=1e3")
    few = ("dataset.rows=256", "training.epochs=3", "protocol.runs=1", *COLD)
    record = cell.run(compose.composed(["device=cpu", "strategy=resident", *large, *few]))
    assert record["status"] == "ok" and record["runs"][0]["final_loss"] > 1e6 * record["untrained_loss"]
    status, reason = ended(record, groups.read_yaml(ROOT / "config/verdicts.yaml"))
    assert status == "diverged" and reason.endswith("in 1 of 1 runs")


@pytest.mark.parametrize(("number", "explained"), [(1, True), (2, False), (9, False)])
def test_the_first_round_on_a_cpu_is_explained_and_every_round_is_counted(number, explained):
    """Rounds beyond the protocol's two as well."""
    arguments = ["device=cpu", "training.epochs=2", "protocol.runs=4", "protocol.rounds=2", f"round={number}"]
    quick = ["protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0"]
    found = cell.run(compose.composed([*arguments, *quick]))
    assert (found["status"], found["round"], len(found["runs"])) == ("ok", number, 2)
    assert (found["explanation"] is not None) == explained
    assert found["ledger"] and found["memory"]


def test_a_counting_pass_runs_no_kernel_twice_for_the_same_numbers(monkeypatch):
    launches = []
    usual = CpuBackend.launch

    def launch(self, op, buffers, numbers, stream=None):
        launches.append((op, numbers))
        return usual(self, op, buffers, numbers, stream)

    monkeypatch.setattr(CpuBackend, "launch", launch)
    for strategy in ("reference", "resident", "pipelined"):
        job = job_with(strategy, epochs=5)
        launches.clear()
        ledger, _ = runs.count(job, CpuBackend())
        assert 0 < len(launches) == len(set(launches)) < ledger["launches"]
        ops = {op for op, _ in launches}
        launches.clear()
        runs.measure(job, Round(runs=1), CpuBackend())
        assert {op for op, _ in launches} == ops, "each operation of a training runs when it is counted"


def test_a_graph_is_captured_whole_and_runs_once():
    backend = MagicMock()
    unlaunched = Unlaunched(backend)
    unlaunched.launch("relu", (), (3,))
    unlaunched.graph_begin(None)
    for _ in range(2):
        unlaunched.launch("relu", (), (3,))
    graph = unlaunched.graph_end(None)
    assert backend.launch.call_count == 3
    for _ in range(2):
        unlaunched.graph_launch(graph, None)
        unlaunched.launch("relu", (), (3,))
    assert backend.launch.call_count == 3
    backend.graph_launch.assert_called_once_with(graph, None)


# ---- the probe


@pytest.fixture
def held(monkeypatch):
    """Watches what a backend has allocated and not freed."""

    def watched(backend):
        alive, malloc, free = [], backend.malloc, backend.free
        monkeypatch.setattr(backend, "malloc", lambda nbytes: alive.append(malloc(nbytes)) or alive[-1])
        monkeypatch.setattr(backend, "free", lambda buffer: alive.remove(buffer) or free(buffer))
        return alive

    return watched


def test_the_probe_measures_and_frees(backend, held):
    alive = held(backend)
    costs = probe(backend)
    assert not alive
    assert set(costs) == {"malloc_us", "copy_us", "launch_us", "product_us"}
    assert all(cost > 0 for cost in costs.values())
    assert costs["product_us"] > costs["launch_us"]


def test_the_probe_frees_when_memory_runs_out(held):
    for fail_at in (1, 18, 19, 20, 22):
        backend = FailingBackend(fail_at)
        alive = held(backend)
        with pytest.raises(OutOfMemory):
            probe(backend)
        assert not alive


# ---- what the host waits for: device time in ticks, one for each piece of work that a stream has done


class Clocked(DeferredBackend):
    """Work takes one tick, when it is done; the default stream's launches are queued as well."""

    DEFAULT = 0

    def __init__(self):
        super().__init__()
        self.ticks = 0
        self._queues[self.DEFAULT], self._done[self.DEFAULT] = [], 0

    def _ask(self, stream, work):
        def ticking():
            self.ticks += 1
            work()

        super()._ask(self.DEFAULT if stream is None else stream, ticking)

    def copy_in(self, buffer, array, stream=None):
        super().copy_in(buffer, array, stream)
        self._wait_unless(stream)

    def copy_out(self, array, buffer, stream=None):
        super().copy_out(array, buffer, stream)
        self._wait_unless(stream)

    def _wait_unless(self, stream):
        if stream is None:
            self.synchronize()

    @property
    def clock(self):
        """In place of the module ``time``."""
        return SimpleNamespace(perf_counter=lambda: float(self.ticks))


@pytest.mark.parametrize("name", ["resident", "pipelined", "synchronous", "graph", "persistent"])
def test_a_run_is_timed_until_the_device_has_done_all_of_it_and_nothing_else(monkeypatch, name):
    backend = Clocked()
    monkeypatch.setattr(runs, "time", backend.clock)
    job = job_with(name)
    found = runs.measure(job, RULES, backend)
    strategy = start(job, backend)
    strategy.prepare(job.epochs)
    strategy.load(next(strategy.starts(job.network, job.seed)))
    before = backend.ticks
    strategy.train(job.epochs)
    backend.synchronize()
    assert [run.seconds for run in found.runs] == [backend.ticks - before] * RULES.runs
    assert found.runs[0].seconds > 0
    strategy.close()


class LeavesWork(Resident):
    """Does not wait for all that it asks for before a run."""

    def load(self, weights):
        super().load(weights)
        self.backend.copy_out(self._host_errors, self._named["E"], self._stream)


def test_what_was_asked_for_before_a_run_is_not_timed(monkeypatch):
    backend = Clocked()
    monkeypatch.setattr(runs, "time", backend.clock)
    job = job_by(LeavesWork)
    found, plain = (runs.measure(one, RULES, backend).runs for one in (job, job_with("resident")))
    assert [run.seconds for run in found] == [run.seconds for run in plain]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_closes_while_the_device_is_at_work(name):
    """An epoch of which nobody has read the loss: no stream or event is destroyed before it is done."""
    backend = Clocked()
    strategy = start(job_with(name), backend)
    strategy.load(next(strategy.starts(JOB.network, JOB.seed)))
    strategy.epoch()
    strategy.close()


@pytest.mark.parametrize("name", STRATEGIES)
def test_fresh_weights_have_no_loss_yet(name, backend):
    with closing(factory.make(groups.load("strategy", name), backend)) as strategy:
        strategy.setup(JOB.network, JOB.X, JOB.Y, JOB.batch_size, JOB.learning_rate)
        starts = strategy.starts(JOB.network, JOB.seed)
        for _ in range(2):
            strategy.load(next(starts))
            assert all(map(math.isnan, strategy.losses()))
            strategy.epoch()
            assert np.isfinite(strategy.losses()).all()
