"""Loops compiled by Numba, for one thread or several: a perceptron's step, and operations of layers."""

import hashlib
from collections.abc import Callable
from functools import cache, cached_property, partial
from math import erf, exp, expm1, log, log1p, pi, sqrt, tanh
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snn.backends.cpu.ops import EPS, LEAK, MOMENTUM, clip_together, count_dropout, count_step, turned
from snn.backends.ops import PARTIAL_SUMS
from snn.errors import Unsupported
from snn.files.cache import writable
from snn.models.optimizers import PARTIALS_FROM
from snn.models.row_order import MULTIPLIERS, WEYL
from snn.strategies.base import required

_STRIP = 16  # rows of dW whose elements of H share a cache line: 64 bytes of float32
FASTMATH = {"reassoc", "contract", "nsz"}
"""Sums may be reordered, so that they vectorise; NaN stays NaN."""


class Arithmetic(NamedTuple):
    """The operations of a step on C-contiguous float32 matrices. Each writes its last argument.

    ``forward(A, W, relu, Z)``: Z = A W, or max(A W, 0) if ``relu``.
    ``gradient(H, dZ, dW)``: dW = H^T dZ.
    ``clip(max_norm, dW)``: scales dW to an L2 norm of at most ``max_norm``.
    ``propagate(dZ, W, H, dH)``: dH = dZ W^T where H > 0, else 0.
    ``update(rate, dW, W)``: W -= rate dW. It may overwrite dW, which is not read afterwards.
    """

    forward: Callable[..., None]
    gradient: Callable[..., None]
    clip: Callable[..., None]
    propagate: Callable[..., None]
    update: Callable[..., None]


_OF_NUMBA = (
    "UserProvidedCacheLocator,InTreeCacheLocator,UserWideCacheLocator,IPythonCacheLocator,ZipCacheLocator"
)


class InCache:
    """Tells Numba where compiled loops of this file are kept: the methods of its ``_CacheLocator``.

    Numba's own locators have the path of the source file in the place, so that each clone would compile.
    """

    def __init__(self, loop: Callable[..., Any]) -> None:
        self._py_file, self._line = __file__, loop.__code__.co_firstlineno

    @classmethod
    def from_function(cls, loop: Callable[..., Any], source: str) -> "InCache | None":
        """The locator of a loop; None for one of another file."""
        return cls(loop) if source == __file__ else None

    def get_cache_path(self) -> str:
        """The folder that ``keeps`` set."""
        return str(required("numba").config.CACHE_DIR)

    def ensure_cache_path(self) -> None:
        """Do nothing: the folder exists."""

    def get_source_stamp(self) -> None:
        """Return None for any source: the folder has its digest."""

    def get_disambiguator(self) -> str:
        """The loop's line."""
        return str(self._line)


def keeps(numba: Any, parallel: bool) -> bool:
    """Make Numba keep compiled loops in the user's cache, for every clone; return whether it does.

    Numba's cache key has the loop and the processor, but neither its source file, options nor other modules:
    those and the version determine the folder.
    """
    decided_by = Path(__file__).read_bytes() + b"parallel" * parallel + numba.__version__.encode()
    place = writable(f"numba/{hashlib.sha256(decided_by).hexdigest()[:16]}")
    if place is not None:
        mine, config = f"{__name__}.{InCache.__name__},", numba.config
        config.CACHE_DIR = str(place)
        others = getattr(config, "CACHE_LOCATOR_CLASSES", None)
        if others is not None:  # Numba 0.62 and newer: an older one compiles once per clone
            config.CACHE_LOCATOR_CLASSES = mine + (others.removeprefix(mine) or _OF_NUMBA)
    return place is not None


class Loop:
    """A loop that is compiled when it is first asked for: each takes about a second, and few are needed."""

    def __init__(self, loop: Callable[..., None], compile: Callable[..., Any]) -> None:
        self.__name__, self.written, self._compile = loop.__name__, loop, compile

    def __call__(self) -> Callable[..., Any]:
        """The compiled loop."""
        return self._compiled

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        return self._compile(self.written)


