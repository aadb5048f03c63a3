"""Trains many steps per call in NumPy, which a GPU does in one launch."""

import itertools
from collections.abc import Sequence

import numpy as np

from snn.backends.cpu import ops
from snn.backends.cpu.ops import (
    as_matrix,
    conv2d_dgrad_mask,
    conv2d_relu,
    conv2d_relu_pool,
    conv2d_wgrad,
    matmul_bias,
    matmul_nt_mask,
    matmul_tn,
    outputs_of,
    softmax_cross_entropy,
    sum_rows,
    unpool,
)
from snn.backends.launches import HEAD, TRAINED, Steps, TrainingShape
from snn.backends.launches.convolution import ConvolutionalShape
from snn.backends.launches.linear import CROSS_ENTROPY, LayeredShape, PerceptronShape
from snn.backends.ops import PARTIAL_SUMS
from snn.models.host_ops import clip
from snn.models.layers import ACTIVATIONS, OutOfPlace
from snn.models.optimizers import FACTORS, PARTIALS_FROM
from snn.models.row_order import row_order


def train(shape: TrainingShape, buffers: Sequence[np.ndarray], steps: Steps) -> None:
    """Train these steps on a shape's operands, flat float32 arrays."""
    _TRAIN[type(shape)](shape, steps, *buffers)
    buffers[-1][TRAINED].view(np.uint64)[...] += np.uint64(steps.number * shape.members)


def _starts(shape, steps):
    """First row of each step's batch."""
    return itertools.islice(
        itertools.cycle(range(0, steps.rows, shape.batch)), steps.first, steps.first + steps.number
    )


def _perceptrons(shape, steps, X, Y, W, E, S):
    widths = shape.padded_widths[1:]
    layers = [*(("relu", width) for width in widths[:-1]), ("identity", 1)]
    weights = sum(k * n for k, n in itertools.pairwise(shape.padded_widths))
    for m in range(shape.members):
        parameters = _parameters(W[m * weights :], shape, [False] * len(layers))
        rate = S[HEAD + m] if shape.members > 1 else steps.rate

        def descend(i, gradient, _, parameters=parameters, rate=rate):
            clip(gradient, steps.max_norm or None)
            parameters[i][0][...] -= np.float32(rate) * gradient

        for start in _starts(shape, steps):
            x, y = _batch(shape, steps, X, Y, start)
            Z, kept = _forward(parameters, layers, x)
            error = Z - y
            E[m * shape.rows :][: len(error)] = error[:, 0]
            dZ = error * np.float32(2.0 / len(error))
            _backward(parameters, layers, kept, dZ, shape.sequential, descend)


def _layers(shape, steps, X, Y, W, *further):
    *state, E, _ = further
    layers = [(layer.activation, layer.width) for layer in shape.layers]
    arrays = [W, *(state[0].reshape(shape.states, -1) if state else ())]
    parameters, *states = (_parameters(one, shape, [layer.bias for layer in shape.layers]) for one in arrays)
    for start, order, T in _steps(shape, steps):
        x, y = _batch(shape, steps, X, Y, start, order)
        due: list[tuple] = []  # updates, if the gradients are clipped together

        def descend(i, *gradients, T=T, due=due):
            for which, gradient in enumerate(gradients):
                if gradient.size:
                    own, *kept = (one[i][which].reshape(-1) for one in (parameters, *states))
                    due.append((own, gradient.reshape(-1), *kept))
                    if shape.clipped:
                        ops.add_squares(gradient.reshape(-1), T, gradient.size)
                    else:
                        _update(shape, steps, T, *due.pop())

        Z, kept = _forward(parameters, layers, x)
        dZ = _gradient_of_outputs(Z, y, E[start * shape.errors :], shape)
        _backward(parameters, layers, kept, dZ, shape.sequential, descend)
        if shape.clipped:
            ops.clip_together(T, steps.max_norm)
            for one in due:
                _update(shape, steps, T, *one)


