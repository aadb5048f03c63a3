"""Training for many steps per call in NumPy; a GPU does so in one launch."""

import itertools
from collections.abc import Sequence

import numpy as np

from snn.backends.cpu.ops import (
    as_matrix,
    conv2d_dgrad_mask,
    conv2d_relu,
    conv2d_relu_pool,
    conv2d_wgrad,
    error,
    matmul_bias,
    matmul_nt_mask,
    matmul_tn,
    outputs_of,
    softmax_cross_entropy,
    sum_rows,
    unpool,
    update,
)
from snn.backends.launches import HEAD, TRAINED, Steps, TrainingShape
from snn.backends.launches.convolution import ConvolutionalShape
from snn.backends.launches.layers import LayeredShape
from snn.backends.launches.perceptron import PerceptronShape
from snn.models.host_ops import clip


def train(shape: TrainingShape, buffers: Sequence[np.ndarray], steps: Steps) -> None:
    """Train these steps in the operands of a shape, flat float32 arrays."""
    _TRAIN[type(shape)](shape, steps, *buffers)
    buffers[-1][TRAINED].view(np.uint64)[...] += np.uint64(steps.number * shape.members)


def _starts(shape, steps):
    """First row of each step's batch."""
    return itertools.islice(
        itertools.cycle(range(0, steps.rows, shape.batch)), steps.first, steps.first + steps.number
    )


