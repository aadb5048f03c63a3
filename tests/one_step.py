"""The gradients of a convolutional network from any state, on images where no rounding can switch a unit.

A ReLU whose argument is within rounding of 0, or a window whose two largest elements are, may be decided
either way. The gradient through such a unit is then there or not, and training amplifies the difference:
after 50 steps two correct trainings can be 1e-2 apart. So steps are checked one by one, each from a given
state and on images without such units. Only the rounding of sums is left then, and the bound is sharp.
"""

from dataclasses import replace

import numpy as np

from snn.backends.cpu import ops, trainings
from snn.backends.launches import HEAD, Steps

RATE = 1024.0
"""So large that the rounding of old parameters is nothing beside their update."""

BOUND = 3e-6
"""Of a gradient's distance from that in float64, relative to the sum of the norms of each image's gradient.

A product by three TF32 products (``kernels/persistent/tf32.cuh``) drops what is below 2^-20 of either
factor, and the product of the two small parts: at most 3 x 2^-20 = 2.9e-6 of a term, an eighth of that on
average.
The gradient of the first convolution passes through three such products, and tensor cores truncate when
they add.
"""

_OF_FLOAT32 = 2.0**-21  # of the terms of a sum: more than a few dozen float32 additions can make it
_OF_TF32 = 2.0**-18  # the same of three TF32 products: 3 x 2^-20, and the additions


def state_after(shape, X, Y, weights, steps, rate=0.02):
    """The parameters after so many steps in float64, rounded to float32; X has whole batches."""
    flat = [W.reshape(-1).astype(np.float64) for W in (X, Y, *weights)]
    losses, head = np.empty(len(X)), np.zeros(HEAD, np.float32)
    trainings.train(shape, [*flat, losses, head], Steps(len(X), 0, steps, rate))
    return [W.astype(np.float32).reshape(old.shape) for W, old in zip(flat[2:], weights, strict=True)]


def batch_of(shape, X, weights):
    """A batch of the first images whose units are all decided, with the least likely outputs as targets.

    So no gradient is the difference of two probabilities that are almost equal.
    """
    are_decided, logits = _forward(shape, X, weights)
    chosen = np.flatnonzero(are_decided)[: shape.batch]
    assert len(chosen) == shape.batch, f"{are_decided.sum()} of {len(X)} images are decided"
    return X[chosen], np.eye(shape.outputs, dtype=np.float32)[logits[chosen].argmin(axis=1)]


def check(shape, X, Y, weights, found, loss):
    """That a step with RATE led from ``weights`` to ``found``. Returns the gradients' distances."""
    by_image, exact = _gradients(shape, X, Y, weights)
    np.testing.assert_allclose(loss, exact.mean(), rtol=BOUND)
    count = len(X) if shape.mean else 1
    distances = []
    for W, updated, gradients in zip(weights, found, by_image, strict=True):
        gradient = (W.reshape(-1).astype(np.float64) - updated.reshape(-1)) / RATE * count
        norms = np.linalg.norm(gradients, axis=1).sum()
        distances.append(float(np.linalg.norm(gradient - gradients.sum(axis=0)) / max(norms, 1e-9)))
    assert max(distances) < BOUND, distances
    return distances


def _gradients(shape, X, Y, weights):
    """Of each parameter those of each image, (images, size), and the images' losses, in float64."""
    parameters = [W.reshape(-1).astype(np.float64) for W in weights]
    alone, losses = replace(shape, batch=1, mean=False), np.empty((len(X), 1))
    images = [
        trainings._convolutional(x.reshape(-1).astype(np.float64), y, parameters, loss, 1, alone)
        for x, y, loss in zip(X, Y, losses, strict=True)
    ]
    return [np.stack(gradients) for gradients in zip(*images, strict=True)], losses[:, 0]


def _forward(shape, X, weights):
    """Whether all units of an image are decided, (images,), and the logits, in float64."""
    W1, b1, W2, b2, W3, b3 = (W.reshape(-1).astype(np.float64) for W in weights)
    first = (shape.channels, shape.height, shape.width, shape.filters1, shape.kernel1, shape.padding1)
    second = (shape.filters1, *shape.first, shape.filters2, shape.kernel2, shape.padding2)
    Z1 = _convolved(X, W1, b1, first)
    A1, error1 = np.maximum(Z1, 0), _OF_FLOAT32 * _convolved(abs(X), abs(W1), abs(b1), first)
    Z2 = _convolved(A1, W2, b2, second)
    error2 = _OF_TF32 * _convolved(A1, abs(W2), abs(b2), second)
    error2 += _convolved(np.where(Z1 > 0, error1, 0), abs(W2), 0 * b2, second)
    windows, errors = (ops.windows_of(Z.reshape(-1), *Z.shape, shape.window) for Z in (Z2, error2))
    at = windows.argmax(axis=-1, keepdims=True)
    largest, error = (np.take_along_axis(each, at, axis=-1) for each in (windows, errors))
    others = windows + errors
    np.put_along_axis(others, at, -np.inf, axis=-1)
    doubtful = (abs(largest) < error) | (largest > 0) & (others.max(axis=-1, keepdims=True) > largest - error)
    are_decided = ~((abs(Z1) < error1).any(axis=(1, 2, 3)) | doubtful.any(axis=(1, 2, 3, 4)))
    return are_decided, np.maximum(largest, 0).reshape(len(X), -1) @ W3.reshape(-1, shape.outputs) + b3


def _convolved(X, W, b, sizes):
    count, images = ops.outputs_of(len(X), *sizes)
    Z = np.empty(count)
    ops.conv2d(X.reshape(-1).astype(np.float64), W, b, Z, len(X), *sizes)
    return Z.reshape(images)