def _compiler(numba: Any, parallel: bool, exact: bool = False) -> Callable[..., Any]:
    """A decorator for loops to be compiled for these types; ``divided``: for threads, if ``parallel``.

    ``exact``: in float32 arithmetic without reordering, as C compilers do.
    """
    kept = keeps(numba, parallel)

    def jit(*types: Any, divided: bool = True, returns: Any = numba.void) -> Callable[..., Loop]:
        options = {"parallel": parallel and divided, "fastmath": not exact and FASTMATH, "cache": kept}
        return partial(Loop, compile=numba.njit(returns(*types), **options))

    return jit


@cache
def perceptron_loops(parallel: bool) -> Arithmetic:
    """The compiled loops; if ``parallel``, the outer loops are divided among Numba's threads.

    Inner loops run along rows, so memory is read and written contiguously. Raises Unsupported without Numba.
    """
    return Arithmetic(*(loop() for loop in _perceptron(parallel)))


def _perceptron(parallel: bool) -> tuple[Loop, ...]:
    """The loops of ``perceptron_loops``."""
    numba = required("numba")
    jit, prange, float32 = _compiler(numba, parallel), numba.prange, numba.float32
    matrix, zero = float32[:, ::1], float32(0)

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

    return forward, gradient, clip, propagate, update


@cache
def published_loops() -> tuple[Callable[..., Any], ...]:
    """The host's loops of the authors' programs, one per field of ``HostLoops``. Raises Unsupported."""
    numba = required("numba")
    jit, float32 = _compiler(numba, parallel=False, exact=True), numba.float32
    matrix, zero, one = float32[:, ::1], float32(0), float32(1)

    @jit(matrix, matrix)
    def copy(A, out):
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                out[i, j] = A[i, j]

    @jit(matrix)
    def relu(Z):
        for i in range(Z.shape[0]):
            for j in range(Z.shape[1]):
                Z[i, j] = max(zero, Z[i, j])

    @jit(matrix, matrix, returns=float32)
    def loss(P, Y):
        total = zero
        for i in range(P.shape[0]):
            for j in range(P.shape[1]):
                total += (P[i, j] - Y[i, j]) * (P[i, j] - Y[i, j])
        return total / float32(P.shape[0])

    @jit(matrix, matrix, matrix)
    def subtract(P, Y, out):
        for i in range(P.shape[0]):
            for j in range(P.shape[1]):
                out[i, j] = P[i, j] - Y[i, j]

    @jit(float32, matrix)
    def scale(factor, D):
        for i in range(D.shape[0]):
            for j in range(D.shape[1]):
                D[i, j] *= factor

    @jit(matrix, matrix)
    def transpose(A, out):
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                out[j, i] = A[i, j]

    @jit(matrix, matrix)
    def derivative(H, out):
        for i in range(H.shape[0]):
            for j in range(H.shape[1]):
                out[i, j] = one if H[i, j] > zero else zero

    @jit(matrix, matrix)
    def multiply(mask, D):
        for i in range(D.shape[0]):
            for j in range(D.shape[1]):
                D[i, j] *= mask[i, j]

    @jit(float32, matrix, matrix)
    def update(rate, dW, W):
        for i in range(W.shape[0]):
            for j in range(W.shape[1]):
                W[i, j] -= rate * dW[i, j]

    loops = copy, relu, loss, subtract, scale, transpose, derivative, multiply, update
    return tuple(loop() for loop in loops)


_ACTIVATIONS = "tanh", "sigmoid", "elu", "leaky_relu", "silu", "gelu"
_TANH, _SIGMOID, _ELU, _, _SILU, _GELU = range(6)
_LEAK, _ROOT_HALF, _DENSITY = np.float32(LEAK), np.float32(sqrt(0.5)), np.float32(1 / sqrt(2 * pi))

_CHUNK = 4096  # elements of an element-wise operation that a thread takes at a time: 16 KiB


