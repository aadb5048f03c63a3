"""The device-driven strategies: the oracle's numbers on every kind of kernel, and nothing more asked for."""

import itertools
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from conftest import ROOT, STRATEGIES
from deferred import DeferredBackend
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import train
from test_training import networks, trained

from snn import backends
from snn.config import groups
from snn.errors import Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.network import draw_weights, mlp
from snn.models.optimizers import Adam
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend, Observer
from snn.strategies import factory
from snn.strategies.device_driven import DeviceDriven, Graph

KERNELS = [(fused, pretransposed) for fused in (False, True) for pretransposed in (False, True)]
KINDS = {name: factory.class_of(groups.load("strategy", name)) for name in STRATEGIES}
GRAPHS = [name for name, kind in KINDS.items() if issubclass(kind, Graph) and kind is not Graph]
NAMES = [
    name
    for name, kind in KINDS.items()
    if issubclass(kind, DeviceDriven) and not kind.at_once and name not in GRAPHS
]


@pytest.mark.parametrize(("fused", "pretransposed"), KERNELS)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15)
@given(network=networks, rows=st.integers(1, 200), batch=st.integers(1, 80), seed=st.integers(0, 2**32 - 1))
def test_agrees_with_the_oracle(name, fused, pretransposed, network, rows, batch, seed):
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (rows, network.mlp_widths()[0])).astype(np.float32)
    Y = random.normal(size=(rows, 1)).astype(np.float32)
    weights = draw_weights(network, GlibcRandom(seed % 1000 + 1))
    backend = DeferredBackend(fused, pretransposed)
    found, loss = trained(name, backend, network, X, Y, 2, batch, 0.01, weights)
    order, clip = network.update_order, network.clip_norm
    expected, expected_loss = train(
        weights, X, Y, epochs=2, batch_size=batch, rate=0.01, update_order=order, clip_norm=clip
    )
    for W, oracle in zip(found, expected, strict=True):
        assert np.linalg.norm(W - oracle) <= 1e-3 * (np.linalg.norm(oracle) + 1e-3)
    assert loss == pytest.approx(expected_loss, rel=1e-3, abs=1e-5)


class WithoutPlan(DeferredBackend):
    def training_launch(self, shape):
        raise Unsupported("no cluster, no grid")


def test_what_no_launch_can_train_as_a_whole_a_graph_trains():
    network, random = mlp((7, 20, 1), init="he_uniform"), np.random.default_rng(5)
    X, Y = (random.normal(size=(90, n)).astype(np.float32) for n in (7, 1))
    weights = draw_weights(network, GlibcRandom(3))
    found, expected = (
        trained(name, WithoutPlan(), network, X, Y, 3, 40, 0.01, weights) for name in ("persistent", "graph")
    )
    assert found[1] == expected[1]
    assert all(map(np.array_equal, found[0], expected[0]))
    strategy = factory.make(groups.load("strategy", "persistent"), ObservedBackend(WithoutPlan()))
    strategy.setup(network, X, Y, 40, 0.01)
    assert strategy.plan == "graph: no cluster, no grid"
    strategy.close()
    strategy.backend.live.check_nothing_held()


@pytest.mark.parametrize("eager", [None, 1, 2, 3])
@pytest.mark.parametrize("name", STRATEGIES)
def test_nothing_is_used_before_it_is_there_or_after_it_is_gone(name, eager):
    """One stream leads as far as it may, the others lag: the numbers are the same."""
    random = np.random.default_rng(5)
    X, Y = (random.normal(size=(300, n)).astype(np.float32) for n in (7, 1))
    network = mlp((7, 200, 30, 1), init="he_uniform")
    weights = draw_weights(network, GlibcRandom(3))
    (late, loss), (reference, expected) = (
        trained(one, DeferredBackend(eager=eager), network, X, Y, 3, 30, 0.01, weights)
        for one in (name, "reference")
    )
    for W, oracle in zip(late, itertools.cycle(reference), strict=False):  # of an ensemble, each member's
        np.testing.assert_allclose(W, oracle, rtol=1e-4, atol=1e-6)
    assert loss == pytest.approx(expected, rel=1e-4)


