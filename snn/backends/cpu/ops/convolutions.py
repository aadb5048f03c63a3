"""Convolutions, their gradients, pooling, and the patches that make a convolution a product."""

import math

import numpy as np

from snn.backends.cpu.ops.elementwise import mask, relu
from snn.backends.cpu.ops.views import (
    as_filters,
    as_images,
    as_matrix,
    outputs_of,
    patches_of,
    places_of,
    unpool,
    windows_of,
)


def im2col(X, P, rows, channels, height, width, kernel, padding):
    patches = patches_of(as_images(X, rows, channels, height, width), kernel, padding)
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
