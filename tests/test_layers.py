"""Networks of any layers: trained by every strategy that can, against float64; and their kernels."""

from dataclasses import replace

import cuda_on_cpu
import numpy as np
import pytest
from conftest import ROOT, SINGLE
from deferred import DeferredBackend
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from in_float64 import Training
from test_strategies import ON_CPU

from snn.backends.cpu import ops
from snn.backends.cpu.backend import CpuBackend
from snn.backends.ops import OPS, THREADS
from snn.config import groups
from snn.errors import ConfigError, Unsupported
from snn.measurement.accuracy import accuracy, predicted
from snn.models.gradients import EXACT, PublishedNaive
from snn.models.layers import (
    ACTIVATIONS,
    AvgPool2d,
    Conv2d,
    Flatten,
    LayerNorm,
    Linear,
    MaxPool2d,
    ReLU,
    check_order,
    parse,
)
from snn.models.losses import LOSSES
from snn.models.network import REDUCTIONS, Network
from snn.models.training_step import prediction_step, training_step
from snn.strategies import factory
from snn.strategies.device_driven import Resident

TRAINERS = [name for name in SINGLE if factory.class_of(groups.load("strategy", name)).any_network]
WHOLE = ("row_order", "take_rows", "dropout", "dropout_gradient", "count_dropout")
"""Their operands are not all real numbers: ``test_row_order`` and ``test_norms`` test them."""
LAYERS = "kernels/layers/"
OF_LAYERS = [n for n, op in OPS.items() if op.source.startswith(LAYERS) and n not in (*WHOLE, "add_squares")]


def fits(*layers):
    """Whether no activation overwrites what is still needed."""
    try:
        check_order(layers)
    except ConfigError:
        return False
    return True


@st.composite
def networks(draw):
    """Stacks of layers on small images or on columns, with any loss."""
    loss = draw(st.sampled_from(list(LOSSES.values())))
    inputs = shape = draw(st.one_of(st.tuples(*3 * [st.integers(1, 6)]), st.tuples(st.integers(1, 9))))
    layers = []
    for _ in range(draw(st.integers(0, 4))):
        sides = min(shape[1:]) if len(shape) == 3 else 0
        choices = [st.builds(Linear, st.integers(1, 6), st.booleans())]
        if sides:
            padding = draw(st.integers(0, 1))
            kernels = st.integers(1, min(3, sides + 2 * padding))
            strides = st.integers(1, 3)
            choices += 2 * [st.builds(Conv2d, st.integers(1, 3), kernels, st.just(padding), strides)]
            choices += [st.builds(kind, st.integers(1, min(3, sides))) for kind in (MaxPool2d, AvgPool2d)]
            choices.append(st.just(Flatten()))
        choices += 2 * [st.just(ReLU())] if layers and fits(*layers, ReLU()) else []
        activations = [layer() for layer in ACTIVATIONS.values() if fits(*layers, layer())]
        choices += 2 * [st.sampled_from(activations)]
        choices += [st.just(LayerNorm())] if np.prod(shape) > 4 else []
        layers.append(draw(st.one_of(choices)))
        shape = layers[-1].output(shape)
    outputs = {"cross_entropy": 3, "binary_cross_entropy": draw(st.sampled_from([1, 3]))}
    layers.append(Linear(outputs.get(loss.name, 1)))
    if draw(st.integers(0, 5)) == 0:
        layers.append(ReLU())
    return Network(
        inputs,
        tuple(layers),
        loss,
        init="he_uniform",
        update_order=draw(st.sampled_from(["sequential", "simultaneous"])),
        clip_norm=draw(st.sampled_from([None, 0.5])),
        reduction=draw(st.sampled_from(REDUCTIONS)),
        gradient=draw(st.sampled_from([EXACT, EXACT, PublishedNaive(2)])),
    )


