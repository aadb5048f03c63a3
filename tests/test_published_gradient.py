"""The gradient that the CNN report's optimised program computes, against plain loops over its threads."""

from contextlib import closing
from dataclasses import replace

import layer_oracle as oracle
import numpy as np
import pytest
from deferred import DeferredBackend
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_layers import oracles_of

from snn.config import groups
from snn.models.glibc_random import GlibcRandom
from snn.models.gradients import PublishedOptimised
from snn.models.layers import Conv2d, Linear, MaxPool2d, ReLU
from snn.models.losses import LOSSES
from snn.models.network import Network, draw_weights
from snn.strategies import factory


def published_sums(layer, dy):
    """What 32 threads make of the gradient of a convolution's parameters: every 32nd, from all of them."""
    k, patches = layer.kernel, []
    for r, _, i, j in np.ndindex(len(dy), 1, *dy.shape[2:]):
        patches.append(layer.x[r, :, i : i + k, j : j + k].ravel())
    W, b = layer.parameters
    flat = [np.zeros(W.size + b.size), *(np.zeros_like(one) for one in (W, b))]
    for p in range(W.size + b.size):
        for i, patch in enumerate(patches):
            if i % 32 == p % 32:
                r, y, x = np.unravel_index(i, (len(dy), *dy.shape[2:]))
                term = (
                    dy[r, p // W.shape[1], y, x] * patch[p % W.shape[1]]
                    if p < W.size
                    else dy[r, p - W.size, y, x]
                )
                flat[0][p // 32 * 32] += term
    return flat[0][: W.size].reshape(W.shape), flat[0][W.size :]


@pytest.mark.parametrize("name", ["resident", "reference"])
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.integers(1, 5), filters=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_the_published_optimised_gradient(name, backend, rows, filters, seed):
    compare_published_optimised(name, backend, rows, filters, seed)


@settings(max_examples=5)
@given(rows=st.integers(1, 5), filters=st.integers(1, 5), seed=st.integers(0, 2**32 - 1))
def test_the_published_optimised_gradient_beside_fused_convolutions(rows, filters, seed):
    compare_published_optimised("resident", DeferredBackend(True, True, True), rows, filters, seed)


def compare_published_optimised(name, backend, rows, filters, seed):
    layers = (Conv2d(2, 3, 1), ReLU(), Conv2d(filters, 2), ReLU(), MaxPool2d(2), Linear(3))
    exact = Network((1, 6, 6), layers, LOSSES["cross_entropy"], "he_uniform", "simultaneous")
    network = replace(exact, reduction="sum", gradient=PublishedOptimised())
    random = np.random.default_rng(seed)
    X, labels = random.uniform(-1, 1, (rows, 36)).astype(np.float32), random.integers(0, 3, rows)
    weights = draw_weights(network, GlibcRandom(21))
    with closing(factory.make(groups.load("strategy", name), backend)) as strategy:
        strategy.setup(network, X, np.eye(3, dtype=np.float32)[labels], rows, 0.01)
        strategy.load(weights)
        strategy.epoch()
        found = strategy.weights()

    before = oracles_of(network, weights)
    x = oracle.predict(before, X.astype(np.float64).reshape(rows, 1, 6, 6))
    dy = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) - np.eye(3)[labels]
    of_linear = before[5].gradients(dy)
    dy = before[3].backward(before[4].backward(before[5].backward(dy)))
    dW, db = published_sums(before[2], dy)
    assert all(np.array_equal(a, b) for a, b in zip(found[:2], weights[:2], strict=True))
    for W, old, gradient in zip(found[2:], weights[2:], (dW, db, *of_linear), strict=True):
        np.testing.assert_allclose(W, old - np.float32(0.01) * gradient, rtol=1e-4, atol=1e-5)
