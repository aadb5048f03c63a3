"""NumPy implementation of the ops that train for many steps per call; a GPU does so in one launch."""

import itertools

import numpy as np

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.backends.cpu.ops.convolutions import conv2d_dgrad_mask, conv2d_relu, conv2d_relu_pool, conv2d_wgrad
from snn.backends.cpu.ops.elementwise import error, softmax_cross_entropy, sum_rows, update
from snn.backends.cpu.ops.products import matmul_bias, matmul_nt_mask, matmul_tn
from snn.backends.cpu.ops.views import as_matrix, outputs_of, unpool
from snn.backends.layered_plans import LayeredShape
from snn.backends.persistent_plans import HEAD, padded
from snn.backends.trainings import TRAINED
from snn.models.host_ops import clip


def train(X, Y, W, E, S, rows, batch, first, steps, sequential, rate, max_norm, members, outliers, *widths):
    weights, starts = sum(k * n for k, n in itertools.pairwise((*widths, 1))), [*range(0, rows, batch)]
    for m in range(members):
        own = W[m * weights :], E[m * padded(batch) :], S[HEAD + m] if members > 1 else rate
        for start in _from(starts, first, steps):
            _train_batch(X, Y, *own, rows, batch, start // batch, sequential, max_norm, widths)
    _count(S, steps * members)


def _from(starts, first, steps):
    """First row of each step's batch, starting with batch ``first``."""
    return itertools.islice(itertools.cycle(starts), first, first + steps)


def _count(S, steps):
    """Add ``steps`` to the 64-bit step counter in the workspace."""
    S[TRAINED].view(np.uint64)[...] += np.uint64(steps)


def _train_batch(X, Y, W, E, rate, rows, batch, b, sequential, max_norm, widths):
    lines, at = padded(batch), 0
    weights = []
    for k, n in itertools.pairwise((*widths, 1)):
        weights.append(as_matrix(W[at:], k, n))
        at += k * n
    count = min(batch, rows - b * batch)
    activations = [as_matrix(X[b * lines * widths[0] :], count, widths[0])]
    for matrix in weights[:-1]:
        activations.append(np.maximum(activations[-1] @ matrix, 0))
    error = activations[-1] @ weights[-1] - as_matrix(Y[b * lines :], count, 1)
    _descend(weights, activations, error * np.float32(2.0 / count), sequential, rate, max_norm)
    E[:count] = error[:, 0]


def _descend(weights, activations, dZ, sequential, rate, max_norm):
    """Gradients and updates of one batch, from the last layer down."""
    for matrix, H in zip(reversed(weights), reversed(activations), strict=True):
        gradient = H.T @ dZ
        clip(gradient, max_norm or None)
        old = matrix if sequential else matrix.copy()
        matrix -= np.float32(rate) * gradient
        dZ = np.where(H > 0, dZ @ old.T, np.float32(0))


def train_convolutional(X, Y, W1, b1, W2, b2, W3, b3, E, S, rows, batch, first, steps, rate, *sizes):
    shape = ConvolutionalShape.of((rows, batch, first, steps, rate, *sizes))
    pixels, parameters = shape.channels * shape.height * shape.width, (W1, b1, W2, b2, W3, b3)
    for start in _from([*range(0, rows, batch)], first, steps):
        count = min(batch, rows - start)
        x, y = X[start * pixels :], Y[start * shape.outputs :]
        for W, dW in zip(parameters, _convolutional(x, y, parameters, E[start:], count, shape), strict=True):
            update(W, dW, dW.size, rate)
    _count(S, steps)


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


def train_layers(X, Y, W, E, S, rows, batch, first, steps, rate, *sizes):
    shape = LayeredShape.of((rows, batch, first, steps, rate, *sizes))
    inputs, outputs, parameters, at = shape.widths[0], shape.widths[-1], [], 0
    for (k, n), layer in zip(itertools.pairwise(shape.widths), shape.layers, strict=True):
        parameters.append((as_matrix(W[at:], k, n), W[at + k * n :][: n * layer.bias]))
        at += (k + layer.bias) * n
    for start in _from([*range(0, rows, batch)], first, steps):
        count, line = min(batch, rows - start), start // batch * shape.rows
        x, y = as_matrix(X[line * inputs :], count, inputs), as_matrix(Y[line * outputs :], count, outputs)
        activations = [x]
        for (matrix, bias), layer in zip(parameters, shape.layers, strict=True):
            z = activations[-1] @ matrix + (bias if layer.bias else 0)
            activations.append(np.maximum(z, 0) if layer.relu else z)
        dZ = _gradient_of_outputs(activations.pop(), y, E[start * shape.errors :], shape)
        _descend_layers(parameters, activations, dZ, shape, rate)
    _count(S, steps)


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
