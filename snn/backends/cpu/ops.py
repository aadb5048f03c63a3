"""The operations of ``snn.backends.ops`` in NumPy, for the CPU backend and as the oracle of the kernels.

Every function takes flat float32 arrays, each at least as long as its operand, and numbers.
"""

import math
from functools import reduce

import numpy as np

from snn.backends.ops import PARTIAL_SUMS
from snn.models import host_ops
from snn.models.dropout import dropped
from snn.models.optimizers import FACTORS, PARTIALS_FROM
from snn.models.row_order import row_order as order_of
from snn.models.schedules import factor
from snn.models.step import FUSED_ACTIVATIONS, KEEPING_INPUTS, LAYERS_AT_ONCE

# ---- flat arrays as the matrices and images that they hold: views, unless they are called copies


def as_matrix(flat, rows, cols):
    return flat[: rows * cols].reshape(rows, cols)


def as_images(flat, rows, channels, height, width):
    return flat[: rows * channels * height * width].reshape(rows, channels, height, width)


def as_filters(flat, filters, channels, kernel):
    return flat[: filters * channels * kernel**2].reshape(filters, channels, kernel, kernel)


def outputs_of(rows, channels, height, width, filters, kernel, padding):
    """The number of a convolution's outputs, and their shape."""
    high, wide = (side + 2 * padding - kernel + 1 for side in (height, width))
    return rows * filters * high * wide, (rows, filters, high, wide)


def patches_of(images, kernel, padding):
    """(rows, channels, y, x, kernel, kernel), a view of the padded images."""
    padded_images = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return np.lib.stride_tricks.sliding_window_view(padded_images, (kernel, kernel), axis=(2, 3))


def unpool(G, which, rows, channels, height, width, filters, kernel, padding, size):
    """The gradient of a convolution's outputs, from its windows' gradients and largest elements."""
    _, shape = outputs_of(rows, channels, height, width, filters, kernel, padding)
    high, wide = shape[2] // size, shape[3] // size
    pooled = rows * filters * high * wide
    chosen = np.zeros((rows, filters, high, wide, size * size), G.dtype)
    at = which[:pooled].astype(np.int64).reshape(*chosen.shape[:-1], 1)
    np.put_along_axis(chosen, at, G[:pooled].reshape(at.shape), axis=-1)
    spread = chosen.reshape(rows, filters, high, wide, size, size).transpose(0, 1, 2, 4, 3, 5)
    gradients = np.zeros(shape, G.dtype)
    gradients[:, :, : high * size, : wide * size] = spread.reshape(rows, filters, high * size, wide * size)
    return gradients.reshape(-1)


