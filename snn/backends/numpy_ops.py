"""The work of ``snn.backends.ops`` in NumPy: what the CPU backend does, and the oracle of the kernels.

Every function takes flat float32 arrays, each at least as long as its operand, and numbers.
"""

import numpy as np

from snn.backends.ops import PARTIAL_SUMS


def matmul(A, B, C, m, k, n):
    np.matmul(_matrix(A, m, k), _matrix(B, k, n), out=_matrix(C, m, n))


def matmul_tn(A, B, C, m, k, n):
    np.matmul(_matrix(A, k, m).T, _matrix(B, k, n), out=_matrix(C, m, n))


def matmul_nt(A, B, C, m, k, n):
    np.matmul(_matrix(A, m, k), _matrix(B, n, k).T, out=_matrix(C, m, n))


def matmul_relu(A, B, C, m, k, n):
    matmul(A, B, C, m, k, n)
    relu(C, m * n)


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


def _matrix(flat, rows, cols):
    return flat[: rows * cols].reshape(rows, cols)
