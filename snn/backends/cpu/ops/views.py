"""Flat arrays as the matrices and images that they hold. Views, but where a copy is said."""

import numpy as np


def as_matrix(flat, rows, cols):
    return flat[: rows * cols].reshape(rows, cols)


def as_images(flat, rows, channels, height, width):
    return flat[: rows * channels * height * width].reshape(rows, channels, height, width)


def as_filters(flat, filters, channels, kernel):
    return flat[: filters * channels * kernel**2].reshape(filters, channels, kernel, kernel)


def outputs_of(rows, channels, height, width, filters, kernel, padding):
    """A convolution's outputs: how many, and their shape."""
    high, wide = (side + 2 * padding - kernel + 1 for side in (height, width))
    return rows * filters * high * wide, (rows, filters, high, wide)


def patches_of(images, kernel, padding):
    """(rows, channels, y, x, kernel, kernel), a view of the padded images."""
    padded_images = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    return np.lib.stride_tricks.sliding_window_view(padded_images, (kernel, kernel), axis=(2, 3))


def unpool(G, which, rows, channels, height, width, filters, kernel, padding, size):
    """The gradient of a convolution's outputs, from that of its windows and which of each is the largest."""
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