def places_of(images, size):
    """A view of each place in the windows, in row-major order: (rows, channels, windows down, and across)."""
    high, wide = (side // size * size for side in images.shape[2:])
    return [images[:, :, y:high:size, x:wide:size] for y in range(size) for x in range(size)]


def windows_of(X, rows, channels, height, width, size):
    """(rows, channels, windows down, windows across, elements in row-major order), a copy."""
    high, wide = height // size, width // size
    whole = as_images(X, rows, channels, height, width)[:, :, : high * size, : wide * size]
    split = whole.reshape(rows, channels, high, size, wide, size).transpose(0, 1, 2, 4, 3, 5)
    return split.reshape(rows, channels, high, wide, size * size)


# ---- by element, sums over rows or parts, transposes, losses, updates


def relu(Z, n):
    np.maximum(Z[:n], 0, out=Z[:n])


def error(P, Y, E, D, n, scale):
    np.subtract(P[:n], Y[:n], out=E[:n])
    np.multiply(E[:n], np.float32(scale), out=D[:n])


def mask(D, H, n):
    host_ops.mask(D[:n], H[:n])


def update(W, G, n, rate):
    W[:n] -= np.float32(rate) * G[:n]


def update_both(W, V, G, rows, cols, rate):
    update(W, G, rows * cols, rate)
    transpose(W, V, rows, cols)


def fma_update(W, G, n, rate):
    W[:n] = W[:n].astype(np.float64) - np.float64(np.float32(rate)) * G[:n]


def sum_squares(G, S, n):
    S[:PARTIAL_SUMS] = 0
    S[0] = np.vdot(G[:n], G[:n])


def clipped_update(W, G, S, n, rate, max_norm):
    update(W, G[:n] * _clipping(S, max_norm), n, rate)


def _clipping(S, max_norm):
    norm = np.sqrt(S[:PARTIAL_SUMS].sum())
    return np.float32(max_norm / (norm + 1e-6)) if norm > max_norm else np.float32(1)


def clipped_update_both(W, V, G, S, rows, cols, rate, max_norm):
    clipped_update(W, G, S, rows * cols, rate, max_norm)
    transpose(W, V, rows, cols)


def transpose(A, T, rows, cols):
    as_matrix(T, cols, rows)[...] = as_matrix(A, rows, cols).T


def row_order(C, order, rows, seed):
    order[:rows].view(np.uint32)[...] = order_of(rows, seed, int(C[:1].view(np.uint32)[0]))


def take_rows(order, X, Y, U, V, C, rows, features, outputs):
    for source, target, width in ((X, U, features), (Y, V, outputs)):
        as_matrix(target, rows, width)[...] = as_matrix(source, rows, width)[order[:rows].view(np.uint32)]
    C[:1].view(np.uint32)[...] += np.uint32(1)


def transpose_each(A, T, count, rows, cols):
    size = count * rows * cols
    T[:size].reshape(count, cols, rows)[...] = A[:size].reshape(count, rows, cols).transpose(0, 2, 1)


def keep_first(G, n, kept):
    G[kept:n] = 0


# ---- optimisers, as ``snn.models.optimizers`` says


def zero(Z, n):
    Z[:n] = 0


def clip(G, S, n, max_norm):
    G[:n] *= _clipping(S, max_norm)


def unscale(G, n, scale):
    G[:n] *= np.float32(scale)


def start_steps(T, n):
    T[:n] = 0
    T[:n][FACTORS] = 1


def count_step(T, steps, gain1, gain2, form, warmup, length, end):
    of_each = as_matrix(T, steps, 8)
    numbers = float(of_each[-1, 0]) + np.arange(1, steps + 1)
    beta1, beta2 = (1.0 - float(np.float32(gain)) for gain in (gain1, gain2))
    of_each[:, 0] = numbers
    of_each[:, 1], of_each[:, 2] = 1 / (1 - beta1**numbers), 1 / np.sqrt(1 - beta2**numbers)
    of_each[:, 3], of_each[:, 4] = factor(numbers - 1, form, warmup, length, end), 1


def add_squares(G, T, n):
    T[PARTIALS_FROM] += np.vdot(G[:n], G[:n])


def clip_together(T, max_norm):
    sums = T[PARTIALS_FROM : PARTIALS_FROM + PARTIAL_SUMS]
    scale = max_norm / (np.sqrt(sums.sum()) + 1e-6)
    T[4], sums[:] = (1 if scale > 1 else scale), 0


def decay_update(W, G, T, n, rate, decay):
    update(W, _followed(W, G, T, n, decay), n, rate * T[3])


def momentum_update(W, G, M, T, n, rate, momentum, decay):
    M[:n] = np.float32(momentum) * M[:n] + _followed(W, G, T, n, decay)
    update(W, M, n, rate * T[3])


def nesterov_update(W, G, M, T, n, rate, momentum, decay):
    g = _followed(W, G, T, n, decay)
    M[:n] = np.float32(momentum) * M[:n] + g
    update(W, g + np.float32(momentum) * M[:n], n, rate * T[3])


def _followed(W, G, T, n, decay=0.0):
    """The gradient, clipped, with decay."""
    g = G[:n] if T[4] == 1 else T[4] * G[:n]
    return g + np.float32(decay) * W[:n] if decay else g


def adam_update(W, G, M, V, T, n, rate, gain1, gain2, eps, decay):
    _adam(W, _followed(W, G, T, n, decay), M, V, T, n, rate, gain1, gain2, eps)


def adamw_update(W, G, M, V, T, n, rate, gain1, gain2, eps, decay):
    W[:n] -= np.float32(rate * decay * T[3]) * W[:n]
    _adam(W, _followed(W, G, T, n), M, V, T, n, rate, gain1, gain2, eps)


def _adam(W, g, M, V, T, n, rate, gain1, gain2, eps):
    _move(M[:n], g, gain1)
    _move(V[:n], g * g, gain2)
    W[:n] -= np.float32(rate * T[3]) * T[1] * (M[:n] / (np.sqrt(V[:n]) * T[2] + np.float32(eps)))


def _move(mean, value, gain):
    """Part of the way from a mean to a new value, ``gain`` of it."""
    if gain < 0.5:
        mean += np.float32(gain) * (value - mean)
    else:
        mean[...] = value - np.float32(1 - gain) * (value - mean)


# ---- biases, partial sums, losses


def add_bias(Z, b, rows, width):
    as_matrix(Z, rows, width)[...] += b[:width]


def sum_rows(G, s, rows, width):
    np.sum(as_matrix(G, rows, width), axis=0, out=s[:width])


def sum_parts(S, dW, db, parts, weights, biases):
    sums = as_matrix(S, parts, weights + biases).sum(axis=0)
    dW[:weights], db[:biases] = sums[:weights], sums[weights:]


def update_parts(S, W, b, parts, weights, biases, rate):
    sums = as_matrix(S, parts, weights + biases).sum(axis=0)
    update(W, sums[:weights], weights, rate)
    update(b, sums[weights:], biases, rate)


def softmax_cross_entropy(P, Y, E, D, rows, width, scale):
    """D may be P."""
    shifted = as_matrix(P, rows, width) - as_matrix(P, rows, width).max(axis=1, keepdims=True)
    exponentials, targets = np.exp(shifted), as_matrix(Y, rows, width)
    sums = exponentials.sum(axis=1, keepdims=True)
    E[:rows] = ((np.log(sums) - shifted) * targets).sum(axis=1)
    as_matrix(D, rows, width)[...] = np.float32(scale) * (exponentials / sums - targets)


def huber(P, Y, E, D, n, scale):
    """D may be P."""
    difference = P[:n] - Y[:n]
    distance = np.abs(difference)
    E[:n] = np.where(distance > 1, distance - np.float32(0.5), np.float32(0.5) * distance * distance)
    D[:n] = np.float32(scale) * np.clip(difference, -1, 1)


def binary_cross_entropy(P, Y, E, D, n, scale):
    """D may be P."""
    E[:n] = np.maximum(P[:n], 0) - P[:n] * Y[:n] + np.log1p(np.exp(-np.abs(P[:n])))
    D[:n] = np.float32(scale) * (_sigmoid(P[:n]) - Y[:n])


# ---- activation functions

LEAK = 0.01
"""The slope of ``leaky_relu`` below 0: PyTorch's default."""


def leaky_relu_forward(Z, n):
    np.maximum(Z[:n], LEAK * Z[:n], out=Z[:n])


def leaky_relu_gradient(D, H, n):
    D[:n] = np.where(H[:n] > 0, D[:n], LEAK * D[:n])


def tanh_forward(Z, n):
    np.tanh(Z[:n], out=Z[:n])


def tanh_gradient(D, H, n):
    D[:n] *= 1 - H[:n] * H[:n]


def sigmoid_forward(Z, n):
    Z[:n] = _sigmoid(Z[:n])


def sigmoid_gradient(D, H, n):
    D[:n] *= H[:n] * (1 - H[:n])


def elu_forward(Z, n):
    Z[:n] = np.where(Z[:n] > 0, Z[:n], np.expm1(np.minimum(Z[:n], 0)))


def elu_gradient(D, H, n):
    D[:n] = np.where(H[:n] > 0, D[:n], D[:n] * (H[:n] + 1))


def silu_forward(X, Z, n):
    np.multiply(X[:n], _sigmoid(X[:n]), out=Z[:n])


def silu_gradient(D, X, n):
    S = _sigmoid(X[:n])
    D[:n] *= S * (1 + X[:n] * (1 - S))


def gelu_forward(X, Z, n):
    np.multiply(X[:n], _normal(X[:n]), out=Z[:n])


def gelu_gradient(D, X, n):
    density = np.exp(-0.5 * X[:n] * X[:n]) / math.sqrt(2 * math.pi)
    D[:n] *= _normal(X[:n]) + X[:n] * density


def _sigmoid(X):
    with np.errstate(over="ignore"):  # 1 / (1 + infinity) is right
        return 1 / (1 + np.exp(-X))


def _normal(X):
    """The normal distribution function."""
    return 0.5 * (1 + _erf(X * math.sqrt(0.5)))


_ERF_OVER = (
    *(-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05),
    *(-7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02),
)
_ERF_UNDER = (
    *(-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03),
    *(-7.37332916720468e-03, -1.42647390514189e-02),
)


def _erf(X):
    """The error function to about 1e-7, as the quotient of polynomials that Eigen uses; NumPy has none."""
    X = np.clip(X, -4, 4)
    over, under = (reduce(lambda sum, c: sum * (X * X) + c, of) for of in (_ERF_OVER, _ERF_UNDER))
    return X * over / under


# ---- norms and dropout

EPS = 1e-5
"""Added by norms to a variance: PyTorch's default."""


def layernorm(X, W, b, Z, M, rows, width):
    x, moments = as_matrix(X, rows, width), as_matrix(M, rows, 2)
    moments[:, 0] = x.mean(axis=1)
    moments[:, 1] = 1 / np.sqrt(np.square(x - moments[:, :1]).mean(axis=1) + X.dtype.type(EPS))
    as_matrix(Z, rows, width)[...] = _normed(x, moments) * W[:width] + b[:width]


def layernorm_wgrad(G, X, M, dW, db, rows, width):
    g, normed = as_matrix(G, rows, width), _normed(as_matrix(X, rows, width), as_matrix(M, rows, 2))
    np.sum(g * normed, axis=0, out=dW[:width])
    np.sum(g, axis=0, out=db[:width])


def layernorm_dgrad(G, X, M, W, D, rows, width):
    moments = as_matrix(M, rows, 2)
    g, normed = as_matrix(G, rows, width) * W[:width], _normed(as_matrix(X, rows, width), moments)
    slope = (g * normed).mean(axis=1, keepdims=True)
    inner = g - g.mean(axis=1, keepdims=True) - normed * slope
    np.multiply(inner, moments[:, 1:], out=as_matrix(D, rows, width))


def _normed(x, moments):
    return (x - moments[:, :1]) * moments[:, 1:]


MOMENTUM = 0.1
"""The share of a batch in running means and variances: PyTorch's default."""


def batchnorm(X, W, b, Z, M, *shape):
    x, moments = X[: math.prod(shape)].reshape(shape), as_matrix(M, shape[1], 2)
    moments[:, 0] = x.mean(axis=(0, 2))
    centred = x - moments[:, :1]
    moments[:, 1] = 1 / np.sqrt(np.square(centred).mean(axis=(0, 2)) + X.dtype.type(EPS))
    normed = centred * (moments[:, 1] * W[: shape[1]])[:, None]
    Z[: x.size].reshape(shape)[...] = normed + b[: shape[1], None]


def batchnorm_wgrad(G, X, M, dW, db, A, V, *shape):
    g, x = (one[: math.prod(shape)].reshape(shape) for one in (G, X))
    moments, count = as_matrix(M, shape[1], 2), shape[0] * shape[2]
    np.sum(g * _normed(x, moments), axis=(0, 2), out=dW[: shape[1]])
    np.sum(g, axis=(0, 2), out=db[: shape[1]])
    variance = (1 / np.square(moments[:, 1]) - X.dtype.type(EPS)) * (count / max(count - 1, 1))
    for mean, new in ((A[: shape[1]], moments[:, 0]), (V[: shape[1]], variance)):
        mean += MOMENTUM * (new - mean)


def batchnorm_dgrad(G, X, M, W, D, *shape):
    g, x = (one[: math.prod(shape)].reshape(shape) for one in (G, X))
    moments = as_matrix(M, shape[1], 2)
    normed = _normed(x, moments)
    slope = (g * normed).mean(axis=(0, 2), keepdims=True)
    inner = g - g.mean(axis=(0, 2), keepdims=True) - normed * slope
    D[: g.size].reshape(shape)[...] = inner * (moments[:, 1] * W[: shape[1]])[:, None]


def batchnorm_predict(X, W, b, A, V, Z, *shape):
    x, (w, b, mean, variance) = (
        X[: math.prod(shape)].reshape(shape),
        (one[: shape[1], None] for one in (W, b, A, V)),
    )
    Z[: x.size].reshape(shape)[...] = (x - mean) * (w / np.sqrt(variance + X.dtype.type(EPS))) + b


def dropout(X, Z, C, *numbers):
    Z[: numbers[0]] = X[: numbers[0]]
    dropout_gradient(Z, C, *numbers)


def dropout_gradient(D, C, n, first, layer, seed, turn, drop):
    is_dropped = dropped(first, n, layer, seed, turned(C, turn), drop)
    D[:n] *= np.float32(1) / (np.float32(1) - np.float32(drop))
    D[:n][is_dropped] = 0


def turned(C, turn):
    """The number of the step, C[turn]; writes the other one as a launch with this turn does."""
    counts = C[:2].view(np.uint32)
    step = int(counts[turn])
    counts[1 - turn] = (step + turn) % 2**32
    return step


def count_dropout(C):
    C[:1].view(np.uint32)[...] += np.uint32(1)


# ---- products, with the operations that follow them in the same kernel


def matmul(A, B, C, m, k, n):
    np.matmul(as_matrix(A, m, k), as_matrix(B, k, n), out=as_matrix(C, m, n))


def matmul_tn(A, B, C, m, k, n):
    np.matmul(as_matrix(A, k, m).T, as_matrix(B, k, n), out=as_matrix(C, m, n))


def matmul_nt(A, B, C, m, k, n):
    np.matmul(as_matrix(A, m, k), as_matrix(B, n, k).T, out=as_matrix(C, m, n))


def matmul_relu(A, B, C, m, k, n):
    matmul(A, B, C, m, k, n)
    relu(C, m * n)


def matmul_bias(A, B, C, b, m, k, n):
    matmul(A, B, C, m, k, n)
    add_bias(C, b, m, n)


def matmul_bias_activation(A, B, C, b, m, k, n, activation):
    matmul_bias(A, B, C, b, m, k, n)
    _activate(C, C, m * n, activation)


def matmul_bias_activation_kept(A, B, Z, b, C, m, k, n, activation):
    matmul_bias(A, B, Z, b, m, k, n)
    _activate(Z, C, m * n, activation)


def _activate(Z, C, n, activation):
    name = FUSED_ACTIVATIONS[activation]
    if name in KEEPING_INPUTS:
        globals()[f"{name}_forward"](Z if Z is not C else Z.copy(), C, n)
        return
    C[:n] = Z[:n]
    (relu if name == "relu" else globals()[f"{name}_forward"])(C, n)


def matmul_derivative(A, B, C, H, m, k, n, activation):
    matmul(A, B, C, m, k, n)
    _differentiate(C, H, m * n, activation)


def matmul_nt_derivative(A, B, C, H, m, k, n, activation):
    matmul_nt(A, B, C, m, k, n)
    _differentiate(C, H, m * n, activation)


def _differentiate(D, H, n, activation):
    name = FUSED_ACTIVATIONS[activation]
    (mask if name == "relu" else globals()[f"{name}_gradient"])(D, H, n)


def matmul_bias_error(A, B, D, b, Y, E, m, k, n, scale):
    matmul_bias(A, B, E, b, m, k, n)
    error(E, Y, E, D, m * n, scale)


def matmul_tn_sum(A, B, G, m, k, n, bias):
    matmul_tn(A, B, G, m, k, n)
    if bias:
        sum_rows(B, G[m * n :], k, n)


def matmul_tn_adam(A, B, W, M, V, T, m, k, n, bias, rate, gain1, gain2, eps, decay, shrink):
    G, size = np.empty_like(W), (m + bias) * n
    matmul_tn_sum(A, B, G, m, k, n, bias)
    g = _followed(W, G, T, size, decay)
    if shrink:
        W[:size] -= np.float32(rate * shrink) * T[3] * W[:size]
    _adam(W, g, M, V, T, size, rate, gain1, gain2, eps)


def matmul_tn_sum_layers(*operands_and_numbers):
    _each_layer(matmul_tn_sum, operands_and_numbers, 1, ())


def matmul_tn_adam_layers(*operands_and_numbers):
    _each_layer(matmul_tn_adam, operands_and_numbers[:-6], 3, operands_and_numbers[-6:])


def _each_layer(compute, given, laid_out, step):
    """``laid_out``: how many arrays hold the parameters of all layers."""
    *matrices, k = given
    matrices, sizes = matrices[: -4 * LAYERS_AT_ONCE], matrices[-4 * LAYERS_AT_ONCE :]
    pairs, others = matrices[: 2 * LAYERS_AT_ONCE], matrices[2 * LAYERS_AT_ONCE :]
    for layer in range(LAYERS_AT_ONCE):
        m, n, bias, at = sizes[4 * layer : 4 * layer + 4]
        if m:
            own = [array[at:] for array in others[:laid_out]]
            compute(*pairs[2 * layer : 2 * layer + 2], *own, *others[laid_out:], m, k, n, bias, *step)


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
    update(W, as_matrix(A, k, m).T.dot(as_matrix(B, k, n)).reshape(-1), m * n, rate)


def matmul_tn_update_both(A, B, W, V, m, k, n, rate):
    matmul_tn_update(A, B, W, m, k, n, rate)
    transpose(W, V, m, n)


def matmul_tn_update_bias(A, B, W, b, m, k, n, rate):
    matmul_tn_update(A, B, W, m, k, n, rate)
    update(b, as_matrix(B, k, n).sum(axis=0), n, rate)


def matmul_tn_update_both_bias(A, B, W, V, b, m, k, n, rate):
    matmul_tn_update_bias(A, B, W, b, m, k, n, rate)
    transpose(W, V, m, n)


# ---- convolutions, their gradients, pooling, and the patches that make a convolution a product


def im2col(X, P, rows, channels, height, width, kernel, padding, stride=1):
    patches = patches_of(as_images(X, rows, channels, height, width), kernel, padding)
    patches = patches[:, :, ::stride, ::stride]
    patches = patches.transpose(0, 2, 3, 1, 4, 5)  # rows, y, x, channels, kernel, kernel
    P[: patches.size].reshape(patches.shape)[...] = patches


def col2im(P, X, rows, channels, height, width, kernel, padding, stride=1):
    high, wide = ((side + 2 * padding - kernel) // stride + 1 for side in (height, width))
    shape = rows, high, wide, channels, kernel, kernel
    patches = P[: math.prod(shape)].reshape(shape).transpose(0, 3, 4, 5, 1, 2)
    total = np.zeros((rows, channels, height + 2 * padding, width + 2 * padding), P.dtype)
    for y in range(kernel):
        for x in range(kernel):
            down, across = slice(y, y + high * stride, stride), slice(x, x + wide * stride, stride)
            total[:, :, down, across] += patches[:, :, y, x]
    inner = total[:, :, padding : padding + height, padding : padding + width]
    as_images(X, rows, channels, height, width)[...] = inner


def conv2d(X, W, b, Z, rows, channels, height, width, filters, kernel, padding):
    patches = patches_of(as_images(X, rows, channels, height, width), kernel, padding)
    outputs = np.tensordot(patches, as_filters(W, filters, channels, kernel), ((1, 4, 5), (1, 2, 3)))
    outputs = outputs.transpose(0, 3, 1, 2) + b[:filters].reshape(-1, 1, 1)
    as_images(Z, *outputs.shape)[...] = outputs


def conv2d_relu(X, W, b, Z, *numbers):
    conv2d(X, W, b, Z, *numbers)
    relu(Z, outputs_of(*numbers)[0])


def conv2d_relu_pool(X, W, b, Z, which, *numbers):
    *shape, size = numbers
    count, images = outputs_of(*shape)
    unpooled = np.empty(count, Z.dtype)
    conv2d_relu(X, W, b, unpooled, *shape)
    windows = windows_of(unpooled, *(*images, size))
    largest = windows.argmax(axis=-1)
    which[: largest.size] = largest.reshape(-1)
    Z[: largest.size] = np.take_along_axis(windows, largest[..., None], axis=-1).reshape(-1)


def conv2d_dgrad(G, W, D, rows, channels, height, width, filters, kernel, padding):
    numbers = rows, channels, height, width, filters, kernel, padding
    gradients = as_images(G, *outputs_of(*numbers)[1])
    patches = np.tensordot(gradients, as_filters(W, filters, channels, kernel), (1, 0))
    patches = np.ascontiguousarray(patches).reshape(-1)  # rows, y, x, channels, kernel, kernel
    col2im(patches, D, rows, channels, height, width, kernel, padding)


def conv2d_dgrad_mask(G, W, D, H, *numbers):
    conv2d_dgrad(G, W, D, *numbers)
    mask(D, H, math.prod(numbers[:4]))


def conv2d_dgrad_pooled(G, which, W, D, *numbers):
    conv2d_dgrad(unpool(G, which, *numbers), W, D, *numbers[:-1])


def conv2d_dgrad_pooled_mask(G, which, W, D, H, *numbers):
    conv2d_dgrad_mask(unpool(G, which, *numbers), W, D, H, *numbers[:-1])


def conv2d_wgrad(G, X, dW, db, rows, channels, height, width, filters, kernel, padding):
    numbers = rows, channels, height, width, filters, kernel, padding
    gradients = as_images(G, *outputs_of(*numbers)[1])
    patches = patches_of(as_images(X, rows, channels, height, width), kernel, padding)
    as_filters(dW, filters, channels, kernel)[...] = np.tensordot(gradients, patches, ((0, 2, 3), (0, 2, 3)))
    db[:filters] = gradients.sum(axis=(0, 2, 3))


def conv2d_wgrad_parts(G, X, S, *numbers):
    *shape, parts = numbers
    weights = shape[4] * shape[1] * shape[5] ** 2
    sums = as_matrix(S, parts, weights + shape[4])
    sums[1:] = 0
    conv2d_wgrad(G, X, sums[0, :weights], sums[0, weights:], *shape)


def conv2d_wgrad_parts_pooled(G, which, X, S, *numbers):
    *shape, _, parts = numbers
    conv2d_wgrad_parts(unpool(G, which, *numbers[:-1]), X, S, *shape, parts)


def max_pool2d(X, Z, rows, channels, height, width, size):
    first, *others = places_of(as_images(X, rows, channels, height, width), size)
    pooled = as_images(Z, *first.shape)
    pooled[...] = first
    for place in others:
        np.maximum(pooled, place, out=pooled)


def avg_pool2d(X, Z, rows, channels, height, width, size):
    first, *others = places_of(as_images(X, rows, channels, height, width), size)
    means = as_images(Z, *first.shape)
    means[...] = first
    for place in others:
        means += place
    means *= 1 / size**2


def avg_pool2d_gradient(G, D, rows, channels, height, width, size):
    images = as_images(D, rows, channels, height, width)
    images[...] = 0
    for place in places_of(images, size):
        np.multiply(as_images(G, *place.shape), 1 / size**2, out=place)


def max_pool2d_gradient(G, X, D, rows, channels, height, width, size):
    first, *others = places_of(as_images(X, rows, channels, height, width), size)
    largest, at = first.copy(), np.zeros(first.shape, np.min_scalar_type(size**2))
    for number, place in enumerate(others, 1):
        larger = place > largest
        np.copyto(largest, place, where=larger)
        np.copyto(at, number, where=larger)
    images = as_images(D, rows, channels, height, width)
    images[...] = 0
    for number, place in enumerate(places_of(images, size)):
        np.copyto(place, as_images(G, *first.shape), where=at == number)


# ---- the CNN report's programs, which do not compute the exact gradient


def published_wgrad(X, G, dW, db, rows, channels, height, width, kernel, padding, filters):
    high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
    patch, positions = channels * kernel**2, rows * high * wide
    P = np.empty(positions * patch, X.dtype)
    im2col(X, P, rows, channels, height, width, kernel, padding)
    by_filter = as_images(G, rows, filters, high, wide).transpose(0, 2, 3, 1).reshape(positions, filters)
    sums = np.zeros(filters * patch + filters, X.dtype)
    for lane in range(32):  # the parameters of this lane at the positions of this lane
        g, p = by_filter[lane::32], as_matrix(P, positions, patch)[lane::32]
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
