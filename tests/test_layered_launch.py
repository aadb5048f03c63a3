"""Stacks of linear layers in one launch: the kernel on the CPU, and on a GPU, against a float64 oracle."""

from contextlib import closing

import cuda_on_cpu
import emulated_launch
import layer_oracle
import numpy as np
import pytest
from conftest import ROOT
from layered_shapes import FEW, SHAPES, TURING, network_of, plan_for

from snn.backends import kernel_source
from snn.backends.cpu import trainings
from snn.backends.launches import Steps
from snn.backends.launches.layers import SOURCE
from snn.strategies.one_launch import Persistent, in_batches

RATE = 0.05

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


def made(one, rows, random):
    """Data, its targets as an oracle and as a kernel has them, and fresh parameters; biases are not zero."""
    X = random.uniform(-1, 1, (rows, one.features)).astype(np.float32)
    if one.cross_entropy:
        labels = random.integers(0, one.outputs, rows)
        Y = np.eye(one.outputs, dtype=np.float32)[labels]
    else:
        labels = Y = random.uniform(-1, 1, (rows, one.outputs)).astype(np.float32)
    weights = []
    for parameter in network_of(one).parameters:
        limit = np.sqrt(3 / (parameter.fan_in or 100))
        weights.append(random.uniform(-limit, limit, parameter.shape).astype(np.float32))
    return X, labels, Y, weights


def padded_shapes(one):
    for k, n, layer in zip(one.padded_widths, one.padded_widths[1:], one.layers, strict=False):
        yield from [(k, n), (n,)] if layer.bias else [(k, n)]


def buffers_of(one, X, Y, weights):
    """What the op is launched on; what is not read before it is written is not a number."""
    flat = []
    for W, size in zip(weights, padded_shapes(one), strict=True):
        larger = np.zeros(size, np.float32)
        larger[tuple(map(slice, W.shape))] = W
        flat.append(larger.ravel())
    E, S = (np.full(size, np.nan, np.float32) for size in one.elements(len(X))[-2:])
    S[:32] = 0  # the head
    inputs, *_, outputs = one.padded_widths
    X, Y = (in_batches(M, one.batch, n, one.rows) for M, n in ((X, inputs), (Y, outputs)))
    return [X, Y, np.concatenate(flat), E, S]


