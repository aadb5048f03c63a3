"""Matrix products, and what follows one in the same kernel."""

import numpy as np

from snn.backends.cpu.ops.elementwise import add_bias, error, mask, relu, transpose, update
from snn.backends.cpu.ops.views import as_matrix


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
