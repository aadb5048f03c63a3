"""Stacks of linear layers that are trained in one launch, their data and oracle, their kernel on the CPU."""

import emulated_launch
import numpy as np

from snn.backends.cpu import trainings
from snn.backends.launches import DeviceCapability, LaunchConfiguration, Steps
from snn.backends.launches.linear import LayeredShape, LinearLayer
from snn.models.layers import Linear, ReLU
from snn.models.losses import CROSS_ENTROPY, MEAN_SQUARED_ERROR
from snn.models.network import Network
from snn.strategies.one_launch import in_batches

RATE = 0.05

H200, FEW, TURING = (
    DeviceCapability(132, 232448, (9, 0)),
    DeviceCapability(5, 232448, (8, 0)),
    DeviceCapability(5, 65536, (7, 5)),
)


def shape(batch, features, *widths, cross_entropy=True, sequential=False, mean=True, bare=(), plain=()):
    """``bare``: layers without biases; ``plain``: hidden layers without ReLU."""
    layers = (
        LinearLayer(width, i not in bare, i not in plain and i < len(widths) - 1)
        for i, width in enumerate(widths)
    )
    return LayeredShape(batch, sequential, mean, cross_entropy, features, tuple(layers))


# Widths that no tile divides, layers with and without biases and ReLU, one layer, several tiles per block.
SHAPES = {
    "classifier": shape(20, 17, 24, 10),
    "in turn": shape(20, 17, 24, 10, sequential=True),
    "deep": shape(33, 20, 70, 9, 40, 3, bare=(1,), plain=(2,)),
    "deep in turn": shape(33, 20, 70, 9, 40, 3, sequential=True, bare=(1,), plain=(2,)),
    "regression": shape(40, 33, 24, 1, cross_entropy=False, sequential=True),
    "outputs": shape(7, 5, 13, 19, cross_entropy=False, mean=False),
    "one layer": shape(18, 30, 4),
    "many outputs": shape(16, 9, 16, 130, sequential=True, mean=False),
    "wide": shape(70, 40, 200, 130, 12),
    "smallest": shape(1, 1, 1, 1, cross_entropy=False),
}


def network_of(one, **others):
    layers = []
    for layer in one.layers:
        layers += [Linear(layer.width, layer.bias)] + [ReLU()] * layer.relu
    given = {
        "loss": CROSS_ENTROPY if one.cross_entropy else MEAN_SQUARED_ERROR,
        "update_order": "sequential" if one.sequential else "simultaneous",
        "reduction": "mean" if one.mean else "sum",
    }
    return Network((one.features,), tuple(layers), **(given | others))


def plan_for(one, limits=FEW):
    (found,) = one.configurations(limits)
    assert isinstance(found, LaunchConfiguration), found
    return found


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
