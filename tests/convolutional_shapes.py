"""Convolutional networks that are trained in one launch, their data, and their kernel on the CPU."""

from dataclasses import replace

import cuda_on_cpu
import emulated_launch
import numpy as np
import pytest
from in_float64 import exactly
from layered_shapes import steps_of, training_of

from snn.backends.launches import DeviceCapability
from snn.backends.launches.convolution import ConvolutionalShape
from snn.models.layers import parse
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network

H200, T4 = DeviceCapability(132, 232448, (9, 0)), DeviceCapability(40, 65536, (7, 5))
FEW = DeviceCapability(4, 232448, (9, 0))  # SMs: parts of several rows, or whole images
CNN = ConvolutionalShape(64, True, 1, 28, 28, 16, 3, 0, 32, 3, 0, 2, 10)
COLOUR = ConvolutionalShape(37, True, 3, 20, 17, 12, 5, 1, 24, 3, 1, 2, 7)

# Sides that no window divides, padding, several channels, even kernels, parts of unequal rows.
SMALL = {
    "square": ConvolutionalShape(2, True, 1, 9, 9, 5, 3, 0, 9, 3, 0, 2, 3),
    "uneven": ConvolutionalShape(3, False, 2, 11, 9, 7, 2, 1, 17, 3, 1, 2, 4),
    "threes": ConvolutionalShape(2, True, 3, 13, 10, 17, 5, 2, 5, 2, 0, 3, 5),
    "unpooled": ConvolutionalShape(2, True, 1, 8, 7, 3, 3, 0, 33, 3, 2, 1, 2),
    "one": ConvolutionalShape(1, True, 1, 1, 1, 1, 1, 0, 1, 1, 0, 1, 2),
}

FURTHER = {
    "adam": replace(SMALL["square"], update="adam_update", states=2, scheduled=True, shuffled=True),
    "momentum": replace(SMALL["uneven"], update="momentum_update", states=1, shuffled=True),
}
"""With other optimisers, and in another order of the rows in each epoch."""

on_cpu = pytest.mark.skipif(cuda_on_cpu.MISSING, reason="no g++ on this machine")


def network_of(shape, **others):
    texts = (
        f"conv2d {shape.filters1} {shape.kernel1} {shape.padding1}",
        "relu",
        f"conv2d {shape.filters2} {shape.kernel2} {shape.padding2}",
        "relu",
        f"maxpool2d {shape.window}",
        f"linear {shape.outputs}",
    )
    given = {"loss": CROSS_ENTROPY, "update_order": "simultaneous"}
    given["reduction"] = "mean" if shape.mean else "sum"
    inputs = (shape.channels, shape.height, shape.width)
    return Network(inputs, tuple(map(parse, texts)), **(given | training_of(shape) | others))


def made(shape, rows, random):
    """Images, labels, one-hot targets and fresh parameters; biases are not zero."""
    X = random.uniform(0, 1, (rows, shape.channels, shape.height, shape.width)).astype(np.float32)
    labels = random.integers(0, shape.outputs, rows)
    weights = []
    for parameter in network_of(shape).parameters:
        limit = np.sqrt(6 / (parameter.fan_in or 100))
        weights.append(random.uniform(-limit, limit, parameter.shape).astype(np.float32))
    return X, labels, np.eye(shape.outputs, dtype=np.float32)[labels], weights


def plan_for(shape, limits=H200):
    found = list(shape.configurations(limits))
    assert len(found) == 1
    return found[0]


def oracle(shape, X, labels, weights, epochs, rate):
    """Parameters and losses of the last epoch in float64.

    Only where no ReLU or pooling window comes close to a decision that rounding could turn (``one_step``).
    """
    exact = exactly(network_of(shape), X, labels, weights, epochs, shape.batch, rate)
    closest = exact.closest
    assert closest > 5e-6, f"rounding decides a unit whose argument is {closest:.1e}: take other data"
    return exact.weights, exact.losses


def buffers_of(shape, X, Y, weights):
    """What the op is launched on; what is not read before it is written is not a number."""
    sizes = dict(zip(shape.operands, shape.elements(len(X)), strict=True))
    E, S = (np.full(sizes[name], np.nan, np.float32) for name in "ES")
    S[:32] = 0  # the head
    state = [np.zeros(sizes["M"], np.float32)] if shape.states else []
    return [*(a.reshape(-1).copy() for a in (X, Y, *weights)), *state, E, S]


def launched(shape, buffers, rows, epochs, rate, source=None, limits=H200, **further):
    steps = steps_of(shape, rows, epochs, rate)
    emulated_launch.launched(plan_for(shape, limits), buffers, steps, source, **further)


def check(shape, found, E, rows, expected, losses, within):
    for W, exact in zip(found, expected, strict=True):
        assert np.linalg.norm(W - exact.reshape(-1)) < within * max(np.linalg.norm(exact), 1e-3)
    batches = [E[i : i + shape.batch].mean() for i in range(0, rows, shape.batch)]
    np.testing.assert_allclose(batches, losses, rtol=10 * within)