def compare(name, backend, network, rows, batch, seed, epochs=2, error=1e-3):
    """Some epochs of a strategy against the oracle: losses, outputs, and the norm of each parameter."""
    kind = factory.class_of(groups.load("strategy", name))
    if kind.on_host or kind.own_runtime:
        network = replace(network, gradient=EXACT)  # they have no other
    if name == "torch_loader":
        network = replace(network, update_order="simultaneous")
    training = Training(rows, batch, epochs, 0.01, seed, seed % 1000 + 1)
    right, (X, *_) = training.exact(network), training.data(network)
    if not max(right.losses) < 100:  # a training that diverges multiplies what rounding makes
        reject()
    if right.closest < 1e-6:
        reject()  # rounding decided which way an input went: either is right
    with training.started(name, backend, network, keeps_losses=seed % 2 == 0) as strategy:
        for _ in range(epochs):
            strategy.epoch()
        found, loss = strategy.weights(), strategy.loss()
        losses = strategy.epoch_losses() if strategy.keeps_losses else [loss]
        predictions = [strategy.predict(X) for _ in range(2)]
        assert all(map(np.array_equal, found, strategy.weights()))
    assert loss == pytest.approx(right.losses[-1], rel=error, abs=error / 10)
    np.testing.assert_allclose(losses, right.losses[-len(losses) :], rtol=error, atol=error / 10)
    for outputs in (*predictions, predicted(network, found, X)):
        np.testing.assert_allclose(outputs, right.outputs, rtol=error, atol=error)
    for W, expected in zip(found, right.weights, strict=True):
        assert W.dtype == np.float32
        assert np.linalg.norm(W - expected) <= error * (np.linalg.norm(expected) + 1e-2)


@pytest.mark.parametrize("name", TRAINERS)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks(), rows=st.integers(1, 7), batch=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_any_network_agrees_with_the_oracle(name, backend, network, rows, batch, seed):
    compare(name, backend, network, rows, batch, seed)


