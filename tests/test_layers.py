"""Networks of any layers: trained by every strategy that can, against loops in float64; and their kernels."""

import cuda_on_cpu
import layer_oracle as oracle
import numpy as np
import pytest
from conftest import ROOT, STRATEGIES
from deferred import DeferredBackend
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from snn.backends.cpu import ops
from snn.backends.ops import OPS, THREADS
from snn.config import groups
from snn.errors import ConfigError, DataError, Unsupported
from snn.models.glibc_random import GlibcRandom
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU, parse
from snn.models.losses import LOSSES
from snn.models.network import Network, draw_weights
from snn.strategies.common import factory

TRAINERS = [name for name in STRATEGIES if factory.class_of(groups.load("strategy", name)).any_network]
OTHERS = [name for name in STRATEGIES if name not in TRAINERS]
OF_LAYERS = [name for name, op in OPS.items() if op.source.startswith("kernels/layers/")]


@st.composite
def networks(draw):
    """Stacks of layers on small images or on columns, with either loss."""
    loss = draw(st.sampled_from(list(LOSSES.values())))
    inputs = shape = draw(st.one_of(st.tuples(*3 * [st.integers(1, 6)]), st.tuples(st.integers(1, 9))))
    layers = []
    for _ in range(draw(st.integers(0, 4))):
        sides = min(shape[1:]) if len(shape) == 3 else 0
        choices = [st.builds(Linear, st.integers(1, 6), st.booleans())]
        if sides:
            padding = draw(st.integers(0, 1))
            kernels = st.integers(1, min(3, sides + 2 * padding))
            choices += 2 * [st.builds(Conv2d, st.integers(1, 3), kernels, st.just(padding))]
            choices.append(st.builds(MaxPool2d, st.integers(1, min(3, sides))))
        if layers:
            choices += 2 * [st.just(ReLU())]
        layers.append(draw(st.one_of(choices)))
        shape = layers[-1].output(shape)
    layers.append(Linear(3 if loss.name == "cross_entropy" else 1))
    if draw(st.integers(0, 5)) == 0:
        layers.append(ReLU())
    return Network(
        inputs,
        tuple(layers),
        loss,
        init="he_uniform",
        update_order=draw(st.sampled_from(["sequential", "simultaneous"])),
        clip_norm=draw(st.sampled_from([None, 0.5])),
    )


def oracles_of(network, weights):
    """The oracle's layers, with the network's weights in float64."""
    wide = iter([W.astype(np.float64) for W in weights])
    made = []
    for layer in network.layers:
        if isinstance(layer, Linear):
            made.append(oracle.Linear(next(wide), next(wide) if layer.bias else None))
        elif isinstance(layer, Conv2d):
            made.append(oracle.Conv2d(next(wide), next(wide), layer.kernel, layer.padding))
        else:
            made.append(oracle.ReLU() if isinstance(layer, ReLU) else oracle.MaxPool2d(layer.size))
    return made


