"""The work of ``snn.backends.ops`` in NumPy: what the CPU backend does, and the oracle of the kernels.

Every function takes flat float32 arrays, each at least as long as its operand, and numbers.
"""

import itertools
import math

import numpy as np

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.backends.layered_plans import LayeredShape
from snn.backends.ops import PARTIAL_SUMS
from snn.backends.persistent_plans import padded
from snn.models.host_ops import clip


def matmul(A, B, C, m, k, n):
    np.matmul(_matrix(A, m, k), _matrix(B, k, n), out=_matrix(C, m, n))


def matmul_tn(A, B, C, m, k, n):
    np.matmul(_matrix(A, k, m).T, _matrix(B, k, n), out=_matrix(C, m, n))


def matmul_nt(A, B, C, m, k, n):
    np.matmul(_matrix(A, m, k), _matrix(B, n, k).T, out=_matrix(C, m, n))


def matmul_relu(A, B, C, m, k, n):
    matmul(A, B, C, m, k, n)
    relu(C, m * n)


def matmul_bias(A, B, C, b, m, k, n):
    matmul(A, B, C, m, k, n)
    add_bias(C, b, m, n)


def matmul_mask(A, B, C, H, m, k, n):
    matmul(A, B, C, m, k, n)
    mask(C, H, m * n)


def matmul_nt_mask(A, B, C, H, m, k, n):
    matmul_nt(A, B, C, m, k, n)
    mask(C, H, m * n)


def matmul_error(A, B, D, Y, E, m, k, n, scale):
    matmul(A, B, E, m, k, n)
    error(E, Y, E, D, m * n, scale)


def matmul_tn_update(A, B, W, m, k, n, rate):
    update(W, _matrix(A, k, m).T.dot(_matrix(B, k, n)).reshape(-1), m * n, rate)


def matmul_tn_update_both(A, B, W, V, m, k, n, rate):
    matmul_tn_update(A, B, W, m, k, n, rate)
    transpose(W, V, m, n)


def matmul_tn_update_bias(A, B, W, b, m, k, n, rate):
    matmul_tn_update(A, B, W, m, k, n, rate)
    update(b, _matrix(B, k, n).sum(axis=0), n, rate)


def matmul_tn_update_both_bias(A, B, W, V, b, m, k, n, rate):
    matmul_tn_update_bias(A, B, W, b, m, k, n, rate)
    transpose(W, V, m, n)


def relu(Z, n):
    np.maximum(Z[:n], 0, out=Z[:n])


def error(P, Y, E, D, n, scale):
    np.subtract(P[:n], Y[:n], out=E[:n])
    np.multiply(E[:n], np.float32(scale), out=D[:n])


def mask(D, H, n):
    D[:n] *= H[:n] > 0


def update(W, G, n, rate):
    W[:n] -= np.float32(rate) * G[:n]


def update_both(W, V, G, rows, cols, rate):
    update(W, G, rows * cols, rate)
    transpose(W, V, rows, cols)


def sum_squares(G, S, n):
    S[:PARTIAL_SUMS] = 0
    S[0] = np.vdot(G[:n], G[:n])


def clipped_update(W, G, S, n, rate, max_norm):
    norm = np.sqrt(S[:PARTIAL_SUMS].sum())
    scale = np.float32(max_norm / (norm + 1e-6)) if norm > max_norm else np.float32(1)
    update(W, G[:n] * scale, n, rate)


def clipped_update_both(W, V, G, S, rows, cols, rate, max_norm):
    clipped_update(W, G, S, rows * cols, rate, max_norm)
    transpose(W, V, rows, cols)


def transpose(A, T, rows, cols):
    _matrix(T, cols, rows)[...] = _matrix(A, rows, cols).T


def add_bias(Z, b, rows, width):
    _matrix(Z, rows, width)[...] += b[:width]


def sum_rows(G, s, rows, width):
    np.sum(_matrix(G, rows, width), axis=0, out=s[:width])


def softmax_cross_entropy(P, Y, E, D, rows, width, scale):
    """D may be P."""
    shifted = _matrix(P, rows, width) - _matrix(P, rows, width).max(axis=1, keepdims=True)
    exponentials, targets = np.exp(shifted), _matrix(Y, rows, width)
    sums = exponentials.sum(axis=1, keepdims=True)
    E[:rows] = ((np.log(sums) - shifted) * targets).sum(axis=1)
    _matrix(D, rows, width)[...] = np.float32(scale) * (exponentials / sums - targets)


def transpose_each(A, T, count, rows, cols):
    size = count * rows * cols
    T[:size].reshape(count, cols, rows)[...] = A[:size].reshape(count, rows, cols).transpose(0, 2, 1)


