"""Stacks of linear layers in one launch: the kernel on the CPU, and on a GPU, against a float64 oracle."""

from contextlib import closing

import cuda_on_cpu
import layer_oracle
import numpy as np
import pytest
from conftest import further
from emulated_launch import faulty
from layered_shapes import (
    FURTHER,
    RATE,
    SHAPES,
    TURING,
    buffers_of,
    by_numpy,
    check,
    launched,
    made,
    network_of,
    oracle,
    plan_for,
)

from snn.backends.launches.linear import CROSS_ENTROPY
from snn.strategies.one_launch import OneLaunch, layered_shape

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


# ---- the kernel, on the CPU


@on_cpu
@pytest.mark.parametrize(
    "name",
    [further(name) if name in ("deep in turn", "outputs", "one layer") else name for name in SHAPES],
)
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
@pytest.mark.parametrize(
    "name", [further(name) if name in ("nesterov", "shuffled", "huber") else name for name in FURTHER]
)
def test_so_they_do_with_every_optimizer_and_order(name, random):
    one = FURTHER[name]
    rows, rate = 2 * one.batch + 7, 0.005
    X, _, Y, weights = made(one, rows, random)
    buffers, numpys = (buffers_of(one, X, Y, weights) for _ in range(2))
    launched(one, buffers, rows, 3, rate)
    check(one, buffers, *oracle(one, X, Y, weights, 3, rate), 1e-5)
    by_numpy(one, numpys, rows, 17, rate)
    check(one, numpys, *oracle(one, X, Y, weights, 17, rate), 1e-5)


@on_cpu
@pytest.mark.parametrize("name", ["classifier", "regression"])
def test_the_formulae_are_those_of_the_oracle_of_layers(name, random):
    one = SHAPES[name]
    X, labels, Y, weights = made(one, one.batch + 5, random)
    mine, _ = oracle(one, X, Y, weights, 2)
    (W1, b1, W2, b2) = other = [W.astype(np.float64) for W in weights]
    layers = [layer_oracle.Linear(W1, b1), layer_oracle.ReLU(), layer_oracle.Linear(W2, b2)]
    is_classifier = one.loss == CROSS_ENTROPY
    targets = labels if is_classifier else labels[:, 0]
    given = {"sequential": one.sequential, "clip_norm": None, "cross_entropy": is_classifier}
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
    broken = faulty(plan_for(one).source, "cuda_on_cpu::grid_barrier();", "__syncthreads();", tmp_path)
    with pytest.raises(cuda_on_cpu.KernelError, match="a race"):
        launched(one, buffers_of(one, X, Y, weights), 50, 1, source=broken)


# ---- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", SHAPES | FURTHER)
def test_after_fifty_steps_the_parameters_are_the_oracles(name, random, cuda_backend):
    one, within = (FURTHER[name], 1e-5) if name in FURTHER else (SHAPES[name], 1e-4)
    rows, found = 4 * one.batch + 1, []
    X, _, Y, weights = made(one, rows, random)
    with closing(OneLaunch(cuda_backend, layered_shape)) as strategy:
        strategy.setup(network_of(one), X, Y, one.batch, 0.01)
        assert "blocks together" in strategy.plan
        for _ in range(3):
            strategy.load(weights)
            strategy.train(10)
            found.append((*strategy.weights(), strategy.epoch_losses()))
    expected, _ = oracle(one, X, Y, weights, 10, 0.01)
    for W, exact in zip(found[0], expected, strict=False):
        assert np.linalg.norm(W - exact) < within * max(np.linalg.norm(exact), 1e-2)
    for again in found[1:]:
        for a, b in zip(found[0], again, strict=True):
            np.testing.assert_array_equal(a, b)
