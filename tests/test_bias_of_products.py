"""Products on tensor cores of long sums of one sign: what rounding towards 0 would add up to, on the CPU.

The emulator truncates sums as an NVIDIA H100 does.
"""

import itertools

import layered_shapes
import numpy as np
import pytest
import test_layered_launch
from convolutional_shapes import ConvolutionalShape, on_cpu
from convolutional_shapes import buffers_of as convolutional_buffers
from convolutional_shapes import launched as convolve
from emulated_launch import launched
from oracle import train
from test_persistent_on_cpu import H200, SMALL, made, plan_for

from snn.backends.cpu import trainings
from snn.backends.launches import Steps


def relative(found, right):
    """The mean of the relative differences, with their sign."""
    right = np.asarray(right, np.float64)
    return float(np.mean((found - right) / np.abs(right)))


def positive(shape, k, random):
    return (random.uniform(0, 2 / k, shape)).astype(np.float32)


@on_cpu
@pytest.mark.parametrize(
    "kernel, layers, within",
    [
        ("one_layer", (64, 16, 1), 7e-7),  # more if both operands are truncated
        ("two_layers", (32, 256, 64, 1), 1e-6),
        ("three_layers", (32, 128, 128, 256, 1), 1e-6),
        ("grid", (512, 16, 1), 5e-7),  # -1.1e-6 if one accumulator adds up the sum
        ("grid", (16, 512, 16, 1), 5e-7),
    ],
)
def test_a_perceptron_predicts_as_float64(kernel, layers, within, random):
    batch = 32
    *_, buffers, shape, steps = made(layers, batch, batch, 1, "sequential", None, random)
    buffers[0][...] = random.uniform(0, 1, buffers[0].shape) * (buffers[0] != 0)
    buffers[1].fill(0)  # the errors are the outputs
    at, weights = 0, []
    for k, n in itertools.pairwise(layers):
        weights.append(positive((k, n), k, random))
        buffers[2][at : at + k * n] = weights[-1].ravel()
        at += k * n
    assert at == len(buffers[2])
    buffers[4].fill(0)
    limits = SMALL if kernel == "grid" else H200
    launched(plan_for(shape, limits, kernel), buffers, steps._replace(rate=np.float32(0)))
    y = buffers[0][0].astype(np.float64)
    for W in weights:
        y = np.maximum(y @ W, 0)
    assert abs(relative(buffers[3][:batch], y[:, 0])) < within


@on_cpu
def test_a_stack_of_layers_predicts_as_float64(random):
    one = layered_shapes.shape(16, 2048, 16, 1, cross_entropy=False, bare=(0, 1))
    X, _, Y, _ = test_layered_launch.made(one, 16, random)
    X, weights = np.abs(X), [positive((2048, 16), 2048, random), positive((16, 1), 16, random)]
    buffers = test_layered_launch.buffers_of(one, X, np.zeros_like(Y), weights)
    test_layered_launch.launched(one, buffers, 16, 1, rate=0)
    y = np.maximum(X.astype(np.float64) @ weights[0], 0) @ weights[1]
    assert abs(relative(buffers[3], y.ravel())) < 2e-7  # -2.6e-6 if one accumulator adds up the sum


@on_cpu
def test_a_convolutional_network_predicts_as_float64(random):
    shape = ConvolutionalShape(2, True, 1, 9, 9, 32, 3, 0, 9, 5, 0, 3, 3)
    X = random.uniform(0, 1, (2, 1, 9, 9)).astype(np.float32)
    Y = np.eye(3, dtype=np.float32)[:2]
    sizes = ((32, 9), (32,), (9, 32 * 25), (9,), (9, 3), (3,))
    weights = [
        positive(size, size[-1], random) if len(size) > 1 else np.zeros(size, np.float32) for size in sizes
    ]
    weights[4] = positive((9, 3), 0.2, random)  # outputs of about 40, whose rounding the loss shows
    buffers = convolutional_buffers(shape, X, Y, weights)
    exactly = [buffer.astype(np.float64) for buffer in convolutional_buffers(shape, X, Y, weights)]
    convolve(shape, buffers, 2, 1, 0.0)
    trainings.train(shape, exactly, Steps(2, 0, 1, 0.0))
    logits = buffers[8].reshape(-1)[:2] - exactly[8].reshape(-1)[:2]
    assert np.abs(logits).max() < 3e-5  # 6e-5 if one accumulator adds up the sum


@on_cpu
def test_shares_of_an_update_smaller_than_half_a_place_add_up(random):
    """W_1 of three layers, of whose gradient each warp has a share."""
    layers, batch = (9, 128, 512, 256, 1), 128
    _, Y, weights, buffers, shape, steps = made(layers, batch, batch, 1, "sequential", None, random)
    row = random.uniform(0.5, 1, 9).astype(np.float32)
    buffers[0][0, :, :9] = row  # all shares have one sign
    weights[0] = np.where(weights[0] < 0, -1, 1).astype(np.float32)
    buffers[2][: 16 * 128].reshape(16, 128)[:9] = weights[0]

    def trained(rate):
        X = np.broadcast_to(row, (batch, 9))
        return train(weights, X, Y, epochs=1, batch_size=batch, rate=rate)[0][0] - weights[0]

    rate = np.float32(1e-12)
    rate = np.float32(rate * 1e-7 / np.abs(trained(rate)).max())  # the largest update is about one place
    expected = trained(rate)
    launched(plan_for(shape, H200, "three_layers"), buffers, steps._replace(rate=rate))
    moved = buffers[2][: 16 * 128].reshape(16, 128)[:9] - weights[0]
    large = np.abs(expected) > 8e-8
    assert large.any()
    assert np.array_equal(np.sign(moved[large]), np.sign(expected[large]))
