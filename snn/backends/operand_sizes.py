"""How many elements the operands of operations have, where a formula of one line does not say it."""

import itertools
import math

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.backends.layered_plans import LayeredShape
from snn.backends.persistent_plans import HEAD, padded, workspace_of_groups

MOST_BLOCKS = 1024
"""Of a launch whose blocks work together: more multiprocessors than any device has."""


def of_patches(
    rows: int, channels: int, height: int, width: int, kernel: int, padding: int
) -> tuple[int, int]:
    """Elements of images, and of their patches: one for each position of the kernel."""
    positions = (height + 2 * padding - kernel + 1) * (width + 2 * padding - kernel + 1)
    return rows * channels * height * width, rows * positions * channels * kernel**2


def of_windows(rows: int, channels: int, height: int, width: int, size: int) -> tuple[int, int]:
    """Elements of images, and of their windows."""
    return rows * channels * height * width, rows * channels * (height // size) * (width // size)


def of_filters(
    rows: int, channels: int, height: int, width: int, kernel: int, padding: int, filters: int
) -> tuple[int, int, int, int]:
    """Elements of images, of the outputs of a convolution, of its weights, and of its biases."""
    images, patches = of_patches(rows, channels, height, width, kernel, padding)
    patch = channels * kernel**2
    return images, patches // patch * filters, filters * patch, filters


def of_training(
    rows: int,
    batch: int,
    first: int,
    steps: int,
    sequential: int,
    rate: float,
    max_norm: float,
    members: int,
    outliers: int,
    *widths: int,
) -> tuple[int, ...]:
    """Of ``train``: X, Y, the weights and errors of all members, and the workspace."""
    layers, last, lines = len(widths) - 1, widths[-1], padded(batch)
    weights = sum(k * n for k, n in itertools.pairwise(widths))
    workspace = HEAD + 2 * lines * sum(widths[1:]) + lines * last // 8 + last
    workspace = max(workspace, HEAD + workspace_of_groups(widths, batch))
    if max_norm:
        workspace += 2 * weights + 4 * MOST_BLOCKS * layers
    if members > 1:
        workspace = HEAD + members
    batches, of_each = math.ceil(rows / batch), (weights + last, lines)
    return batches * lines * widths[0], batches * lines, *(members * n for n in of_each), workspace


def of_convolutional(rows: int, *rest: int) -> tuple[int, ...]:
    """Of ``train_convolutional``: X, Y, six parameters, the losses and the workspace."""
    shape = ConvolutionalShape.of((rows, *rest))
    pixels, patch1 = shape.channels * shape.height * shape.width, shape.channels * shape.kernel1**2
    convolved = shape.filters1 * patch1, shape.filters1, shape.filters2 * shape.filters1 * shape.kernel2**2
    linear = shape.filters2, shape.features * shape.outputs, shape.outputs
    return rows * pixels, rows * shape.outputs, *convolved, *linear, rows, shape.workspace


def of_layers(rows: int, batch: int, *rest: int) -> tuple[int, ...]:
    """Of ``train_layers``: X, Y, the parameters, the losses or errors and the workspace."""
    shape = LayeredShape.of((rows, batch, *rest))
    lines, widths = math.ceil(rows / batch) * shape.rows, shape.widths
    return lines * widths[0], lines * widths[-1], shape.parameters, rows * shape.errors, shape.workspace
