"""The host waits where it must: for what is timed, before what is destroyed, and for nothing that is stale.

Device time is counted in ticks: one for each piece of work that a stream has done, and none for the host.
"""

import math
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import STRATEGIES
from deferred import DeferredBackend
from test_measure import JOB, RULES

from snn.config import groups
from snn.measurement import runs
from snn.strategies import factory
from snn.strategies.device_driven import Resident
from snn.strategies.factory import start


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


def job_of(name):
    return replace(JOB, strategy=groups.load("strategy", name))


@pytest.mark.parametrize("name", ["resident", "pipelined", "synchronous", "graph", "persistent"])
def test_a_run_is_timed_until_the_device_has_done_all_of_it_and_nothing_else(monkeypatch, name):
    backend = Clocked()
    monkeypatch.setattr(runs, "time", backend.clock)
    job = job_of(name)
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
    job = replace(JOB, strategy={"_target_": f"{__name__}.LeavesWork", "name": "leaves_work"})
    found, plain = (runs.measure(one, RULES, backend).runs for one in (job, job_of("resident")))
    assert [run.seconds for run in found] == [run.seconds for run in plain]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_closes_while_the_device_is_at_work(name):
    """An epoch of which nobody has read the loss: no stream or event is destroyed before it is done."""
    backend = Clocked()
    strategy = start(job_of(name), backend)
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