@pytest.mark.parametrize("name", ["resident", "reference"])
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks(), rows=st.integers(1, 5), batch=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_fifty_steps_stay_within_a_ten_thousandth_of_the_oracle(name, backend, network, rows, batch, seed):
    compare(name, backend, network, rows, batch, seed, epochs=-(-50 // -(-rows // batch)), error=1e-4)


@pytest.mark.parametrize(
    ("fused", "pretransposed", "convolves"),
    [
        (True, False, False),
        (False, True, False),
        (True, True, False),
        (False, False, True),
        (True, True, True),
    ],
)
@settings(max_examples=12)
@given(network=networks(), rows=st.integers(1, 7), batch=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_every_kind_of_kernel_trains_any_network(fused, pretransposed, convolves, network, rows, batch, seed):
    compare("resident", DeferredBackend(fused, pretransposed, convolves), network, rows, batch, seed)


@pytest.mark.parametrize("name", [name for name in TRAINERS if name not in ON_CPU or name == "graph"])
@settings(max_examples=8)
@given(network=networks(), rows=st.integers(1, 7), batch=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_any_network_is_trained_on_streams_that_lag(name, network, rows, batch, seed):
    compare(name, DeferredBackend(), network, rows, batch, seed)


def test_accuracy_counts_the_first_of_equal_outputs_and_no_nan():
    network = Network((2,), (Linear(2, bias=False),), LOSSES["cross_entropy"])
    X = np.array([[1, 0], [0, 1], [1, 1], [np.nan, 1]], np.float32)
    assert accuracy(network, [np.eye(2, dtype=np.float32)], X, np.array([0, 1, 0, 0])) == 0.75
    assert accuracy(network, [np.eye(2, dtype=np.float32)], X, np.array([1, 1, 1, 0])) == 0.25


@pytest.mark.parametrize(("rounds_once", "clip_norm"), [(False, None), (True, None), (False, 0.05)])
@settings(max_examples=10)
@given(size=st.integers(1, 5), filters=st.integers(1, 4), padding=st.integers(0, 2), data=st.data())
def test_a_pooling_in_its_convolutions_launch(rounds_once, clip_norm, size, filters, padding, data):
    """Layers as in the network cnn, whose pooling is fused where its windows are small."""
    layers = Conv2d(2, 3), ReLU(), Conv2d(filters, 2, padding), ReLU(), MaxPool2d(size), Linear(3)
    network = Network((2, 9, 8), layers, LOSSES["cross_entropy"], "he_uniform", "simultaneous", clip_norm)
    network = replace(network, gradient=PublishedNaive(2) if rounds_once else EXACT)
    step = training_step(network, 3, 0.01, fused=True, convolves=True)
    ops_of_step = [launch.op for launch in step.launches]
    assert ("conv2d_relu_pool" in ops_of_step) == ("conv2d_dgrad_pooled_mask" in ops_of_step) == (size <= 4)
    assert ("update_parts" in ops_of_step) == (not rounds_once and clip_norm is None)
    seed = data.draw(st.integers(0, 2**32 - 1))
    compare("resident", DeferredBackend(True, False, True), network, 5, 3, seed)


@pytest.mark.parametrize("kernel", [16, 17])
def test_large_kernels_are_products_of_patches(kernel):
    network = Network((1, 18, 18), (Conv2d(2, kernel), Linear(3)), LOSSES["cross_entropy"], "he_uniform")
    launches = training_step(network, 2, 0.01, fused=True, convolves=True).launches
    assert launches[0].op == ("conv2d" if kernel == 16 else "im2col")
    compare("resident", DeferredBackend(True, False, True), network, 3, 2, 5)


class OfPerceptrons(Resident):
    any_network = False


def test_a_strategy_of_mlps_says_so():
    strategy = OfPerceptrons(CpuBackend())
    with pytest.raises(Unsupported, match="multilayer perceptrons only"):
        strategy.check_network(Network((4,), (Linear(3), ReLU(), Linear(1))))


NUMBERS = {
    "rows": st.integers(1, 5),
    "cols": st.integers(1, 40),
    "count": st.integers(1, 5),
    "channels": st.integers(1, 4),
    "height": st.integers(3, 11),
    "width": st.integers(3, 300),
    "kernel": st.integers(1, 3),
    "padding": st.integers(0, 2),
    "stride": st.integers(1, 3),
    "size": st.integers(1, 3),
    "filters": st.integers(1, 40),
    "n": st.integers(1, 700),
    "kept": st.integers(1, 700),
    "inputs": st.integers(1, 40),
    "scale": st.just(0.75),
    "rate": st.just(0.125),
    "max_norm": st.just(2.5),
    "momentum": st.just(0.75),
    "decay": st.sampled_from([0.0, 0.25]),
    "gain1": st.sampled_from([1.0, 0.125]),
    "gain2": st.sampled_from([1.0, 0.0625]),
    "eps": st.just(0.01),
    "form": st.integers(0, 2),
    "warmup": st.integers(0, 3),
    "length": st.integers(1, 3),
    "end": st.sampled_from([0.5, 0.0]),
    "parts": st.integers(1, 20),
    "steps": st.integers(1, 300),
    "pixels": st.sampled_from([1, 1, 2, 40]),
    "weights": st.integers(1, 100),
    "biases": st.integers(1, 9),
}

_KINDS = {True: "a float32", False: "a whole number"}


@pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")
@pytest.mark.parametrize("op", OF_LAYERS)
@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_layers_kernel_agrees_with_numpy_in_float64(op, data, seed):
    described, random = OPS[op], np.random.default_rng(seed)
    unknown = set(described.numbers) - NUMBERS.keys()
    assert not unknown, f"{op} has numbers without a range in NUMBERS: {', '.join(sorted(unknown))}"
    numbers = tuple(data.draw(NUMBERS[name]) for name in described.numbers)
    for name, number in zip(described.numbers, numbers, strict=True):
        is_real = name in described.reals
        assert is_real == isinstance(number, float), (
            f"{op}: {name} is {_KINDS[is_real]} on a GPU: Op.reals in snn/backends/ops.py names the others"
        )
    sizes = described.elements(*numbers)
    operands = [random.standard_normal(size, dtype=np.float32) for size in sizes]
    for name, operand in zip(described.operands, operands, strict=True):
        np.abs(operand, out=operand, where=name in "STV")  # squares, and the number of a step
    wide = [operand.astype(np.float64) for operand in operands]
    blocks = -(-described.threads(*numbers) // THREADS)
    values = [np.float32(n) if isinstance(n, float) else n for n in numbers]
    cuda_on_cpu.load(ROOT / described.source)[op]((blocks,), (THREADS,), (*operands, *values))
    getattr(ops, op)(*wide, *numbers)
    for name, mine, right in zip(described.operands, operands, wide, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("fused", [False, True])
def test_a_kernel_that_convolves_is_asked_for_convolutions_and_no_patches(fused):
    layers = tuple(map(parse, ("conv2d 2 3", "relu", "maxpool2d 2", "linear 3")))
    network = Network((1, 6, 6), layers, LOSSES["cross_entropy"])
    steps = training_step(network, 2, 0.1, fused, convolves=True), prediction_step(network, 2, fused, True)[0]
    for step in steps:
        ops = {launch.op for launch in step.launches}
        assert any(op.startswith("conv2d") for op in ops)
        assert not ops & {"im2col", "col2im", "transpose_each"}
