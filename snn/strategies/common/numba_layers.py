"""The operations of a network of layers as loops compiled by Numba, for one thread or several."""

from collections.abc import Callable
from functools import cache
from math import exp, log
from typing import Any

import numpy as np

from snn.backends.ops import PARTIAL_SUMS
from snn.errors import Unsupported
from snn.strategies.common import numba_convolution, numba_loops
from snn.strategies.common.optional import required

_CHUNK = 4096  # elements of an element-wise operation that a thread takes at a time: 16 KiB


def operation(parallel: bool, name: str) -> Callable[..., None]:
    """An operation of ``snn.backends.ops`` on flat float32 arrays. Raises Unsupported if there is no loop."""
    loops = compiled(parallel)
    if name not in loops:
        raise Unsupported(f"the loops of this CPU baseline do not include the operation {name}")
    return loops[name]


@cache
def compiled(parallel: bool) -> dict[str, Callable[..., None]]:
    """The compiled loops by the names of their operations.

    If ``parallel``, the outer loops over images and large matrices are divided among Numba's threads. Each
    result is computed by one thread, so that it does not depend on their number. Raises Unsupported without
    Numba.
    """
    numba = required("numba")
    kept = numba_loops.keeps(numba, parallel)
    prange, float32 = numba.prange, numba.float32
    flat, count, real, zero = float32[::1], numba.int64, numba.float64, float32(0)

    def jit(*types: Any) -> Callable[..., Any]:
        return numba.njit(numba.void(*types), fastmath=numba_loops.FASTMATH, cache=kept)

    def divided(*types: Any) -> Callable[..., Any]:
        """Compiles a loop that is worth dividing."""
        fastmath = numba_loops.FASTMATH
        return numba.njit(numba.void(*types), parallel=parallel, fastmath=fastmath, cache=kept)

    @divided(flat, flat, flat, count, count, count)
    def matmul_nt(A, B, C, m, k, n):
        for i in prange(m):
            row = A[i * k : (i + 1) * k]
            for j in range(n):
                column, total = B[j * k : (j + 1) * k], zero
                for p in range(k):
                    total += row[p] * column[p]
                C[i * n + j] = total

    @jit(flat, flat, count, count)
    def add_bias(Z, b, rows, width):
        for r in range(rows):
            row = Z[r * width : (r + 1) * width]
            for j in range(width):
                row[j] += b[j]

    @jit(flat, flat, count, count)
    def sum_rows(G, s, rows, width):
        for j in range(width):
            s[j] = zero
        for r in range(rows):
            row = G[r * width : (r + 1) * width]
            for j in range(width):
                s[j] += row[j]

    @divided(flat, count)
    def relu(Z, n):
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            part = Z[chunk * _CHUNK : min((chunk + 1) * _CHUNK, n)]
            for i in range(len(part)):
                if part[i] < zero:
                    part[i] = zero

    @divided(flat, flat, count)
    def mask(D, H, n):
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            start, end = chunk * _CHUNK, min((chunk + 1) * _CHUNK, n)
            gradient, activation = D[start:end], H[start:end]
            for i in range(end - start):
                gradient[i] = gradient[i] if activation[i] > zero else zero

    @divided(flat, flat, count, real)
    def update(W, G, n, rate):
        step = float32(rate)
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            start, end = chunk * _CHUNK, min((chunk + 1) * _CHUNK, n)
            weight, gradient = W[start:end], G[start:end]
            for i in range(end - start):
                weight[i] -= step * gradient[i]

    @jit(flat, flat, count)
    def sum_squares(G, S, n):
        for i in range(PARTIAL_SUMS):
            S[i] = zero
        for i in range(n):
            S[0] += G[i] * G[i]

    @jit(flat, flat, flat, flat, count, real)
    def error(P, Y, E, D, n, scale):
        for i in range(n):
            E[i] = P[i] - Y[i]
            D[i] = float32(scale) * E[i]

    @jit(flat, flat, flat, flat, count, count, real)
    def softmax_cross_entropy(P, Y, E, D, rows, width, scale):
        for r in range(rows):
            start, end = r * width, (r + 1) * width
            outputs, targets, gradient = P[start:end], Y[start:end], D[start:end]
            largest, total, loss = outputs[0], zero, zero
            for j in range(1, width):
                largest = max(largest, outputs[j])
            for j in range(width):
                total += float32(exp(outputs[j] - largest))
            for j in range(width):
                shifted = outputs[j] - largest
                loss += (float32(log(total)) - shifted) * targets[j]
                gradient[j] = float32(scale) * (float32(exp(shifted)) / total - targets[j])
            E[r] = loss

    @divided(flat, flat, count, count, count, count, count)
    def max_pool2d(X, Z, rows, channels, height, width, size):
        high, wide = height // size, width // size
        for image in prange(rows * channels):
            pixels = X[image * height * width : (image + 1) * height * width]
            pooled = Z[image * high * wide : (image + 1) * high * wide]
            for y in range(high):
                for x in range(wide):
                    largest = pixels[y * size * width + x * size]
                    for u in range(size):
                        for v in range(size):
                            largest = max(largest, pixels[(y * size + u) * width + x * size + v])
                    pooled[y * wide + x] = largest

    @divided(flat, flat, flat, count, count, count, count, count)
    def max_pool2d_gradient(G, X, D, rows, channels, height, width, size):
        high, wide = height // size, width // size
        for image in prange(rows * channels):
            pixels = X[image * height * width : (image + 1) * height * width]
            gradient = D[image * height * width : (image + 1) * height * width]
            for p in range(height * width):
                gradient[p] = zero
            for y in range(high):
                for x in range(wide):
                    at = y * size * width + x * size
                    for u in range(size):
                        for v in range(size):
                            other = (y * size + u) * width + x * size + v
                            if pixels[other] > pixels[at]:
                                at = other
                    gradient[at] = G[(image * high + y) * wide + x]

    forward, gradient = numba_loops.compiled(parallel)[:2]

    def matmul(A: np.ndarray, B: np.ndarray, C: np.ndarray, m: int, k: int, n: int) -> None:
        forward(_matrix(A, m, k), _matrix(B, k, n), False, _matrix(C, m, n))

    def matmul_tn(A: np.ndarray, B: np.ndarray, C: np.ndarray, m: int, k: int, n: int) -> None:
        gradient(_matrix(A, k, m), _matrix(B, k, n), _matrix(C, m, n))

    def clipped_update(
        W: np.ndarray, G: np.ndarray, S: np.ndarray, n: int, rate: float, max_norm: float
    ) -> None:
        norm = float(S[0]) ** 0.5
        update(W, G, n, rate * (max_norm / (norm + 1e-6) if norm > max_norm else 1.0))

    loops: list[Any] = [matmul, matmul_tn, matmul_nt, add_bias, sum_rows, relu, mask, update, sum_squares]
    loops += [clipped_update, error, softmax_cross_entropy, max_pool2d, max_pool2d_gradient]
    return {loop.__name__: loop for loop in loops} | numba_convolution.compiled(parallel)


def _matrix(flat: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return flat[: rows * columns].reshape(rows, columns)
