"""A convolution and its gradients as loops compiled by Numba, for one thread or several."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from snn.strategies.common.numba_loops import FASTMATH, keeps
from snn.strategies.common.optional import required


@cache
def compiled(parallel: bool) -> dict[str, Callable[..., None]]:
    """The compiled loops by the names of their operations.

    Each weight is multiplied by a row of pixels at a time, so that the innermost loop reads and writes
    contiguously. If ``parallel``, images or weights are divided among Numba's threads, and each result is
    computed by one of them. Raises Unsupported without Numba.
    """
    numba = required("numba")
    kept = keeps(numba, parallel)
    prange, float32, count = numba.prange, numba.float32, numba.int64
    flat, zero = float32[::1], float32(0)

    def jit(*types: Any) -> Callable[..., Any]:
        return numba.njit(numba.void(*types, *7 * [count]), parallel=parallel, fastmath=FASTMATH, cache=kept)

    @jit(flat, flat, flat, flat)
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

    @jit(flat, flat, flat, flat)
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

    @jit(flat, flat, flat)
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

    return {"conv2d": conv2d, "conv2d_wgrad": conv2d_wgrad, "conv2d_dgrad": conv2d_dgrad}
