"""The time breakdown: every call is in a part, and all parts together are the whole."""

import inspect
import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
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
from snn.profiling import call_costs, tracer
from snn.profiling import profile as module
from snn.profiling.calls import METHODS
from snn.profiling.observed import ObservedBackend
from snn.profiling.profile import TimingBackend, break_down
from snn.strategies.common import factory


def test_every_call_of_a_backend_is_in_a_part():
    calls = {name for name, value in inspect.getmembers(Backend) if getattr(value, "__isabstractmethod__", 0)}
    # Asked by the passes, or answered without the device.
    questions = {"part", "pool_bytes", "managed_buffer", "memory", "address", "mark", "seconds_between"}
    questions |= {"training_plan", "steps_per_launch"}
    assert calls - questions == set(METHODS)
    assert {method.part for method in METHODS.values()} == set(TimingBackend.PARTS)


NETWORK = mlp((4, 300, 1), init="he_uniform")


class SlowBackend(CpuBackend):
    """Every call takes a millisecond, those of one name five, by a clock of its own."""

    def __init__(self, slowest, monkeypatch):
        super().__init__()
        self._now = 0.0
        for each in (module, call_costs, tracer):
            monkeypatch.setattr(each, "time", SimpleNamespace(perf_counter=self._perf_counter))
        for name in ("malloc", "copy_in", "copy_out", "launch", "synchronize"):
            setattr(self, name, self._slow(getattr(self, name), 0.005 if name == slowest else 0.001))

    def _perf_counter(self):
        self._now += 1e-6
        return self._now

    def _slow(self, call, seconds):
        def slowed(*arguments):
            self._now += seconds
            return call(*arguments)

        return slowed


@pytest.mark.parametrize(
    ("slowest", "part"),
    [("malloc", "allocation"), ("launch", "launch"), ("synchronize", "waiting"), ("copy_out", "copy_out")],
)
def test_the_time_is_where_it_was_spent(slowest, part, monkeypatch):
    found = break_down(replace(JOB, batch_size=10, epochs=4), SlowBackend(slowest, monkeypatch))
    assert found.epochs == 1
    assert max(found.seconds, key=found.seconds.get) == part
    # Four epochs of five products: one such call in each, three where they are allocations.
    calls = 4 * 5 * (3 if slowest == "malloc" else 1)
    assert found.seconds[part] >= calls * 0.005


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
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    made = []

    class Slow(CpuBackend):
        waits = 0

        def malloc(self, nbytes, purpose=None):
            clock.now += 2 * unit
            return super().malloc(nbytes, purpose)

        def launch(self, *arguments):
            clock.now += 4 * unit
            super().launch(*arguments)

        def synchronize(self):
            self.waits += 1
            clock.now += unit

    def start(job, timing):
        made.append(Paced(clock, timing, host))
        return made[-1]

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "start", start)
    monkeypatch.setattr(module, "_timer_seconds", lambda: 0.01)
    backend = Slow()
    found = break_down(replace(JOB, epochs=10), backend, *given)
    assert (found.epochs, made[0].epochs, made[0].closed, backend.waits) == (epochs, 2 + epochs, 1, 3)
    calls = 2 * epochs + 1
    expected = dict.fromkeys(TimingBackend.PARTS, 0.0)
    expected |= {"allocation": 2 * unit * epochs, "launch": 4 * unit * epochs, "waiting": unit}
    expected |= {"host_arithmetic": max(host * epochs - 0.01 * calls, 0.0)}
    assert found.seconds == pytest.approx({part: 10 * s / epochs for part, s in expected.items()})


@pytest.mark.parametrize(("device", "epochs"), [(5.0, 1), (0.1, 3), (0.01, 30)])
def test_epochs_that_return_before_the_device_is_done_do_not_queue(monkeypatch, device, epochs):
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now

    class Behind(CpuBackend):
        queued = 0.0

        def launch(self, *arguments):
            self.queued += device
            super().launch(*arguments)

        def synchronize(self):
            clock.now += self.queued
            self.queued = 0.0

    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "start", lambda job, timing: Paced(clock, timing, 0.0))
    monkeypatch.setattr(module, "_timer_seconds", lambda: 0.0)
    found = break_down(replace(JOB, epochs=10), Behind(), 9.0)
    assert found.epochs == epochs
    assert found.seconds["waiting"] == pytest.approx(10 * device)


def test_what_a_timer_takes_is_what_it_does_not_measure(monkeypatch):
    """Each look at the clock is a second: a call has one within it, and one before the next."""
    looks = itertools.count()
    monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: float(next(looks))))
    assert module._timer_seconds(4) == (4 + 1) / 4
    assert module._timer_seconds() == (2000 + 1) / 2000


def test_a_call_that_fails_is_timed_as_well():
    class Failing(CpuBackend):
        def malloc(self, nbytes, purpose=None):
            raise OutOfMemory("planted")

    timing = TimingBackend(Failing())
    assert (timing.calls, timing.seconds) == (0, dict.fromkeys(TimingBackend.PARTS, 0.0))
    with pytest.raises(OutOfMemory):
        timing.malloc(4)
    assert timing.calls == 1 and timing.seconds["allocation"] > 0
    timing.reset()
    assert (timing.calls, timing.seconds["allocation"]) == (0, 0.0)


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


def test_of_a_long_epoch_the_first_steps_are_timed_and_scaled(monkeypatch):
    """Every call takes a second, by a clock of the test's own."""
    clock = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock[0])

    class Slow(CpuBackend):
        launched = 0

        def launch(self, *arguments, **options):
            Slow.launched += 1
            clock[0] += 1.0
            super().launch(*arguments, **options)

    X, Y = (np.ones((21, width), dtype=np.float32) for width in (2, 1))
    changes = {"network": mlp((2, 1)), "X": X, "Y": Y, "epochs": 3, "batch_size": 2}
    job = replace(JOB, strategy=groups.load("strategy", "resident"), **changes)
    seconds = {}
    for most in (4, 128):
        monkeypatch.setattr(module, "_MOST_STEPS", most)
        Slow.launched = 0
        breakdown = break_down(job, Slow(), 1e-9)
        seconds[most] = breakdown.seconds["launch"]
        steps = min(most, 11)
        assert Slow.launched % (3 * steps) == 0
        assert breakdown.epochs == 1
    launches = Slow.launched / 33
    assert seconds == {4: pytest.approx(33 * launches), 128: pytest.approx(33 * launches)}