ADAM = mlp((7, 20, 9, 1), True, "silu", init="he_uniform", optimizer=Adam(), order_seed=3)


def trained_thrice(name, backend, network):
    """The weights after 3 epochs, twice, and after 5, of batches of which the last is smaller."""
    random = np.random.default_rng(5)
    X, Y = (random.normal(size=(90, n)).astype(np.float32) for n in (7, 1))
    weights, found = draw_weights(network, GlibcRandom(3)), []
    with closing(factory.make(groups.load("strategy", name), backend)) as strategy:
        strategy.setup(network, X, Y, 40, 0.01)
        for epochs in (3, 3, 5):
            strategy.load(weights)
            strategy.train(epochs)
            found += [*strategy.weights(), strategy.loss()]
    return found


@pytest.mark.parametrize("name", GRAPHS)
def test_every_kind_of_graph_ends_with_the_same_bits(name):
    found, expected = (trained_thrice(one, DeferredBackend(True), ADAM) for one in (name, "graph"))
    assert all(map(np.array_equal, found, expected))


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", ["naive", "tiled_fused"])
@pytest.mark.parametrize("network", [ADAM, mlp((7, 200, 30, 1), init="he_uniform", clip_norm=0.5)])
@pytest.mark.parametrize("name", GRAPHS)
def test_every_kind_of_graph_ends_with_the_same_bits_on_a_gpu(name, network, kernel):
    backend = backends.make("cuda", groups.load("kernel", kernel), ROOT)
    try:
        found = trained_thrice(name, backend, network)
    except Unsupported as error:
        pytest.skip(str(error))
    assert all(map(np.array_equal, found, trained_thrice("graph", backend, network)))


def ledgers(name, fused, clip_norm, epochs, hidden=(6, 4)):
    """The ledger after setup, and after some epochs of 4 batches."""
    network = mlp((5, *hidden, 1), clip_norm=clip_norm)
    ledger = Ledger()
    observed = ObservedBackend(DeferredBackend(fused), ledger)
    strategy = factory.make(groups.load("strategy", name), observed)
    X, Y = np.ones((11, 5), np.float32), np.zeros((11, 1), np.float32)
    try:
        strategy.setup(network, X, Y, 3, 1e-6)
        strategy.load(draw_weights(network, GlibcRandom(1)))
        before = ledger.totals()
        for _ in range(epochs):
            strategy.epoch()
        observed.synchronize()
        return before, ledger.totals()
    finally:
        strategy.close()
        observed.live.check_nothing_held()


@pytest.mark.parametrize(("fused", "clip_norm"), [(False, None), (True, None), (False, 1.0), (True, 1.0)])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_asked_for_in_the_loop(name, fused, clip_norm):
    before, after = ledgers(name, fused, clip_norm, epochs=2)
    grown = {key: after[key] - before[key] for key in after if after[key] != before[key]}
    products, layers, batches = 8, 3, 8
    work = products if fused else products + layers - 1 + 1 + layers - 1 + layers
    if clip_norm:
        work += 2 * layers if fused else layers
    if name == "graph":
        assert grown == {"graph_launches": 2, "graph_kernels": batches * work, "synchronizations": 1}
    elif name == "resident":
        assert grown == {"launches": batches * work, "synchronizations": 1}
    else:
        copied_in = {"launches": batches * work, "h2d_copies": 2 * batches, "h2d_bytes": 2 * 11 * 4 * (5 + 1)}
        out = {"d2h_copies": batches, "d2h_bytes": 2 * 11 * 4, "synchronizations": 1}
        waits = {"synchronizations": batches + 1}
        assert grown == copied_in | (out if name == "synchronous" else waits)


