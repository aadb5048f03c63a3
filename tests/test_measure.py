"""The protocol: how many runs, when to stop, what an outcome is, and a ledger that is exact."""

from dataclasses import replace

import numpy as np
import pytest
from conftest import STRATEGIES
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import choices, measure
from snn.backends.cpu import CpuBackend
from snn.errors import LeakError, OutOfMemory
from snn.measure import Job, Run
from snn.network import Network
from snn.strategies.reference import Reference

RANDOM = np.random.default_rng(3)
JOB = Job(
    strategy=choices.load("strategy", "reference"),
    network=Network((4, 3, 1)),
    X=RANDOM.random((10, 4), dtype=np.float32),
    Y=RANDOM.random((10, 1), dtype=np.float32),
    seed=1,
    epochs=2,
    batch_size=4,
    learning_rate=0.01,
    runs=4,
    min_runs=2,
    max_seconds=None,
    warmup=0,
    warmup_seconds=0.0,
)


def test_runs_continue_the_random_stream_and_warm_up_does_not_shift_it():
    plain = measure.measure(JOB, CpuBackend())
    warmed = measure.measure(replace(JOB, warmup=2, warmup_seconds=0.02), CpuBackend())
    errors = [run.final_mse for run in plain.runs]
    assert len(set(errors)) == 4
    assert errors == [run.final_mse for run in warmed.runs]
    assert len(warmed.runs) == 4
    assert plain.stopped == "runs"
    assert plain.status == "ok"


def test_progress_is_told_after_every_run():
    seen = []
    measure.measure(JOB, CpuBackend(), lambda runs: seen.append(len(runs)))
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("seconds", "limit", "stopped"),
    [
        ([1.0], 0.5, None),  # too long already, but there must be two
        ([1.0, 1.0], 2.5, "max_seconds"),  # a third would end after the limit
        ([1.0, 1.0], 3.5, None),
        ([1.0] * 4, None, "runs"),
        ([1.0] * 4, 0.1, "runs"),
    ],
)
def test_stop_rule(seconds, limit, stopped):
    runs = [Run(s, 0.0) for s in seconds]
    assert measure._stop(replace(JOB, max_seconds=limit), runs) == stopped


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=10, deadline=None)
@given(epochs=st.integers(1, 8))
def test_the_ledger_is_that_of_counting_every_epoch(name, epochs):
    job = replace(JOB, strategy=choices.load("strategy", name), epochs=epochs)
    found = measure.count(job, CpuBackend())
    everything = measure._COUNTED_EPOCHS
    try:
        measure._COUNTED_EPOCHS = 1000
        assert found == measure.count(job, CpuBackend())
    finally:
        measure._COUNTED_EPOCHS = everything


class Growing(Reference):
    """Asks for one more synchronisation in every epoch."""

    epochs = 0

    def epoch(self):
        super().epoch()
        self.epochs += 1
        for _ in range(self.epochs):
            self.backend.synchronize()


def test_a_strategy_whose_epochs_differ_is_counted_to_the_end():
    job = replace(JOB, strategy={"_target_": f"{__name__}.Growing", "name": "growing"}, epochs=7)
    found = measure.count(job, CpuBackend())
    assert found["synchronizations"] == 7 * 3 * 5 + sum(range(1, 8))


class Leaking(Reference):
    def setup(self, *arguments):
        super().setup(*arguments)
        self.backend.malloc(12)


def test_a_leak_fails_the_cell():
    job = replace(JOB, strategy={"_target_": f"{__name__}.Leaking", "name": "leaking"})
    with pytest.raises(LeakError, match=r"never freed: 1 device buffers \(12 bytes\)"):
        measure.measure(job, CpuBackend())


def test_divergence_is_an_outcome_with_its_times():
    found = measure.measure(replace(JOB, learning_rate=1e30, epochs=5), CpuBackend())
    assert found.status == "diverged"
    assert "4 of 4 runs" in found.reason
    assert all(run.seconds > 0 for run in found.runs)


class FullBackend(CpuBackend):
    def malloc(self, nbytes):
        raise OutOfMemory("cudaMalloc of 96 bytes failed: 0 of 1 bytes are free")


def test_out_of_memory_is_an_outcome():
    found = measure.measure(JOB, FullBackend())
    assert found.status == "out_of_memory"
    assert "96 bytes" in found.reason
    assert found.runs == []
