"""Networks of layers trained by what is not ours to launch: CPU baselines, and PyTorch and JAX.

``test_layers`` has the tests over all strategies; these train longer, and see to what only these have.
"""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from conftest import PEERS, STRATEGIES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_layers import compare, networks

from snn.backends.cpu.backend import CpuBackend
from snn.config import groups
from snn.errors import Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.gradients import PublishedNaive
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU
from snn.models.losses import LOSSES
from snn.models.network import Network, draw_weights, mlp
from snn.profiling.ledger import Ledger
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory

BASELINES = [name for name in STRATEGIES if factory.class_of(groups.load("strategy", name)).on_host]
LAYERS = (Conv2d(3, 3, 1), ReLU(), Conv2d(4, 2), ReLU(), MaxPool2d(2), Linear(5), ReLU(), Linear(3))
CNN = Network((2, 7, 6), LAYERS, LOSSES["cross_entropy"], "he_uniform", "simultaneous")
FEW = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
SLOW_TO_COMPILE = ("torch_compile",)


def made(name, backend, **options):
    return factory.make(groups.load("strategy", name) | options, backend)


def data(rows, random):
    X = random.uniform(-1, 1, (rows, int(np.prod(CNN.inputs)))).astype(np.float32)
    return X, np.eye(3, dtype=np.float32)[random.integers(0, 3, rows)]


@pytest.mark.parametrize("name", [name for name in PEERS if name not in SLOW_TO_COMPILE])
@FEW
@given(network=networks(), rows=st.integers(5, 7), seed=st.integers(0, 2**32 - 1))
def test_a_few_dozen_steps_agree_with_the_oracle(name, backend, network, rows, seed):
    compare(name, backend, network, rows, 2, seed, epochs=12, error=1e-4)


@pytest.mark.parametrize("name", SLOW_TO_COMPILE)
@pytest.mark.parametrize("order", ["sequential", "simultaneous"])
def test_a_few_dozen_compiled_steps_agree_with_the_oracle(name, backend, order):
    network = replace(CNN, update_order=order, clip_norm=0.5 if order == "sequential" else None)
    compare(name, backend, network, 5, 2, 1, epochs=12, error=1e-4)


@pytest.mark.parametrize("name", BASELINES + PEERS)
def test_the_published_gradients_are_unsupported(name):
    strategy = made(name, CpuBackend())
    strategy.check_network(CNN)
    with pytest.raises(Unsupported, match=r"published_naive .*: choose training.gradient=exact"):
        strategy.check_network(replace(CNN, gradient=PublishedNaive(256)))


class Unknown(ReLU):
    """A layer that only its own class describes."""

    def forward(self, step, i, x):
        z = step.activation(i, x.shape)
        step.launch("transpose", (x.name, z.name), (step.rows, x.size))
        return z


@pytest.mark.parametrize("name", ["sequential", "torch_eager", "jax_scan"])
def test_a_layer_without_a_form_of_its_own_is_unsupported(name):
    if runtime := factory.class_of(groups.load("strategy", name)).own_runtime:
        pytest.importorskip(runtime)
    network = replace(CNN, layers=(Linear(4), Unknown(), Linear(3)))
    with pytest.raises(Unsupported, match=r"unknown|operation transpose"):
        made(name, CpuBackend()).setup(network, *data(4, np.random.default_rng(1)), 2, 0.01)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_allocates_everything_before_training_and_copies_nothing(name, random):
    ledger, X_Y = Ledger(), data(5, random)
    observed = ObservedBackend(CpuBackend(), ledger)
    with closing(made(name, observed)) as strategy:
        strategy.setup(CNN, *X_Y, 2, 0.01)
        strategy.load(draw_weights(CNN, GlibcRandom(1)))
        before = ledger.totals()
        strategy.epoch()
        assert ledger.totals() == before
        assert {key for key, n in before.items() if n} == {"pageable_allocs", "pageable_alloc_bytes"}
    observed.live.check_nothing_held()


def trained(strategy, X_Y, epochs=2):
    strategy.setup(CNN, *X_Y, 2, 0.05)
    try:
        strategy.load(draw_weights(CNN, GlibcRandom(1)))
        for _ in range(epochs):
            strategy.epoch()
        return strategy.weights()
    finally:
        strategy.close()


def test_the_number_of_threads_changes_no_bit(random):
    numba = pytest.importorskip("numba")
    if numba.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("one processor")
    X_Y = data(5, random)
    one, two = (trained(made("threads", CpuBackend(), threads=threads), X_Y) for threads in (1, 2))
    assert all(map(np.array_equal, one, two))


@pytest.mark.parametrize("channels_last", [True, False])
def test_the_order_of_channels_in_memory_changes_no_training(channels_last, backend):
    pytest.importorskip("torch")
    compare("torch_eager", backend, CNN, 5, 2, 2, epochs=12, error=1e-4, channels_last=channels_last)


def test_losses_of_an_epoch_are_kept_of_a_perceptron_too(backend, random):
    network, X, Y = (
        mlp((4, 3, 1), init="he_uniform"),
        random.random((7, 4), "f4"),
        random.random((7, 1), "f4"),
    )
    kept = {}
    for name in ("reference", *BASELINES, *PEERS):
        strategy = made(name, backend)
        strategy.keeps_losses = True
        try:
            strategy.check_network(network)
            strategy.setup(network, X, Y, 3, 0.01)
            strategy.load(draw_weights(network, GlibcRandom(1)))
            strategy.epoch()
            kept[name] = strategy.epoch_losses(), strategy.predict(X)
            assert strategy.loss() == pytest.approx(kept[name][0][-1], rel=1e-6)
        except Unsupported:
            continue
        finally:
            strategy.close()
    assert len(kept) > 2
    for losses, outputs in kept.values():
        np.testing.assert_allclose(losses, kept["reference"][0], rtol=1e-5)
        np.testing.assert_allclose(outputs, kept["reference"][1], rtol=1e-5, atol=1e-6)