def launched(one, buffers, rows, epochs, rate=RATE, limits=FEW, source=None, **further):
    steps = epochs * -(-rows // one.batch)
    emulated_launch.launched(plan_for(one, limits), buffers, Steps(rows, 0, steps, rate), source, **further)


def by_numpy(one, buffers, rows, epochs, rate=RATE):
    steps = epochs * -(-rows // one.batch)
    trainings.train(one, [b.reshape(-1) for b in buffers], Steps(rows, 0, steps, rate))


def oracle(one, X, Y, weights, epochs, rate=RATE):
    """Parameters in float64, and E of the last epoch, by plain formulae; Y as the kernel has it."""
    parameters, errors = [W.astype(np.float64) for W in weights], []
    for _ in range(epochs):
        errors = []
        for start in range(0, len(X), one.batch):
            x, y = (M[start : start + one.batch].astype(np.float64) for M in (X, Y))
            errors += oracle_step(one, parameters, x, y, rate)
    return parameters, np.array(errors)


def oracle_step(one, parameters, x, y, rate):
    inputs, of_layer, at = [], [], 0
    for layer in one.layers:
        of_layer.append(parameters[at : at + 1 + layer.bias])
        inputs.append(x)
        x = x @ parameters[at] + (parameters[at + 1] if layer.bias else 0)
        x = np.maximum(x, 0) if layer.relu else x
        at += 1 + layer.bias
    if one.cross_entropy:
        p = np.exp(x - x.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        errors, d = -np.log((p * y).sum(axis=1)), p - y
    else:
        errors, d = (x - y).ravel(), 2 * (x - y)
    d = d / len(x) if one.mean else d
    for i in reversed(range(len(one.layers))):
        W, *b = of_layer[i]
        old = W.copy()
        W -= rate * inputs[i].T @ d
        if b:
            b[0][...] -= rate * d.sum(axis=0)
        d = d @ (W if one.sequential else old).T
        if i and one.layers[i - 1].relu:
            d[inputs[i] <= 0] = 0
    return list(errors)


def check(one, buffers, expected, errors, within=3e-6):
    at = 0
    for exact, size in zip(expected, padded_shapes(one), strict=True):
        found = buffers[2][at : at + int(np.prod(size))].reshape(size)
        at += found.size
        real = tuple(map(slice, exact.shape))
        assert np.linalg.norm(found[real] - exact) < within * max(np.linalg.norm(exact), 1e-2)
        assert np.count_nonzero(found) == np.count_nonzero(found[real])
    np.testing.assert_allclose(buffers[3], errors, rtol=20 * within, atol=20 * within)


# ---- the kernel, on the CPU


@on_cpu
@pytest.mark.parametrize("name", SHAPES)
def test_the_kernel_and_numpy_train_as_the_oracle(name, random):
    one = SHAPES[name]
    rows, epochs = 2 * one.batch + max(1, one.batch // 3), 2
    X, _, Y, weights = made(one, rows, random)
    buffers, numpys = (buffers_of(one, X, Y, weights) for _ in range(2))
    launched(one, buffers, rows, epochs)
    by_numpy(one, numpys, rows, epochs)
    for found in (buffers, numpys):
        check(one, found, *oracle(one, X, Y, weights, epochs))


@on_cpu
@pytest.mark.parametrize("name", ["classifier", "regression"])
def test_the_formulae_are_those_of_the_oracle_of_layers(name, random):
    one = SHAPES[name]
    X, labels, Y, weights = made(one, one.batch + 5, random)
    mine, _ = oracle(one, X, Y, weights, 2)
    (W1, b1, W2, b2) = other = [W.astype(np.float64) for W in weights]
    layers = [layer_oracle.Linear(W1, b1), layer_oracle.ReLU(), layer_oracle.Linear(W2, b2)]
    targets = labels if one.cross_entropy else labels[:, 0]
    given = {"sequential": one.sequential, "clip_norm": None, "cross_entropy": one.cross_entropy}
    layer_oracle.train(layers, X.astype(float), targets, steps=2, batch_size=one.batch, rate=RATE, **given)
    for a, b in zip(mine, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@on_cpu
def test_the_kernel_trains_without_tensor_cores(random):
    one = SHAPES["classifier"]
    X, _, Y, weights = made(one, 50, random)
    buffers = buffers_of(one, X, Y, weights)
    launched(one, buffers, 50, 1, limits=TURING, __CUDA_ARCH__=750)
    check(one, buffers, *oracle(one, X, Y, weights, 1))


@on_cpu
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_not_a_number_ends_as_such(which, random):
    one = SHAPES["classifier"]
    X, _, Y, weights = made(one, 50, random)
    buffers = buffers_of(one, X, Y, weights)
    buffers[which].reshape(-1)[0] = np.nan
    launched(one, buffers, 50, 2)
    assert np.isnan(buffers[3]).all()


@on_cpu
@pytest.mark.parametrize("name", ["classifier", "in turn"])
def test_a_missing_barrier_is_a_race(name, tmp_path, random):
    one = SHAPES[name]
    X, _, Y, weights = made(one, 50, random)
    text = kernel_source.text(ROOT / SOURCE)
    assert text.count("cuda_on_cpu::grid_barrier();") == 1
    broken = tmp_path / "layers.cu"
    broken.write_text(text.replace("cuda_on_cpu::grid_barrier();", "__syncthreads();"))
    with pytest.raises(cuda_on_cpu.KernelError, match="a race"):
        launched(one, buffers_of(one, X, Y, weights), 50, 1, source=broken)


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", SHAPES)
def test_after_fifty_steps_the_parameters_are_the_oracles(name, random, cuda_backend):
    one = SHAPES[name]
    rows, found = 4 * one.batch + 1, []
    X, _, Y, weights = made(one, rows, random)
    with closing(Persistent(cuda_backend)) as strategy:
        strategy.setup(network_of(one), X, Y, one.batch, 0.01)
        assert "blocks together" in strategy.plan
        for _ in range(3):
            strategy.load(weights)
            strategy.train(10)
            found.append((*strategy.weights(), strategy.epoch_losses()))
    expected, _ = oracle(one, X, Y, weights, 10, 0.01)
    for W, exact in zip(found[0], expected, strict=False):
        assert np.linalg.norm(W - exact) < 1e-4 * max(np.linalg.norm(exact), 1e-2)
    for again in found[1:]:
        for a, b in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(a, b)