def im2col(X, P, rows, channels, height, width, kernel, padding):
    patches = _patches(_images(X, rows, channels, height, width), kernel, padding)
    patches = patches.transpose(0, 2, 3, 1, 4, 5)  # rows, y, x, channels, kernel, kernel
    P[: patches.size].reshape(patches.shape)[...] = patches


def col2im(P, X, rows, channels, height, width, kernel, padding):
    high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
    shape = rows, high, wide, channels, kernel, kernel
    patches = P[: math.prod(shape)].reshape(shape).transpose(0, 3, 4, 5, 1, 2)
    total = np.zeros((rows, channels, height + 2 * padding, width + 2 * padding), P.dtype)
    for y in range(kernel):
        for x in range(kernel):
            total[:, :, y : y + high, x : x + wide] += patches[:, :, y, x]
    inner = total[:, :, padding : padding + height, padding : padding + width]
    _images(X, rows, channels, height, width)[...] = inner


def max_pool2d(X, Z, rows, channels, height, width, size):
    first, *others = _places(_images(X, rows, channels, height, width), size)
    pooled = _images(Z, *first.shape)
    pooled[...] = first
    for place in others:
        np.maximum(pooled, place, out=pooled)


def max_pool2d_gradient(G, X, D, rows, channels, height, width, size):
    first, *others = _places(_images(X, rows, channels, height, width), size)
    largest, at = first.copy(), np.zeros(first.shape, np.min_scalar_type(size**2))
    for number, place in enumerate(others, 1):
        larger = place > largest
        np.copyto(largest, place, where=larger)
        np.copyto(at, number, where=larger)
    images = _images(D, rows, channels, height, width)
    images[...] = 0
    for number, place in enumerate(_places(images, size)):
        np.copyto(place, _images(G, *first.shape), where=at == number)


def keep_first(G, n, kept):
    G[kept:n] = 0