def _steps(shape, steps):
    """Each step's first place in its epoch, the rows from there on if they are shuffled, and ``STEPS``."""
    batches = -(-steps.rows // shape.batch)
    before = steps.epoch * batches + steps.first
    for number in range(before, before + steps.number):
        epoch, start = number // batches, number % batches * shape.batch
        if shape.shuffled and (start == 0 or number == before):
            order = row_order(steps.rows, steps.seed, epoch)
        T = np.zeros(PARTIALS_FROM + PARTIAL_SUMS, np.float32)
        T[: FACTORS.stop] = number, 1, 1, 1, 1
        ops.count_step(T, 1, *(steps.numbers[:2] if shape.states == 2 else (1, 1)), *steps.schedule)
        yield start, order[start:] if shape.shuffled else None, T


def _update(shape, steps, T, W, dW, *kept):
    """Update a parameter with its gradient and its state."""
    of_step = [] if shape.update == "update" else [T]
    getattr(ops, shape.update)(W, dW, *kept, *of_step, dW.size, steps.rate, *steps.numbers)


def _parameters(W, shape, biases):
    """The matrix and the bias of each linear layer, views; a layer without biases has an empty one."""
    parameters, at = [], 0
    for (k, n), bias in zip(itertools.pairwise(shape.padded_widths), biases, strict=True):
        parameters.append((as_matrix(W[at:], k, n), W[at + k * n :][: n * bias]))
        at += (k + bias) * n
    return parameters


def _batch(shape, steps, X, Y, start, order=None):
    """X and Y of the batch from this row on, or of the first rows of an order, without the padding rows."""
    count, line = min(shape.batch, steps.rows - start), start // shape.batch * shape.rows
    pairs = zip((X, Y), (shape.padded_widths[0], shape.padded_widths[-1]), strict=True)
    if order is None:
        return [as_matrix(M[line * n :], count, n) for M, n in pairs]
    return [as_matrix(M, steps.rows, n)[order[:count]] for M, n in pairs]


def _forward(parameters, layers, x):
    """The outputs; and each layer's input, with what the derivative of its activation is computed from."""
    h, kept = x, []
    for (matrix, bias), (activation, width) in zip(parameters, layers, strict=True):
        z = h @ matrix
        z = z + bias if len(bias) else z
        inputs, h = h, z
        if issubclass(ACTIVATIONS[activation], OutOfPlace):
            h = np.empty_like(z)
            getattr(ops, f"{activation}_forward")(z.reshape(-1), h.reshape(-1), z.size)
        elif activation != "identity":
            getattr(ops, "relu" if activation == "relu" else f"{activation}_forward")(z.reshape(-1), z.size)
        h[:, width:] = 0
        kept.append((inputs, z))
    return h, kept


def _backward(parameters, layers, kept, dZ, sequential, descend):
    """From the last layer down ``descend(i, dW, db)``, which updates the parameters of layer i."""
    for i, ((matrix, bias), (inputs, _)) in reversed(list(enumerate(zip(parameters, kept, strict=True)))):
        old = matrix if sequential or i == 0 else matrix.copy()
        descend(i, inputs.T @ dZ, dZ.sum(axis=0)[: len(bias)])
        if i > 0:
            dZ, activation, z = dZ @ old.T, layers[i - 1][0], kept[i - 1][1]
            if activation != "identity":
                derivative = getattr(ops, "mask" if activation == "relu" else f"{activation}_gradient")
                derivative(dZ.reshape(-1), z.reshape(-1), dZ.size)


def _images(shape, steps, X, Y, *further):
    *operands, E, _ = further
    parameters, state = operands[:6], operands[6:]
    ends = list(itertools.accumulate(W.size for W in parameters))
    kept = [
        [M[end - W.size : end] for M in state[0].reshape(shape.states, -1)] if state else []
        for W, end in zip(parameters, ends, strict=True)
    ]
    X, Y = (as_matrix(M, steps.rows, M.size // steps.rows) for M in (X, Y))
    for start, order, T in _steps(shape, steps):
        count = min(shape.batch, steps.rows - start)
        rows = slice(start, start + count) if order is None else order[:count]
        x, y = (M[rows].reshape(-1) for M in (X, Y))
        gradients = _convolutional(x, y, parameters, E[start:], count, shape)
        for W, dW, states in zip(parameters, gradients, kept, strict=True):
            _update(shape, steps, T, W, dW, *states)


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


def _gradient_of_outputs(P, Y, E, shape):
    """The gradient of padded outputs, (rows, outputs); writes the loss of each row, or its errors, to E."""
    rows, n = len(P), shape.outputs
    dZ, (outputs, targets) = np.zeros_like(P), (matrix[:, :n].flatten() for matrix in (P, Y))
    gradient = np.empty_like(outputs)
    of_row = n if shape.loss == "binary_cross_entropy" else 1  # terms that are averaged
    scale = (2 if shape.loss == "error" else 1) / (rows * of_row if shape.mean else 1)
    sizes = (rows, n) if shape.loss == CROSS_ENTROPY else (rows * n,)
    getattr(ops, shape.loss)(outputs, targets, E, gradient, *sizes, scale)
    dZ[:, :n] = gradient.reshape(rows, n)
    return dZ


_TRAIN = {PerceptronShape: _perceptrons, LayeredShape: _layers, ConvolutionalShape: _images}
