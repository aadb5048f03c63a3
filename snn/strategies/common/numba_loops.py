"""The arithmetic of a training step as loops compiled by Numba, for one thread or several."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from snn.files.cache import writable
from snn.strategies.common.cpu_perceptron import Arithmetic
from snn.strategies.common.optional import required

_STRIP = 16  # rows of dW whose elements of H share a cache line: 64 bytes of float32
FASTMATH = {"reassoc", "contract", "nsz"}
"""Sums may be reordered, so that they vectorise; NaN stays NaN."""


def keeps(numba: Any, parallel: bool) -> bool:
    """Whether Numba keeps what it compiles from now on in the user's cache, so that no process does it again.

    Numba asks for the loop, its source file and the processor, but neither for its options nor for other
    modules: those decide the folder.
    """
    sources = sorted(Path(__file__).parent.glob("numba_*.py"))
    decided_by = b"".join([*(source.read_bytes() for source in sources), b"parallel" * parallel])
    place = writable(f"numba/{hashlib.sha256(decided_by).hexdigest()[:16]}")
    if place is not None:
        numba.config.CACHE_DIR = str(place)
    return place is not None


@cache
def compiled(parallel: bool) -> Arithmetic:
    """The compiled loops; if ``parallel``, the outer loops are divided among Numba's threads.

    Inner loops run along rows, so memory is read and written contiguously. Raises Unsupported without Numba.
    """
    numba = required("numba")
    kept = keeps(numba, parallel)
    prange, float32 = numba.prange, numba.float32
    matrix, zero = float32[:, ::1], float32(0)

    def jit(*types: Any) -> Callable[..., Any]:
        return numba.njit(numba.void(*types), parallel=parallel, fastmath=FASTMATH, cache=kept)

    @jit(matrix, matrix, numba.boolean, matrix)
    def forward(A, W, relu, Z):
        for i in prange(Z.shape[0]):
            for j in range(Z.shape[1]):
                Z[i, j] = zero
            if Z.shape[1] == 1:
                for k in range(A.shape[1]):
                    Z[i, 0] += A[i, k] * W[k, 0]
            else:
                for k in range(A.shape[1]):
                    for j in range(Z.shape[1]):
                        Z[i, j] += A[i, k] * W[k, j]
            if relu:
                for j in range(Z.shape[1]):
                    if Z[i, j] < zero:
                        Z[i, j] = zero

    @jit(matrix, matrix, matrix)
    def gradient(H, dZ, dW):
        if dW.shape[1] == 1:
            for strip in prange((dW.shape[0] + _STRIP - 1) // _STRIP):
                start, end = strip * _STRIP, min((strip + 1) * _STRIP, dW.shape[0])
                for i in range(start, end):
                    dW[i, 0] = zero
                for r in range(H.shape[0]):
                    for i in range(start, end):
                        dW[i, 0] += H[r, i] * dZ[r, 0]
        else:
            for i in prange(dW.shape[0]):
                for j in range(dW.shape[1]):
                    dW[i, j] = zero
                for r in range(H.shape[0]):
                    for j in range(dW.shape[1]):
                        dW[i, j] += H[r, i] * dZ[r, j]

    @jit(float32, matrix)
    def clip(max_norm, dW):
        total = zero
        for i in prange(dW.shape[0]):
            for j in range(dW.shape[1]):
                total += dW[i, j] * dW[i, j]
        norm = float32(total**0.5)
        if norm > max_norm:
            scale = float32(max_norm / (norm + 1e-6))
            for i in prange(dW.shape[0]):
                for j in range(dW.shape[1]):
                    dW[i, j] *= scale

    @jit(matrix, matrix, matrix, matrix)
    def propagate(dZ, W, H, dH):
        for r in prange(dH.shape[0]):
            for i in range(dH.shape[1]):
                total = zero
                for j in range(dZ.shape[1]):
                    total += dZ[r, j] * W[i, j]
                dH[r, i] = total if H[r, i] > zero else zero

    @jit(float32, matrix, matrix)
    def update(rate, dW, W):
        for i in prange(W.shape[0]):
            for j in range(W.shape[1]):
                W[i, j] -= rate * dW[i, j]

    return Arithmetic(forward, gradient, clip, propagate, update)