def published_wgrad(X, G, dW, db, rows, channels, height, width, kernel, padding, filters):
    high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
    patch, positions = channels * kernel**2, rows * high * wide
    P = np.empty(positions * patch, X.dtype)
    im2col(X, P, rows, channels, height, width, kernel, padding)
    by_filter = _images(G, rows, filters, high, wide).transpose(0, 2, 3, 1).reshape(positions, filters)
    sums = np.zeros(filters * patch + filters, X.dtype)
    for lane in range(32):  # the parameters of this lane at the positions of this lane
        g, p = by_filter[lane::32], _matrix(P, positions, patch)[lane::32]
        products = np.concatenate([(g.T @ p).reshape(-1), g.sum(axis=0)])
        sums[lane::32] = products[lane::32]
    lanes = np.zeros(-(-len(sums) // 32) * 32, X.dtype)
    lanes[: len(sums)] = sums
    gradients = np.zeros_like(sums)
    gradients[::32] = lanes.reshape(-1, 32).sum(axis=1)
    dW[: filters * patch], db[:filters] = gradients[: filters * patch], gradients[filters * patch :]


def published_linear_wgrad(X, G, dW, db, rows, inputs, width):
    matmul_tn(X, G, dW, inputs, rows, width)
    sum_rows(G, db, rows, width)


def published_softmax(*operands_and_numbers):
    softmax_cross_entropy(*operands_and_numbers)


def fma_update(W, G, n, rate):
    W[:n] = W[:n].astype(np.float64) - np.float64(np.float32(rate)) * G[:n]


def conv2d(X, W, b, Z, rows, channels, height, width, filters, kernel, padding):
    patches = _patches(_images(X, rows, channels, height, width), kernel, padding)
    outputs = np.tensordot(patches, _filters(W, filters, channels, kernel), ((1, 4, 5), (1, 2, 3)))
    outputs = outputs.transpose(0, 3, 1, 2) + b[:filters].reshape(-1, 1, 1)
    _images(Z, *outputs.shape)[...] = outputs


def conv2d_relu(X, W, b, Z, *numbers):
    conv2d(X, W, b, Z, *numbers)
    relu(Z, _outputs(*numbers)[0])


def conv2d_relu_pool(X, W, b, Z, which, *numbers):
    *shape, size = numbers
    count, images = _outputs(*shape)
    unpooled = np.empty(count, Z.dtype)
    conv2d_relu(X, W, b, unpooled, *shape)
    windows = _windows(unpooled, *(*images, size))
    largest = windows.argmax(axis=-1)
    which[: largest.size] = largest.reshape(-1)
    Z[: largest.size] = np.take_along_axis(windows, largest[..., None], axis=-1).reshape(-1)


def conv2d_dgrad(G, W, D, rows, channels, height, width, filters, kernel, padding):
    numbers = rows, channels, height, width, filters, kernel, padding
    gradients = _images(G, *_outputs(*numbers)[1])
    patches = np.tensordot(gradients, _filters(W, filters, channels, kernel), (1, 0))
    patches = np.ascontiguousarray(patches).reshape(-1)  # rows, y, x, channels, kernel, kernel
    col2im(patches, D, rows, channels, height, width, kernel, padding)


def conv2d_dgrad_mask(G, W, D, H, *numbers):
    conv2d_dgrad(G, W, D, *numbers)
    mask(D, H, math.prod(numbers[:4]))


def conv2d_dgrad_pooled(G, which, W, D, *numbers):
    conv2d_dgrad(_unpooled(G, which, *numbers), W, D, *numbers[:-1])


def conv2d_dgrad_pooled_mask(G, which, W, D, H, *numbers):
    conv2d_dgrad_mask(_unpooled(G, which, *numbers), W, D, H, *numbers[:-1])


def conv2d_wgrad(G, X, dW, db, rows, channels, height, width, filters, kernel, padding):
    numbers = rows, channels, height, width, filters, kernel, padding
    gradients = _images(G, *_outputs(*numbers)[1])
    patches = _patches(_images(X, rows, channels, height, width), kernel, padding)
    _filters(dW, filters, channels, kernel)[...] = np.tensordot(gradients, patches, ((0, 2, 3), (0, 2, 3)))
    db[:filters] = gradients.sum(axis=(0, 2, 3))


def conv2d_wgrad_parts(G, X, S, *numbers):
    *shape, parts = numbers
    weights = shape[4] * shape[1] * shape[5] ** 2
    sums = _matrix(S, parts, weights + shape[4])
    sums[1:] = 0
    conv2d_wgrad(G, X, sums[0, :weights], sums[0, weights:], *shape)


def conv2d_wgrad_parts_pooled(G, which, X, S, *numbers):
    *shape, _, parts = numbers
    conv2d_wgrad_parts(_unpooled(G, which, *numbers[:-1]), X, S, *shape, parts)


def sum_parts(S, dW, db, parts, weights, biases):
    sums = _matrix(S, parts, weights + biases).sum(axis=0)
    dW[:weights], db[:biases] = sums[:weights], sums[weights:]


def update_parts(S, W, b, parts, weights, biases, rate):
    sums = _matrix(S, parts, weights + biases).sum(axis=0)
    update(W, sums[:weights], weights, rate)
    update(b, sums[weights:], biases, rate)


def train(X, Y, W, E, S, rows, batch, epochs, sequential, rate, max_norm, members, *widths):
    weights = sum(k * n for k, n in itertools.pairwise((*widths, 1)))
    for m in range(members):
        own = W[m * weights :], E[m * padded(batch) :], S[m] if members > 1 else rate
        _train_member(X, Y, *own, rows, batch, epochs, sequential, max_norm, widths)


def _train_member(X, Y, W, E, rate, rows, batch, epochs, sequential, max_norm, widths):
    lines, batches, at = padded(batch), -(-rows // batch), 0
    weights = []
    for k, n in itertools.pairwise((*widths, 1)):
        weights.append(_matrix(W[at:], k, n))
        at += k * n
    for step in range(epochs * batches):
        b = step % batches
        count = min(batch, rows - b * batch)
        activations = [_matrix(X[b * lines * widths[0] :], count, widths[0])]
        for matrix in weights[:-1]:
            activations.append(np.maximum(activations[-1] @ matrix, 0))
        error = activations[-1] @ weights[-1] - _matrix(Y[b * lines :], count, 1)
        _descend(weights, activations, error * np.float32(2.0 / count), sequential, rate, max_norm)
        E[:count] = error[:, 0]


def _descend(weights, activations, dZ, sequential, rate, max_norm):
    """Gradients and updates of one batch, from the last layer down."""
    for matrix, H in zip(reversed(weights), reversed(activations), strict=True):
        gradient = H.T @ dZ
        clip(gradient, max_norm or None)
        old = matrix if sequential else matrix.copy()
        matrix -= np.float32(rate) * gradient
        dZ = (dZ @ old.T) * (H > 0)


def train_convolutional(X, Y, W1, b1, W2, b2, W3, b3, E, S, rows, batch, epochs, rate, *sizes):
    shape = ConvolutionalShape.of((rows, batch, epochs, rate, *sizes))
    pixels, parameters = shape.channels * shape.height * shape.width, (W1, b1, W2, b2, W3, b3)
    for start in [*range(0, rows, batch)] * epochs:
        count = min(batch, rows - start)
        x, y = X[start * pixels :], Y[start * shape.outputs :]
        for W, dW in zip(parameters, _convolutional(x, y, parameters, E[start:], count, shape), strict=True):
            update(W, dW, dW.size, rate)


def _convolutional(X, Y, parameters, E, rows, shape):
    """The gradients of one batch's parameters, each flat; writes the loss of its rows to E."""
    W1, b1, W2, b2, W3, b3 = parameters
    first = (shape.channels, shape.height, shape.width, shape.filters1, shape.kernel1, shape.padding1)
    second = (shape.filters1, *shape.first, shape.filters2, shape.kernel2, shape.padding2)
    pooled = (rows, *second, shape.window)
    inner, outer = (rows, shape.features, shape.outputs), (shape.features, rows, shape.outputs)
    A1, dA1 = (np.empty(_outputs(rows, *first)[0], W1.dtype) for _ in range(2))
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
    dZ2 = _unpooled(dH, which, *pooled)
    conv2d_wgrad(dZ2, A1, gradients[2], gradients[3], rows, *second)
    conv2d_dgrad_mask(dZ2, W2, dA1, A1, rows, *second)
    conv2d_wgrad(dA1, X, gradients[0], gradients[1], rows, *first)
    return gradients


def train_layers(X, Y, W, E, S, rows, batch, epochs, rate, *sizes):
    shape = LayeredShape.of((rows, batch, epochs, rate, *sizes))
    inputs, outputs, parameters, at = shape.widths[0], shape.widths[-1], [], 0
    for (k, n), layer in zip(itertools.pairwise(shape.widths), shape.layers, strict=True):
        parameters.append((_matrix(W[at:], k, n), W[at + k * n :][: n * layer.bias]))
        at += (k + layer.bias) * n
    for start in [*range(0, rows, batch)] * epochs:
        count, first = min(batch, rows - start), start // batch * shape.rows
        x, y = _matrix(X[first * inputs :], count, inputs), _matrix(Y[first * outputs :], count, outputs)
        activations = [x]
        for (matrix, bias), layer in zip(parameters, shape.layers, strict=True):
            z = activations[-1] @ matrix + (bias if layer.bias else 0)
            activations.append(np.maximum(z, 0) if layer.relu else z)
        dZ = _gradient_of_outputs(activations.pop(), y, E[start * shape.errors :], shape)
        _descend_layers(parameters, activations, dZ, shape, rate)


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
        dZ = (dZ @ old.T) * ((H > 0) | (not rectified))


def _images(flat, rows, channels, height, width):
    return flat[: rows * channels * height * width].reshape(rows, channels, height, width)


def _filters(flat, filters, channels, kernel):
    return flat[: filters * channels * kernel**2].reshape(filters, channels, kernel, kernel)


def _patches(images, kernel, padding):
    """(rows, channels, y, x, kernel, kernel), a view of the padded images."""
    padded_images = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return np.lib.stride_tricks.sliding_window_view(padded_images, (kernel, kernel), axis=(2, 3))


def _outputs(rows, channels, height, width, filters, kernel, padding):
    """A convolution's outputs: how many, and their shape."""
    high, wide = (side + 2 * padding - kernel + 1 for side in (height, width))
    return rows * filters * high * wide, (rows, filters, high, wide)


def _unpooled(G, which, rows, channels, height, width, filters, kernel, padding, size):
    """The gradient of a convolution's outputs, from that of its windows and which of each is the largest."""
    _, shape = _outputs(rows, channels, height, width, filters, kernel, padding)
    high, wide = shape[2] // size, shape[3] // size
    pooled = rows * filters * high * wide
    chosen = np.zeros((rows, filters, high, wide, size * size), G.dtype)
    at = which[:pooled].astype(np.int64).reshape(*chosen.shape[:-1], 1)
    np.put_along_axis(chosen, at, G[:pooled].reshape(at.shape), axis=-1)
    spread = chosen.reshape(rows, filters, high, wide, size, size).transpose(0, 1, 2, 4, 3, 5)
    gradients = np.zeros(shape, G.dtype)
    gradients[:, :, : high * size, : wide * size] = spread.reshape(rows, filters, high * size, wide * size)
    return gradients.reshape(-1)


def _places(images, size):
    """A view of each place in the windows, in row-major order: (rows, channels, windows down, and across)."""
    high, wide = (side // size * size for side in images.shape[2:])
    return [images[:, :, y:high:size, x:wide:size] for y in range(size) for x in range(size)]


def _windows(X, rows, channels, height, width, size):
    """(rows, channels, windows down, windows across, elements in row-major order), a copy."""
    high, wide = height // size, width // size
    whole = _images(X, rows, channels, height, width)[:, :, : high * size, : wide * size]
    split = whole.reshape(rows, channels, high, size, wide, size).transpose(0, 1, 2, 4, 3, 5)
    return split.reshape(rows, channels, high, wide, size * size)


def _matrix(flat, rows, cols):
    return flat[: rows * cols].reshape(rows, cols)
