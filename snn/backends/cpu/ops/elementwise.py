"""Operations that are no products: by element, sums over rows or parts, transposes, losses, updates."""

import numpy as np

from snn.backends.cpu.ops.views import as_matrix
from snn.backends.ops import PARTIAL_SUMS
from snn.models import host_ops


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
    norm = np.sqrt(S[:PARTIAL_SUMS].sum())
    scale = np.float32(max_norm / (norm + 1e-6)) if norm > max_norm else np.float32(1)
    update(W, G[:n] * scale, n, rate)


def clipped_update_both(W, V, G, S, rows, cols, rate, max_norm):
    clipped_update(W, G, S, rows * cols, rate, max_norm)
    transpose(W, V, rows, cols)


def transpose(A, T, rows, cols):
    as_matrix(T, cols, rows)[...] = as_matrix(A, rows, cols).T


def transpose_each(A, T, count, rows, cols):
    size = count * rows * cols
    T[:size].reshape(count, cols, rows)[...] = A[:size].reshape(count, rows, cols).transpose(0, 2, 1)


def keep_first(G, n, kept):
    G[kept:n] = 0


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
