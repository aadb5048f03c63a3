"""The time breakdown: every call is in a part, and all parts together are the whole."""

import inspect
import time
from dataclasses import replace

import pytest
from conftest import STRATEGIES
from test_measure import JOB

from snn.backends.base import Backend
from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import OutOfMemory
from snn.measurement import cell, passes
from snn.measurement.runs import count
from snn.models.network import mlp
from snn.profiling.observed import ObservedBackend
from snn.profiling.time_breakdown import TimingBackend, break_down
from snn.strategies.common import factory


def test_every_call_of_a_backend_is_in_a_part():
    calls = {name for name, value in inspect.getmembers(Backend) if getattr(value, "__isabstractmethod__", 0)}
    # Asked by the passes, or answered without the device.
    questions = {"part", "pool_bytes", "managed_buffer", "memory", "address", "mark", "seconds_between"}
    questions |= {"training_plan"}
    assert all(name in vars(TimingBackend) for name in calls - questions)


NETWORK = mlp((4, 300, 1), init="he_uniform")


class SlowBackend(CpuBackend):
    """Every call takes a millisecond longer, those of one name five."""

    def __init__(self, slowest):
        super().__init__()
        for name in ("malloc", "copy_in", "copy_out", "launch", "synchronize"):
            setattr(self, name, self._slow(getattr(self, name), 0.005 if name == slowest else 0.001))

    @staticmethod
    def _slow(call, seconds):
        def slowed(*arguments):
            time.sleep(seconds)
            return call(*arguments)

        return slowed


@pytest.mark.alone
@pytest.mark.parametrize(
    ("slowest", "part"),
    [("malloc", "allocation"), ("launch", "launch"), ("synchronize", "waiting"), ("copy_out", "copy_out")],
)
def test_the_time_is_where_it_was_spent(slowest, part):
    found = break_down(replace(JOB, batch_size=10, epochs=4), SlowBackend(slowest))
    assert found.epochs == 1
    assert max(found.seconds, key=found.seconds.get) == part
    # Four epochs of five products: one such call in each, three where they are allocations.
    calls = 4 * 5 * (3 if slowest == "malloc" else 1)
    assert found.seconds[part] >= calls * 0.005


@pytest.mark.parametrize("name", STRATEGIES)
def test_parts_add_up_and_everything_is_freed(name, backend):
    job = replace(JOB, strategy=groups.load("strategy", name), network=NETWORK, epochs=3)
    observed = ObservedBackend(backend)
    started = time.perf_counter()
    found = break_down(job, observed, 0.05)
    elapsed = time.perf_counter() - started
    observed.live.check_nothing_held()
    assert all(seconds >= 0 for seconds in found.seconds.values())
    assert 0 < sum(found.seconds.values()) / job.epochs * found.epochs < elapsed
    ledger, _ = count(job, backend)
    if ledger["streams_created"] > 5:  # in the loop
        assert found.seconds["streams"] > 0
    if factory.class_of(job.strategy).on_host:
        assert {part for part, seconds in found.seconds.items() if seconds} <= {"host_arithmetic", "waiting"}
    else:
        assert found.seconds["launch"] > 0


def test_everything_is_freed_when_it_fails():
    from failing_backend import FailingBackend

    for fail_at in (1, 3, 40):
        observed = ObservedBackend(FailingBackend(fail_at))
        with pytest.raises(OutOfMemory):
            break_down(JOB, observed)
        observed.live.check_nothing_held()


def test_memory_that_runs_out_afterwards_does_not_cost_what_was_measured(monkeypatch):
    def full(*arguments):
        raise OutOfMemory("planted")

    monkeypatch.setattr(passes, "profile", full)
    config = composed(["device=cpu", "training.epochs=1", "protocol.runs=2", "protocol.warmup_seconds=0"])
    found = cell.run(config)
    assert found["explanation"] is None
    assert found["status"] == "ok"
    assert len(found["runs"]) == 2
