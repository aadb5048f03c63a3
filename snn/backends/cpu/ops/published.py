"""What the programs of the CNN report compute in place of the exact gradient."""

import numpy as np

from snn.backends.cpu.ops.convolutions import im2col
from snn.backends.cpu.ops.elementwise import softmax_cross_entropy, sum_rows
from snn.backends.cpu.ops.products import matmul_tn
from snn.backends.cpu.ops.views import as_images, as_matrix


def published_wgrad(X, G, dW, db, rows, channels, height, width, kernel, padding, filters):
    high, wide = height + 2 * padding - kernel + 1, width + 2 * padding - kernel + 1
    patch, positions = channels * kernel**2, rows * high * wide
    P = np.empty(positions * patch, X.dtype)
    im2col(X, P, rows, channels, height, width, kernel, padding)
    by_filter = as_images(G, rows, filters, high, wide).transpose(0, 2, 3, 1).reshape(positions, filters)
    sums = np.zeros(filters * patch + filters, X.dtype)
    for lane in range(32):  # the parameters of this lane at the positions of this lane
        g, p = by_filter[lane::32], as_matrix(P, positions, patch)[lane::32]
        products = np.concatenate([(g.T @ p).reshape(-1), g.sum(axis=0)])
        sums[lane::32] = products[lane::32]
    lanes = np.zeros(-(-len(sums) // 32) * 32, X.dtype)
    lanes[: len(sums)] = sums
    gradients = np.zeros_like(sums)
    gradients[::32] = lanes.reshape(-1, 32).sum(axis=1)
    dW[: filters * patch], db[:filters] = gradients[: filters * patch], gradients[filters * patch :]


def published_linear_wgrad(X, G, dW, db, rows, inputs, width):
    matmul_tn(X, G, dW, inputs, rows, width)
    sum_rows(G, db, rows, width)


def published_softmax(*operands_and_numbers):
    softmax_cross_entropy(*operands_and_numbers)
