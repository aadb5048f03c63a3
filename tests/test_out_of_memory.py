"""A device that is full, or nearly: what is said, which batch would fit, and that a record is left."""

import re
from dataclasses import replace
from functools import cache

import pytest
from conftest import STRATEGIES
from every_source import Captures
from test_measure import JOB, RULES
from test_memory import Addressed

from snn import backends
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import OutOfMemory
from snn.measurement import cell, runs
from snn.models.network import mlp
from snn.profiling import memory
from snn.profiling.rehearsal import advice, rehearse


def full(free):
    return replace(JOB, network=mlp((4, 50, 1))), Addressed(free, 10_000)


def test_a_planted_lack_of_memory_says_what_was_asked_free_held_and_would_fit():
    job, backend = full(free=1200)
    found = runs.measure(job, RULES, backend)
    assert found.status == "out_of_memory"
    assert "malloc of 800 bytes failed: 336 of 10000 bytes are free" in found.reason
    assert "held: 2 blocks with 864 bytes from snn/strategies/common/per_call.py:" in found.reason
    assert "asked by snn/strategies/common/per_call.py:" in found.reason
    assert backend.memory() == (1200, 10_000)  # nothing is kept
    # Half the batch: two rows of X, W1, two rows of H.
    assert advice(job, 1300, backend) == "training.batch_size=2 would fit: 1.203 KiB of 1.27 KiB free"
    assert advice(job, 900, backend).startswith("no batch size would fit: one row per batch needs ")


def job_of(name, batch):
    return replace(JOB, strategy=groups.load("strategy", name), batch_size=batch)


@cache
def peak(name, batch):
    return rehearse(job_of(name, batch), len(JOB.X), Captures()).nbytes


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("batch", [1, 2, 7, 10])
def test_a_batch_that_would_fit_is_named_where_one_does(name, batch):
    job, backend = job_of(name, batch), Captures()
    if not peak(name, 1):
        pytest.skip("uses no device memory")
    assert advice(job, 0, backend).startswith("no batch size would fit: ")
    for smaller in {batch // 2, 1} if batch > 1 else ():
        found = advice(job, peak(name, smaller), backend)
        fits = int(re.match(r"training\.batch_size=(\d+) would fit: ", found)[1])
        assert fits >= smaller
        assert peak(name, fits) <= peak(name, smaller)


def test_a_cell_that_runs_out_of_memory_leaves_a_record(monkeypatch):
    monkeypatch.setattr(backends, "make", lambda *arguments: Addressed(900_000, 2**30))
    found = cell.run(composed(["device=cpu", "dataset=medium", "strategy=combined", "protocol=brief"]))
    assert found["status"] == "out_of_memory"
    assert "training.batch_size=" in found["reason"]
    assert found["runs"] == []
    assert found["explanation"] is None


def test_a_device_too_full_for_the_probe_leaves_a_record(monkeypatch):
    monkeypatch.setattr(backends, "make", lambda *arguments: Addressed(1000, 2**30))
    found = cell.run(composed(["device=cpu", "dataset=small", "protocol=brief"]))
    assert found["status"] == "out_of_memory"
    assert found["machine"]["probe"] == {"before": {}, "after": {}}
    assert "no batch size would fit" in found["reason"]


def test_a_device_too_full_to_load_a_kernel_leaves_a_record(monkeypatch):
    class Full(Addressed):
        asked = 0

        def training_plan(self, shape):
            self.asked += 1
            if self.asked > 1:
                raise OutOfMemory("no room for the kernel")
            return "one cluster"

    monkeypatch.setattr(backends, "make", lambda *arguments: Full(1000, 2**30))
    found = cell.run(composed(["device=cpu", "dataset=small", "strategy=ensemble", "protocol=brief"]))
    assert found["status"] == "out_of_memory"
    assert "would fit" not in found["reason"]


def test_a_full_device_is_warned_of():
    job, _ = full(0)
    # 1,664 bytes at the peak leave 236 of 1,900: of 20,000 much was in use before.
    for total, warned in ((20_000, True), (2_000, False)):
        found = runs.count(job, Addressed(1_900, total))[1]
        assert bool(found["warnings"]) == warned
        assert found["least_free_bytes"] == 236
    assert memory.warnings(5, 100) == ["95% of the memory was in use: 5 bytes of 100 bytes were left"]
    assert memory.warnings(10, 100) == []


def test_a_device_is_warned_of_beyond_nine_tenths():
    assert memory.warnings(100, 1000) == memory.warnings(0, 0) == memory.warnings(1000, 1000) == []
    assert memory.warnings(99, 1000) == ["90% of the memory was in use: 99 bytes of 1000 bytes were left"]
    assert memory.warnings(50, 100, 0.5) == [] and memory.warnings(49, 100, 0.5)


def test_host_memory_that_cannot_be_had_is_an_outcome():
    with pytest.raises(OutOfMemory, match="bytes are free"):
        CpuBackend().host_alloc((1 << 60,))