class Targets(Observer):
    """Which device memory is copied to, copy by copy."""

    def __init__(self):
        self.numbers = []

    def after(self, call, live, started, ended):
        if call.name == "copy_in":
            self.numbers.append(call.arguments[0].number)


def test_pipelined_takes_its_slots_in_turn():
    targets = Targets()
    with closing(
        factory.make(groups.load("strategy", "pipelined"), ObservedBackend(DeferredBackend(), targets))
    ) as strategy:
        strategy.setup(mlp((5, 8, 1)), np.ones((11, 5), np.float32), np.ones((11, 1), np.float32), 2, 0.01)
        targets.numbers.clear()
        strategy.epoch()
    slots = list(zip(targets.numbers[::2], targets.numbers[1::2], strict=True))  # X and Y of 6 batches
    assert len(set(slots)) == 3
    assert slots == slots[:3] * 2


@pytest.mark.parametrize("rows", [1, 9, 12])
def test_registered_data_is_copied_from_where_it_is(rows):
    """With the weights and losses of staged batches, and data that the host does not copy again."""
    random, network = np.random.default_rng(3), mlp((5, 8, 1))
    X, Y = (random.random((rows, n), dtype=np.float32) for n in (5, 1))
    found = []
    for data in ("staged", "registered"):
        ledger = Ledger()
        observed = ObservedBackend(DeferredBackend(), ledger)
        choice = groups.load("strategy", "pipelined") | {"data": data}
        with closing(factory.make(choice, observed)) as strategy:
            strategy.setup(network, X, Y, 4, 0.01)
            strategy.load(draw_weights(network, GlibcRandom(1)))
            strategy.epoch()
            strategy.epoch()
            found.append([*strategy.weights(), np.array(strategy.loss())])
        observed.live.check_nothing_held()
        in_batches = min(4, rows) * 3 if data == "staged" else rows
        assert ledger.host_alloc_bytes == 4 * (in_batches * 6 + 5 * 8 + 8 + min(4, rows))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(Unsupported, match="data=staged"):
        strategy.check_network(replace(network, order_seed=1))


@pytest.mark.parametrize("name", ["pipelined", "synchronous"])
def test_a_few_batches_are_on_the_device_whatever_the_data(name):
    network = mlp((5, 8, 1))
    peaks = []
    for rows in (64, 640):
        ledger = Ledger()
        observed = ObservedBackend(DeferredBackend(), ledger)
        with closing(factory.make(groups.load("strategy", name), observed)) as strategy:
            X, Y = np.ones((rows, 5), np.float32), np.ones((rows, 1), np.float32)
            strategy.setup(network, X, Y, 8, 0.01)
        peaks.append((ledger.peak_device_bytes, ledger.peak_host_bytes))
    assert peaks[0] == peaks[1]


class Calls(Observer):
    """The calls in order, each with whether it has a stream."""

    def __init__(self):
        self.seen = []

    def after(self, call, live, started, ended):
        self.seen.append((call.name, call.stream is not None))


def test_synchronous_waits_for_each_copy_and_each_step():
    calls, ledger = Calls(), Ledger()
    observed = ObservedBackend(DeferredBackend(), calls, ledger)
    with closing(factory.make(groups.load("strategy", "synchronous"), observed)) as strategy:
        strategy.setup(mlp((5, 8, 1)), np.ones((11, 5), np.float32), np.ones((11, 1), np.float32), 3, 0.01)
        assert (ledger.pageable_allocs, ledger.pageable_alloc_bytes) == (3, 4 * 11 * (5 + 1 + 1))
        calls.seen.clear()
        strategy.epoch()
        found = [next(group) for _, group in itertools.groupby(calls.seen)]
        assert found == [("copy_in", False), ("launch", True), ("copy_out", False)] * 4
        assert sum(name == "copy_in" for name, _ in calls.seen) == 2 * 4