def _perceptrons(shape, steps, X, Y, W, E, S):
    weights = sum(k * n for k, n in itertools.pairwise(shape.padded_widths))
    for m in range(shape.members):
        own = W[m * weights :], E[m * shape.rows :], S[HEAD + m] if shape.members > 1 else steps.rate
        for start in _starts(shape, steps):
            _train_batch(shape, steps, X, Y, *own, start // shape.batch)


def _train_batch(shape, steps, X, Y, W, E, rate, b):
    lines, at = shape.rows, 0
    weights = []
    for k, n in itertools.pairwise(shape.padded_widths):
        weights.append(as_matrix(W[at:], k, n))
        at += k * n
    count = min(shape.batch, steps.rows - b * shape.batch)
    activations = [as_matrix(X[b * lines * shape.widths[0] :], count, shape.widths[0])]
    for matrix in weights[:-1]:
        activations.append(np.maximum(activations[-1] @ matrix, 0))
    error = activations[-1] @ weights[-1] - as_matrix(Y[b * lines :], count, 1)
    _descend(weights, activations, error * np.float32(2.0 / count), shape.sequential, rate, steps.max_norm)
    E[:count] = error[:, 0]


def _descend(weights, activations, dZ, sequential, rate, max_norm):
    """Gradients and updates of one batch, from the last layer down."""
    for matrix, H in zip(reversed(weights), reversed(activations), strict=True):
        gradient = H.T @ dZ
        clip(gradient, max_norm or None)
        old = matrix if sequential else matrix.copy()
        matrix -= np.float32(rate) * gradient
        dZ = np.where(H > 0, dZ @ old.T, np.float32(0))


def _images(shape, steps, X, Y, *further):
    *parameters, E, _ = further
    pixels = shape.channels * shape.height * shape.width
    for start in _starts(shape, steps):
        count = min(shape.batch, steps.rows - start)
        x, y = X[start * pixels :], Y[start * shape.outputs :]
        for W, dW in zip(parameters, _convolutional(x, y, parameters, E[start:], count, shape), strict=True):
            update(W, dW, dW.size, steps.rate)


def _convolutional(X, Y, parameters, E, rows, shape):
    """The gradients of one batch's parameters, each flat; writes the loss of its rows to E."""
    W1, b1, W2, b2, W3, b3 = parameters
    first = (shape.channels, shape.height, shape.width, shape.filters1, shape.kernel1, shape.padding1)
    second = (shape.filters1, *shape.first, shape.filters2, shape.kernel2, shape.padding2)
    pooled = (rows, *second, shape.window)
    inner, outer = (rows, shape.features, shape.outputs), (shape.features, rows, shape.outputs)
    A1, dA1 = (np.empty(outputs_of(rows, *first)[0], W1.dtype) for _ in range(2))
    H, which, dH = (np.empty(rows * shape.features, W1.dtype) for _ in range(3))
    Z, dZ = (np.empty(rows * shape.outputs, W1.dtype) for _ in range(2))
    gradients = [np.empty(W.size, W1.dtype) for W in parameters]
    conv2d_relu(X, W1, b1, A1, rows, *first)
    conv2d_relu_pool(A1, W2, b2, H, which, *pooled)
    matmul_bias(H, W3, Z, b3, *inner)
    softmax_cross_entropy(Z, Y, E, dZ, rows, shape.outputs, 1 / rows if shape.mean else 1)
    matmul_tn(H, dZ, gradients[4], *outer)
    sum_rows(dZ, gradients[5], rows, shape.outputs)
    matmul_nt_mask(dZ, W3, dH, H, rows, shape.outputs, shape.features)
    dZ2 = unpool(dH, which, *pooled)
    conv2d_wgrad(dZ2, A1, gradients[2], gradients[3], rows, *second)
    conv2d_dgrad_mask(dZ2, W2, dA1, A1, rows, *second)
    conv2d_wgrad(dA1, X, gradients[0], gradients[1], rows, *first)
    return gradients


def _layers(shape, steps, X, Y, W, E, S):
    widths, parameters, at = shape.padded_widths, [], 0
    for (k, n), layer in zip(itertools.pairwise(widths), shape.layers, strict=True):
        parameters.append((as_matrix(W[at:], k, n), W[at + k * n :][: n * layer.bias]))
        at += (k + layer.bias) * n
    for start in _starts(shape, steps):
        count, line = min(shape.batch, steps.rows - start), start // shape.batch * shape.rows
        x, y = (
            as_matrix(X[line * widths[0] :], count, widths[0]),
            as_matrix(Y[line * widths[-1] :], count, widths[-1]),
        )
        activations = [x]
        for (matrix, bias), layer in zip(parameters, shape.layers, strict=True):
            z = activations[-1] @ matrix + (bias if layer.bias else 0)
            activations.append(np.maximum(z, 0) if layer.relu else z)
        dZ = _gradient_of_outputs(activations.pop(), y, E[start * shape.errors :], shape)
        _descend_layers(parameters, activations, dZ, shape, steps.rate)


def _gradient_of_outputs(P, Y, E, shape):
    """The gradient of padded outputs, (rows, outputs); writes the loss of each row, or its errors, to E."""
    rows, n = len(P), shape.outputs
    dZ, (outputs, targets) = np.zeros_like(P), (matrix[:, :n].flatten() for matrix in (P, Y))
    gradient = np.empty_like(outputs)
    if shape.cross_entropy:
        softmax_cross_entropy(outputs, targets, E, gradient, rows, n, 1 / rows if shape.mean else 1)
    else:
        error(outputs, targets, E, gradient, rows * n, 2 / rows if shape.mean else 2)
    dZ[:, :n] = gradient.reshape(rows, n)
    return dZ


def _descend_layers(parameters, activations, dZ, shape, rate):
    """Gradients and updates of one batch, from the last layer down."""
    relu = [False, *(layer.relu for layer in shape.layers)]
    for (matrix, bias), H, rectified in zip(
        reversed(parameters), reversed(activations), relu[-2::-1], strict=True
    ):
        old = matrix if shape.sequential else matrix.copy()
        matrix -= np.float32(rate) * (H.T @ dZ)
        bias -= np.float32(rate) * dZ.sum(axis=0)[: len(bias)]
        dZ = np.where((H > 0) | (not rectified), dZ @ old.T, np.float32(0))


_TRAIN = {PerceptronShape: _perceptrons, LayeredShape: _layers, ConvolutionalShape: _images}