def compare(name, backend, network, rows, batch, seed):
    """Two epochs of a strategy against the oracle."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (rows, int(np.prod(network.inputs)))).astype(np.float32)
    labels = random.integers(0, 3, rows) if network.outputs == 3 else random.normal(size=rows)
    Y = network.loss.targets(labels.astype(np.float32)[:, None], network.outputs)
    weights = draw_weights(network, GlibcRandom(seed % 1000 + 1))
    strategy = factory.make(groups.load("strategy", name), backend)
    try:
        strategy.setup(network, X, Y, batch, 0.01)
        strategy.load(weights)
        for _ in range(2):
            strategy.epoch()
        found, loss = strategy.weights(), strategy.loss()
    finally:
        strategy.close()
    layers = oracles_of(network, weights)
    expected = oracle.train(
        layers,
        X.astype(np.float64).reshape(rows, *network.inputs),
        labels if network.outputs == 3 else labels.astype(np.float32).astype(np.float64),
        steps=2,
        batch_size=batch,
        rate=float(np.float32(0.01)),
        sequential=network.update_order == "sequential",
        clip_norm=network.clip_norm,
        cross_entropy=network.outputs == 3,
    )
    assume(expected < 100)  # a training that diverges multiplies what rounding makes
    assert loss == pytest.approx(expected, rel=1e-3, abs=1e-5)
    trained = [W for layer in layers for W in layer.parameters]
    for W, right in zip(found, trained, strict=True):
        assert W.dtype == np.float32
        assert np.linalg.norm(W - right) <= 1e-3 * (np.linalg.norm(right) + 1e-2)


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks(), rows=st.integers(1, 7), batch=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_any_network_agrees_with_the_oracle(name, backend, network, rows, batch, seed):
    compare(name, backend, network, rows, batch, seed)


@pytest.mark.parametrize(
    ("fused", "pretransposed", "convolves"),
    [(True, False, False), (False, True, False), (True, True, False), (False, False, True), (True, True, True)],
)
@settings(max_examples=12, deadline=None)
@given(network=networks(), rows=st.integers(1, 7), batch=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_every_kind_of_kernel_trains_any_network(fused, pretransposed, convolves, network, rows, batch, seed):
    compare("resident", DeferredBackend(fused, pretransposed, convolves), network, rows, batch, seed)


@pytest.mark.parametrize("name", OTHERS)
def test_a_strategy_of_mlps_says_so(name, backend):
    strategy = factory.make(groups.load("strategy", name), backend)
    with pytest.raises(Unsupported, match="multilayer perceptrons only"):
        strategy.check_network(Network((4,), (Linear(3), ReLU(), Linear(1))))


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("conv2d 16 3", Conv2d(16, 3)),
        ("conv2d 16 3 1", Conv2d(16, 3, 1)),
        ("relu", ReLU()),
        ("maxpool2d 2", MaxPool2d(2)),
        ("linear  10", Linear(10)),
    ],
)
def test_a_layer_is_read_from_its_text(text, layer):
    assert parse(text) == layer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "conv3d 4",
            r"network.layers: 'conv3d 4' is not a layer: one of .*conv2d FILTERS KERNEL \[PADDING\]",
        ),
        ("linear", "'linear' is not right: it must be linear WIDTH"),
        ("linear 3 4", "'linear 3 4' is not right"),
        ("linear 0", "must be at least 1"),
        ("linear x", "in whole numbers"),
        ("", "'' is not a layer"),
        (7, "7 is not a layer"),
    ],
)
def test_a_bad_layer_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("inputs", "layers", "message"),
    [
        ((4,), ("conv2d 2 3", "linear 1"), r"conv2d needs images, .* and has the shape \(4,\)"),
        ((1, 2, 2), ("conv2d 2 3", "linear 1"), "kernel of 3 does not fit images of"),
        ((1, 2, 2), ("maxpool2d 3", "linear 1"), "maxpool2d of 3 does not fit"),
        ((4,), ("relu", "linear 1"), "begins with relu"),
        ((1, 4, 4), ("maxpool2d 2",), "no layer with weights"),
    ],
)
def test_layers_that_do_not_fit_are_refused(inputs, layers, message):
    with pytest.raises(ConfigError, match=message):
        Network(inputs, tuple(map(parse, layers)))


def test_targets_that_do_not_fit_the_loss_are_refused():
    Y = np.array([[0], [1], [2.5]], np.float32)
    with pytest.raises(DataError, match=r"row 3 is 2\.5: cross_entropy needs labels, 0 to 2"):
        LOSSES["cross_entropy"].targets(Y, 3)
    with pytest.raises(ConfigError, match="end in 2 outputs: mean_squared_error needs one"):
        LOSSES["mean_squared_error"].targets(Y, 2)


NUMBERS = {
    "rows": st.integers(1, 5),
    "cols": st.integers(1, 40),
    "count": st.integers(1, 5),
    "channels": st.integers(1, 4),
    "height": st.integers(3, 11),
    "width": st.integers(3, 300),
    "kernel": st.integers(1, 3),
    "padding": st.integers(0, 2),
    "size": st.integers(1, 3),
    "scale": st.just(0.75),
    "rate": st.just(0.125),
    "parts": st.integers(1, 20),
    "weights": st.integers(1, 100),
    "biases": st.integers(1, 9),
}


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("op", OF_LAYERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_layers_kernel_agrees_with_numpy_in_float64(op, data, seed):
    described, random = OPS[op], np.random.default_rng(seed)
    numbers = tuple(data.draw(NUMBERS[name]) for name in described.numbers)
    sizes = described.elements(*numbers)
    operands = [random.standard_normal(size, dtype=np.float32) for size in sizes]
    wide = [operand.astype(np.float64) for operand in operands]
    blocks = -(-described.threads(*numbers) // THREADS)
    values = [np.float32(n) if isinstance(n, float) else n for n in numbers]
    cuda_on_cpu.load(ROOT / described.source)[op]((blocks,), (THREADS,), (*operands, *values))
    getattr(ops, op)(*wide, *numbers)
    for name, mine, right in zip(described.operands, operands, wide, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-4, err_msg=name)