@cache
def operation(parallel: bool, name: str) -> Callable[..., None]:
    """An operation of ``snn.backends.ops`` on flat float32 arrays. Raises Unsupported if it has no loop.

    If ``parallel``, the outer loops over images and large matrices are divided among Numba's threads. Each
    result is computed by one thread, so that it does not depend on their number.
    """
    for loops in (_layer_loops, _optimizer_loops, _norm_loops):
        if name in loops(parallel):
            return loops(parallel)[name]()
    raise Unsupported(f"the loops of this CPU baseline do not include the operation {name}")


_Loops = dict[str, Callable[[], Callable[..., None]]]
"""By the name of an operation, a function that compiles what it needs and returns it."""


@cache
def _layer_loops(parallel: bool) -> _Loops:
    """The loops of layers, losses and plain updates. Raises Unsupported without Numba."""
    numba = required("numba")
    jit, prange, float32 = _compiler(numba, parallel), numba.prange, numba.float32
    flat, count, real, zero, one = float32[::1], numba.int64, numba.float64, float32(0), float32(1)
    half = float32(0.5)

    @jit(flat, flat, flat, count, count, count)
    def matmul_nt(A, B, C, m, k, n):
        for i in prange(m):
            row = A[i * k : (i + 1) * k]
            for j in range(n):
                column, total = B[j * k : (j + 1) * k], zero
                for p in range(k):
                    total += row[p] * column[p]
                C[i * n + j] = total

    @jit(flat, flat, count, count, divided=False)
    def add_bias(Z, b, rows, width):
        for r in range(rows):
            row = Z[r * width : (r + 1) * width]
            for j in range(width):
                row[j] += b[j]

    @jit(flat, flat, count, count, divided=False)
    def sum_rows(G, s, rows, width):
        for j in range(width):
            s[j] = zero
        for r in range(rows):
            row = G[r * width : (r + 1) * width]
            for j in range(width):
                s[j] += row[j]

    @jit(flat, count)
    def relu(Z, n):
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            part = Z[chunk * _CHUNK : min((chunk + 1) * _CHUNK, n)]
            for i in range(len(part)):
                if part[i] < zero:
                    part[i] = zero

    @jit(flat, flat, count)
    def mask(D, H, n):
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            start, end = chunk * _CHUNK, min((chunk + 1) * _CHUNK, n)
            gradient, activation = D[start:end], H[start:end]
            for i in range(end - start):
                gradient[i] = gradient[i] if activation[i] > zero else zero

    @jit(count, flat, flat, count)
    def activate(kind, X, Z, n):
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, n)):
                x = X[i]
                if kind == _TANH:
                    Z[i] = tanh(x)
                elif kind == _SIGMOID:
                    Z[i] = one / (one + exp(-x))
                elif kind == _SILU:
                    Z[i] = x / (one + exp(-x))
                elif kind == _GELU:
                    Z[i] = x * float32(0.5) * (one + erf(x * _ROOT_HALF))
                elif x > zero:
                    Z[i] = x
                else:
                    Z[i] = expm1(x) if kind == _ELU else x * _LEAK

    @jit(count, flat, flat, count)
    def differentiate(kind, D, H, n):
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            for i in range(chunk * _CHUNK, min((chunk + 1) * _CHUNK, n)):
                h = H[i]
                if kind == _TANH:
                    D[i] *= one - h * h
                elif kind == _SIGMOID:
                    D[i] *= h * (one - h)
                elif kind == _SILU:
                    s = one / (one + exp(-h))
                    D[i] *= s * (one + h * (one - s))
                elif kind == _GELU:
                    density = exp(float32(-0.5) * h * h) * _DENSITY
                    D[i] *= float32(0.5) * (one + erf(h * _ROOT_HALF)) + h * density
                elif not h > zero:
                    D[i] *= h + one if kind == _ELU else _LEAK

    @jit(flat, flat, count, real)
    def update(W, G, n, rate):
        step = float32(rate)
        for chunk in prange((n + _CHUNK - 1) // _CHUNK):
            start, end = chunk * _CHUNK, min((chunk + 1) * _CHUNK, n)
            weight, gradient = W[start:end], G[start:end]
            for i in range(end - start):
                weight[i] -= step * gradient[i]

    @jit(flat, flat, count, divided=False)
    def sum_squares(G, S, n):
        for i in range(PARTIAL_SUMS):
            S[i] = zero
        for i in range(n):
            S[0] += G[i] * G[i]

    @jit(flat, flat, flat, flat, count, real, divided=False)
    def error(P, Y, E, D, n, scale):
        for i in range(n):
            E[i] = P[i] - Y[i]
            D[i] = float32(scale) * E[i]

    @jit(flat, flat, flat, flat, count, count, real, divided=False)
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

    @jit(flat, flat, flat, flat, count, real, divided=False)
    def huber(P, Y, E, D, n, scale):
        for i in range(n):
            e = P[i] - Y[i]
            distance = abs(e)
            E[i], D[i] = half * e * e, float32(scale) * e
            if distance > one:
                E[i], D[i] = distance - half, float32(scale) * (one if e > zero else -one)

    @jit(flat, flat, flat, flat, count, real, divided=False)
    def binary_cross_entropy(P, Y, E, D, n, scale):
        for i in range(n):
            p = P[i]
            E[i] = max(p, zero) - p * Y[i] + log1p(exp(-abs(p)))
            D[i] = float32(scale) * (one / (one + exp(-p)) - Y[i])

    @jit(flat, flat, count, count, count, count, count)
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

    @jit(flat, flat, flat, count, count, count, count, count)
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

    # A convolution multiplies a row of pixels by a weight: the innermost loop reads and writes contiguously.
    images = 7 * [count]

    @jit(flat, flat, flat, flat, *images)
    def conv2d(X, W, b, Z, rows, channels, height, width, filters, kernel, padding):
        high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
        for image in prange(rows * filters):
            r, f = image // filters, image % filters
            output = Z[image * high * wide : (image + 1) * high * wide]
            for p in range(high * wide):
                output[p] = b[f]
            for c in range(channels):
                pixels = X[(r * channels + c) * height * width : (r * channels + c + 1) * height * width]
                for u in range(kernel):
                    top, bottom = max(0, padding - u), min(high, height + padding - u)
                    for v in range(kernel):
                        left, right = max(0, padding - v), min(wide, width + padding - v)
                        w = W[((f * channels + c) * kernel + u) * kernel + v]
                        for y in range(top, bottom):
                            x = (y + u - padding) * width + v - padding
                            z_row, x_row = output[y * wide + left :], pixels[x + left :]
                            for j in range(right - left):
                                z_row[j] += w * x_row[j]

    @jit(flat, flat, flat, flat, *images)
    def conv2d_wgrad(G, X, dW, db, rows, channels, height, width, filters, kernel, padding):
        high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
        for tap in prange(filters * channels * kernel * kernel):
            v, u = tap % kernel, tap // kernel % kernel
            c, f = tap // (kernel * kernel) % channels, tap // (kernel * kernel * channels)
            top, bottom = max(0, padding - u), min(high, height + padding - u)
            left, right = max(0, padding - v), min(wide, width + padding - v)
            sums = np.zeros(max(right - left, 0), np.float32)  # one for each column, so that rows add up
            for r in range(rows):
                pixels = X[(r * channels + c) * height * width : (r * channels + c + 1) * height * width]
                gradient = G[(r * filters + f) * high * wide : (r * filters + f + 1) * high * wide]
                for y in range(top, bottom):
                    x = (y + u - padding) * width + v - padding
                    g_row, x_row = gradient[y * wide + left :], pixels[x + left :]
                    for j in range(right - left):
                        sums[j] += g_row[j] * x_row[j]
            total = zero
            for j in range(right - left):
                total += sums[j]
            dW[tap] = total
        for f in prange(filters):
            total = zero
            for r in range(rows):
                gradient = G[(r * filters + f) * high * wide : (r * filters + f + 1) * high * wide]
                for p in range(high * wide):
                    total += gradient[p]
            db[f] = total

    @jit(flat, flat, flat, *images)
    def conv2d_dgrad(G, W, D, rows, channels, height, width, filters, kernel, padding):
        high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
        for image in prange(rows * channels):
            r, c = image // channels, image % channels
            pixels = D[image * height * width : (image + 1) * height * width]
            for p in range(height * width):
                pixels[p] = zero
            for f in range(filters):
                gradient = G[(r * filters + f) * high * wide : (r * filters + f + 1) * high * wide]
                for u in range(kernel):
                    top, bottom = max(0, padding - u), min(high, height + padding - u)
                    for v in range(kernel):
                        left, right = max(0, padding - v), min(wide, width + padding - v)
                        w = W[((f * channels + c) * kernel + u) * kernel + v]
                        for y in range(top, bottom):
                            x = (y + u - padding) * width + v - padding
                            d_row, g_row = pixels[x + left :], gradient[y * wide + left :]
                            for j in range(right - left):
                                d_row[j] += w * g_row[j]

    @jit(flat, flat, *images)
    def im2col(X, P, rows, channels, height, width, kernel, padding, stride):
        high, wide = (
            (height + 2 * padding - kernel) // stride + 1,
            (width + 2 * padding - kernel) // stride + 1,
        )
        patch = channels * kernel * kernel
        for position in prange(rows * high * wide):
            r, top, left = (
                position // (high * wide),
                position // wide % high * stride,
                position % wide * stride,
            )
            for c in range(channels):
                for u in range(kernel):
                    for v in range(kernel):
                        y, x = top + u - padding, left + v - padding
                        inside = 0 <= y < height and 0 <= x < width
                        at = ((r * channels + c) * height + y) * width + x
                        P[position * patch + (c * kernel + u) * kernel + v] = X[at] if inside else zero

    @jit(flat, flat, *images)
    def col2im(P, X, rows, channels, height, width, kernel, padding, stride):
        high, wide = (
            (height + 2 * padding - kernel) // stride + 1,
            (width + 2 * padding - kernel) // stride + 1,
        )
        patch = channels * kernel * kernel
        for image in prange(rows * channels):
            pixels = X[image * height * width : (image + 1) * height * width]
            for p in range(height * width):
                pixels[p] = zero
            for position in range(high * wide):
                top, left = position // wide * stride, position % wide * stride
                row = P[(image // channels * high * wide + position) * patch :]
                for u in range(kernel):
                    for v in range(kernel):
                        y, x = top + u - padding, left + v - padding
                        if 0 <= y < height and 0 <= x < width:
                            pixels[y * width + x] += row[(image % channels * kernel + u) * kernel + v]

    @jit(flat, flat, count, count, count)
    def transpose_each(A, T, number, rows, cols):
        for n in prange(number):
            for i in range(rows):
                for j in range(cols):
                    T[(n * cols + j) * rows + i] = A[(n * rows + i) * cols + j]

    forward, gradient, *_ = _perceptron(parallel)

    def matmul() -> Callable[..., None]:
        product = forward()
        return lambda A, B, C, m, k, n: product(_matrix(A, m, k), _matrix(B, k, n), False, _matrix(C, m, n))

    def matmul_tn() -> Callable[..., None]:
        product = gradient()
        return lambda A, B, C, m, k, n: product(_matrix(A, k, m), _matrix(B, k, n), _matrix(C, m, n))

    def clipped_update() -> Callable[..., None]:
        descend = update()

        def clipped(W: np.ndarray, G: np.ndarray, S: np.ndarray, n: int, rate: float, most: float) -> None:
            norm = float(S[0]) ** 0.5
            descend(W, G, n, rate * (most / (norm + 1e-6) if norm > most else 1.0))

        return clipped

    def forward_of(kind: int) -> Callable[..., None]:
        function = activate()
        if kind in (_SILU, _GELU):
            return partial(function, kind)
        return lambda Z, n: function(kind, Z, Z, n)

    def gradient_of(kind: int) -> Callable[..., None]:
        return partial(differentiate(), kind)

    loops: list[Any] = [matmul, matmul_tn, matmul_nt, add_bias, sum_rows, relu, mask, update, sum_squares]
    loops += [clipped_update, error, softmax_cross_entropy, huber, binary_cross_entropy, max_pool2d]
    loops += [max_pool2d_gradient, conv2d, conv2d_wgrad, conv2d_dgrad, im2col, col2im, transpose_each]
    found: _Loops = {loop.__name__: loop for loop in loops}
    for kind, name in enumerate(_ACTIVATIONS):
        found[f"{name}_forward"] = partial(forward_of, kind)
        found[f"{name}_gradient"] = partial(gradient_of, kind)
    return found


def channel_sums(G, X, M, c, rows, channels, pixels):
    """Sums of a channel's gradients, and of their products with the normalized values: two float32.

    Loops that call it are kept by Numba only because they refer to it by its name in this module: a compiled
    function in their closure has another digest in each process.
    """
    mean, scale, total, products = M[2 * c], M[2 * c + 1], np.float32(0), np.float32(0)
    for r in range(rows):
        g = G[(r * channels + c) * pixels : (r * channels + c + 1) * pixels]
        x = X[(r * channels + c) * pixels : (r * channels + c + 1) * pixels]
        for j in range(pixels):
            total += g[j]
            products += g[j] * (x[j] - mean) * scale
    return total, products


@cache
def _compiled_where_called(function: Callable[..., Any]) -> None:
    """Let compiled loops call a function of this module."""
    from numba.extending import register_jitable

    register_jitable(fastmath=FASTMATH)(function)


@cache
def _norm_loops(parallel: bool) -> _Loops:
    """The loops of norms and dropout. Raises Unsupported without Numba."""
    numba = required("numba")
    jit, prange, float32 = _compiler(numba, parallel), numba.prange, numba.float32
    flat, count, real, zero, one = float32[::1], numba.int64, numba.float64, float32(0), float32(1)
    small, momentum, low, half = float32(EPS), float32(MOMENTUM), np.uint64(0xFFFFFFFF), np.uint64(32)
    m0, m1, w0, w1 = map(np.uint64, (*MULTIPLIERS, *WEYL))

    @jit(flat, flat, flat, flat, flat, count, count)
    def layernorm(X, W, b, Z, M, rows, width):
        for r in prange(rows):
            x, z = X[r * width : (r + 1) * width], Z[r * width : (r + 1) * width]
            total, squares = zero, zero
            for j in range(width):
                total += x[j]
            mean = total / float32(width)
            for j in range(width):
                squares += (x[j] - mean) * (x[j] - mean)
            scale = one / float32(sqrt(squares / float32(width) + small))
            for j in range(width):
                z[j] = (x[j] - mean) * scale * W[j] + b[j]
            M[2 * r], M[2 * r + 1] = mean, scale

    @jit(flat, flat, flat, flat, flat, count, count, divided=False)
    def layernorm_wgrad(G, X, M, dW, db, rows, width):
        for j in range(width):
            dW[j] = db[j] = zero
        for r in range(rows):
            g, x, mean, scale = G[r * width :], X[r * width :], M[2 * r], M[2 * r + 1]
            for j in range(width):
                dW[j] += g[j] * (x[j] - mean) * scale
                db[j] += g[j]

    @jit(flat, flat, flat, flat, flat, count, count)
    def layernorm_dgrad(G, X, M, W, D, rows, width):
        for r in prange(rows):
            g, x, d = G[r * width :], X[r * width :], D[r * width : (r + 1) * width]
            mean, scale, total, products = M[2 * r], M[2 * r + 1], zero, zero
            for j in range(width):
                total += g[j] * W[j]
                products += g[j] * W[j] * (x[j] - mean) * scale
            total, products = total / float32(width), products / float32(width)
            for j in range(width):
                d[j] = scale * (g[j] * W[j] - total - (x[j] - mean) * scale * products)

    @jit(*(5 * [flat]), *(3 * [count]))
    def batchnorm(X, W, b, Z, M, rows, channels, pixels):
        for c in prange(channels):
            total, squares = zero, zero
            for r in range(rows):
                x = X[(r * channels + c) * pixels : (r * channels + c + 1) * pixels]
                for j in range(pixels):
                    total += x[j]
            mean = total / float32(rows * pixels)
            for r in range(rows):
                x = X[(r * channels + c) * pixels : (r * channels + c + 1) * pixels]
                for j in range(pixels):
                    squares += (x[j] - mean) * (x[j] - mean)
            scale = one / float32(sqrt(squares / float32(rows * pixels) + small))
            for r in range(rows):
                x = X[(r * channels + c) * pixels : (r * channels + c + 1) * pixels]
                z = Z[(r * channels + c) * pixels : (r * channels + c + 1) * pixels]
                for j in range(pixels):
                    z[j] = (x[j] - mean) * scale * W[c] + b[c]
            M[2 * c], M[2 * c + 1] = mean, scale

    _compiled_where_called(channel_sums)

    @jit(*(7 * [flat]), *(3 * [count]))
    def batchnorm_wgrad(G, X, M, dW, db, A, V, rows, channels, pixels):
        n = rows * pixels
        for c in prange(channels):
            mean, scale = M[2 * c], M[2 * c + 1]
            db[c], dW[c] = channel_sums(G, X, M, c, rows, channels, pixels)
            A[c] += momentum * (mean - A[c])
            V[c] += momentum * ((one / (scale * scale) - small) * float32(n / max(n - 1, 1)) - V[c])

    @jit(*(5 * [flat]), *(3 * [count]))
    def batchnorm_dgrad(G, X, M, W, D, rows, channels, pixels):
        for c in prange(channels):
            mean, scale = M[2 * c], M[2 * c + 1]
            total, products = channel_sums(G, X, M, c, rows, channels, pixels)
            total, products = total / float32(rows * pixels), products / float32(rows * pixels)
            for r in range(rows):
                at = (r * channels + c) * pixels
                g, x, d = G[at : at + pixels], X[at : at + pixels], D[at : at + pixels]
                for j in range(pixels):
                    d[j] = scale * W[c] * (g[j] - total - (x[j] - mean) * scale * products)

    @jit(*(6 * [flat]), *(3 * [count]))
    def batchnorm_predict(X, W, b, A, V, Z, rows, channels, pixels):
        for r in prange(rows):
            for c in range(channels):
                at, scale = (r * channels + c) * pixels, W[c] / float32(sqrt(V[c] + small))
                for j in range(at, at + pixels):
                    Z[j] = (X[j] - A[c]) * scale + b[c]

    @jit(flat, flat, *(5 * [count]))
    def avg_pool2d(X, Z, rows, channels, height, width, size):
        high, wide = height // size, width // size
        for window in prange(rows * channels * high * wide):
            x, y, image = window % wide, window // wide % high, window // (wide * high)
            total = zero
            for u in range(size):
                for v in range(size):
                    total += X[(image * height + y * size + u) * width + x * size + v]
            Z[window] = total / float32(size * size)

    @jit(flat, flat, *(5 * [count]))
    def avg_pool2d_gradient(G, D, rows, channels, height, width, size):
        high, wide = height // size, width // size
        for line in prange(rows * channels * height):
            y, image = line % height // size, line // height
            for x in range(width):
                inside = y < high and x // size < wide
                place = (image * high + y) * wide + x // size
                D[line * width + x] = G[place] / float32(size * size) if inside else zero

    @jit(flat, flat, *(5 * [count]), real)
    def drop_of(X, Z, n, first, layer, seed, step, p):
        least, scale = np.uint64(p * 2.0**32), one / (one - float32(p))
        for group in prange(first // 4, (first + n + 3) // 4):
            a, b, c, d = np.uint64(group) & low, np.uint64(step), np.uint64(layer), np.uint64(0)
            k0, k1 = np.uint64(seed) & low, np.uint64(1)
            for _ in range(10):
                high, other = m0 * a, m1 * c
                a, b, c, d = (other >> half) ^ b ^ k0, other & low, (high >> half) ^ d ^ k1, high & low
                k0, k1 = (k0 + w0) & low, (k1 + w1) & low
            for k, word in enumerate((a, b, c, d)):
                i = 4 * group + k - first
                if 0 <= i < n:
                    Z[i] = zero if word < least else X[i] * scale

    def dropout() -> Callable[..., None]:
        drop = drop_of()

        def dropped(X: np.ndarray, Z: np.ndarray, C: np.ndarray, *numbers: Any) -> None:
            *others, turn, p = numbers  # the number of elements, the first one, the layer, the seed
            drop(X, Z, *others, turned(C, turn), float(np.float32(p)))

        return dropped

    def dropout_gradient() -> Callable[..., None]:
        drop = dropout()
        return lambda D, C, *numbers: drop(D, D, C, *numbers)

    loops: list[Any] = [layernorm, layernorm_wgrad, layernorm_dgrad, dropout, dropout_gradient]
    loops += [batchnorm, batchnorm_wgrad, batchnorm_dgrad, batchnorm_predict, avg_pool2d, avg_pool2d_gradient]
    return {loop.__name__: loop for loop in loops} | {"count_dropout": lambda: count_dropout}


@cache
def _optimizer_loops(parallel: bool) -> _Loops:
    """The loops of optimisers. Raises Unsupported without Numba."""
    numba = required("numba")
    jit, prange, float32 = _compiler(numba, parallel), numba.prange, numba.float32
    flat, count, real, one, half = float32[::1], numba.int64, numba.float64, float32(1), float32(0.5)

    @jit(flat, flat, count, real)
    def clip(G, S, n, max_norm):
        norm = S[0] ** 0.5
        scale = float32(max_norm / (norm + 1e-6)) if norm > max_norm else one
        for i in prange(n):
            G[i] *= scale

    @jit(flat, flat, count, divided=False)
    def add_squares(G, T, n):
        total = float32(0)
        for i in range(n):
            total += G[i] * G[i]
        T[PARTIALS_FROM] += total

    @jit(flat, flat, flat, count, real, real)
    def decay_update(W, G, T, n, rate, decay):
        step, scale, kept = float32(rate) * T[3], T[4], float32(decay)
        for i in prange(n):
            W[i] -= step * (scale * G[i] + kept * W[i])

    @jit(*(4 * [flat]), count, real, real, real)
    def momentum_update(W, G, M, T, n, rate, momentum, decay):
        step, scale, again, kept = float32(rate) * T[3], T[4], float32(momentum), float32(decay)
        for i in prange(n):
            M[i] = again * M[i] + (scale * G[i] + kept * W[i])
            W[i] -= step * M[i]

    @jit(*(4 * [flat]), count, real, real, real)
    def nesterov_update(W, G, M, T, n, rate, momentum, decay):
        step, scale, again, kept = float32(rate) * T[3], T[4], float32(momentum), float32(decay)
        for i in prange(n):
            g = scale * G[i] + kept * W[i]
            M[i] = again * M[i] + g
            W[i] -= step * (g + again * M[i])

    @jit(*(5 * [flat]), count, *(6 * [real]))
    def adam(W, G, M, V, T, n, rate, gain1, gain2, eps, decay, shrinking):
        step, first, second = float32(rate) * T[3] * T[1], float32(gain1), float32(gain2)
        small, kept, lost = float32(eps), float32(decay), float32(shrinking) * T[3]
        scale = T[4]
        for i in prange(n):
            g = scale * G[i] + kept * W[i]
            m, v = M[i], V[i]
            M[i] = m + first * (g - m) if first < half else g - (one - first) * (g - m)
            V[i] = v + second * (g * g - v) if second < half else g * g - (one - second) * (g * g - v)
            W[i] = W[i] - lost * W[i] - step * (M[i] / (float32(sqrt(V[i])) * T[2] + small))

    def adam_update() -> Callable[..., None]:
        step = adam()
        return lambda *operands_and_numbers: step(*operands_and_numbers, 0.0)

    def adamw_update() -> Callable[..., None]:
        step = adam()

        def decoupled(*operands_and_numbers: Any) -> None:
            *others, decay = operands_and_numbers
            step(*others, 0.0, others[-4] * decay)

        return decoupled

    loops: list[Any] = [clip, decay_update, momentum_update, nesterov_update, adam_update, adamw_update]
    of_numpy = {"count_step": lambda: count_step, "clip_together": lambda: clip_together}
    return {loop.__name__: loop for loop in (*loops, add_squares)} | of_numpy


def _matrix(flat: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return flat[: rows * columns].reshape(rows, columns)
