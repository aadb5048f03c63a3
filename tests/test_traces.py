"""Traces of allocations: those that a rule makes, and those that a strategy leaves."""

import numpy as np
import pytest
from every_source import EverySource
from hypothesis import given, settings
from hypothesis import strategies as st

from snn.config import groups
from snn.microbenchmarks.allocators import TRACES, Allocations, Trace, recorded, trace
from snn.models.network import mlp
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies.common import factory
from snn.strategies.common.job import Job, start

RULES = [name for name in TRACES if not name.endswith(("_mlp", "_cnn"))]


@pytest.mark.parametrize("name", TRACES)
@settings(max_examples=4)
@given(nbytes=st.integers(1 << 20, 1 << 33), calls=st.integers(800, 1500), seed=st.integers(0, 99))
def test_a_trace_frees_what_it_allocates_and_is_that_of_its_seed(name, nbytes, calls, seed):
    found = trace(name, nbytes, calls, seed)
    assert found == trace(name, nbytes, calls, seed)
    alive, seen = set(), set()
    for event in found.events:
        if event.nbytes:
            assert event.block not in seen
            seen.add(event.block)
            alive.add(event.block)
        else:
            alive.remove(event.block)
    assert not alive
    if name in RULES:
        assert 0.5 * nbytes <= found.peak_bytes <= 1.1 * nbytes
        assert 0.5 * calls <= len(found.events) <= 1.1 * calls
        assert found.events != trace(name, nbytes, calls, seed + 1).events


@pytest.mark.parametrize("name", ["reference", "resident", "streams", "async_pool"])
def test_a_recorded_trace_is_that_of_a_training(name):
    network, batch = mlp((4, 40, 30, 1)), 32
    X, Y = np.ones((80, 4), np.float32), np.ones((80, 1), np.float32)
    job = Job(groups.load("strategy", name), network, X, Y, 1, 3, batch, 1e-5)
    observed = ObservedBackend(EverySource(), ledger := Ledger(), allocations := Allocations())
    strategy = start(job, observed)
    try:
        strategy.load(next(strategy.starts(network, 1)))
        strategy.train(3)
    finally:
        strategy.close()

    def plain(events):
        numbers = {}
        return [(numbers.setdefault(event.block, len(numbers)), event.nbytes) for event in events]

    found = list(recorded(factory.class_of(job.strategy), network, batch, epochs=3))
    assert plain(found) == plain(allocations.events)
    counted = ledger.totals()
    assert sum(event.nbytes > 0 for event in found) == counted["mallocs"] + counted["pool_allocs"] > 0
    assert Trace("", tuple(found)).peak_bytes == counted["peak_device_bytes"]
