"""The work that a device can be asked for: its operands, its numbers, and how much each operand holds.

All matrices are float32 and row-major. For the products A is m x k, B is k x n and C is m x n; ``_tn``
stands for a first operand that is stored transposed (k x m), ``_nt`` for a second one (n x k). A longer name
says what follows the product in the same kernel. ``snn.backends.cpu.ops`` computes each operation on the CPU,
and is the oracle of the kernels.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

PARTIAL_SUMS = 256
"""Floats that ``sum_squares`` writes: one for each of its blocks of threads."""

THREADS = 256
"""Threads of a block of an operation that is no product."""


@dataclass(frozen=True)
class Op:
    """An operation: its operands, its numbers, and from these the size of each operand in float32 elements.

    Of the numbers, those in ``reals`` are float32, the others whole. ``source`` is the kernel file of an
    operation that is neither a product nor a convolution, ``threads`` how many threads it is launched with,
    if not its first number.
    """

    operands: tuple[str, ...]
    numbers: tuple[str, ...]
    elements: Callable[..., tuple[int, ...]]
    source: str = "kernels/elementwise.cu"
    threads: Callable[..., int] = lambda *numbers: int(numbers[0])

    @property
    def reals(self) -> tuple[str, ...]:
        return tuple(name for name in self.numbers if name in ("scale", "rate", "max_norm"))

    @property
    def is_product(self) -> bool:
        return self.numbers[:3] == ("m", "k", "n")

    @property
    def is_convolution(self) -> bool:
        return self.numbers[:7] == tuple(_CONVOLUTION.split())


def _op(operands: str, numbers: str, elements: Callable[..., tuple[int, ...]]) -> Op:
    return Op(tuple(operands.split()), tuple(numbers.split()), elements)


def _layer(
    source: str,
    operands: str,
    numbers: str,
    elements: Callable[..., tuple[int, ...]],
    threads: Callable[..., int],
) -> Op:
    return Op(
        tuple(operands.split()), tuple(numbers.split()), elements, f"kernels/layers/{source}.cu", threads
    )


_IMAGES = "rows channels height width"
_CONVOLUTION = _IMAGES + " filters kernel padding"


def _convolution(operands: str, further: str = "") -> Op:
    """A direct convolution or a gradient of one, in the kernel file of the cell's kernel."""
    names, numbers = operands.split(), f"{_CONVOLUTION} {further}".split()

    def elements(*values: int) -> tuple[int, ...]:
        given = dict(zip(numbers, values, strict=True))
        rows, filters, kernel, size = (given.get(name, 1) for name in ("rows", "filters", "kernel", "size"))
        high, wide = (given[side] + 2 * given["padding"] - kernel + 1 for side in ("height", "width"))
        outputs, pooled = rows * filters * high * wide, rows * filters * (high // size) * (wide // size)
        weights = filters * given["channels"] * kernel**2
        inputs = rows * given["channels"] * given["height"] * given["width"]
        sizes = {"W": weights, "dW": weights, "b": filters, "db": filters, "I": pooled}
        sizes |= {"X": inputs, "D": inputs, "H": inputs, "S": given.get("parts", 0) * (weights + filters)}
        sizes |= dict.fromkeys("ZG", pooled if "I" in names else outputs)
        return tuple(sizes[name] for name in names)

    return Op(tuple(names), tuple(numbers), elements)


def _patches(rows: int, channels: int, height: int, width: int, kernel: int, padding: int) -> tuple[int, int]:
    """Elements of images, and of their patches: one for each position of the kernel."""
    positions = (height + 2 * padding - kernel + 1) * (width + 2 * padding - kernel + 1)
    return rows * channels * height * width, rows * positions * channels * kernel**2


def _windows(rows: int, channels: int, height: int, width: int, size: int) -> tuple[int, int]:
    """Elements of images, and of their windows."""
    return rows * channels * height * width, rows * channels * (height // size) * (width // size)


def _filters(
    rows: int, channels: int, height: int, width: int, kernel: int, padding: int, filters: int
) -> tuple[int, int, int, int]:
    """Elements of images, of the outputs of a convolution, of its weights, and of its biases."""
    images, patches = _patches(rows, channels, height, width, kernel, padding)
    patch = channels * kernel**2
    return images, patches // patch * filters, filters * patch, filters


_PRODUCT = _op("A B C", "m k n", lambda m, k, n: (m * k, k * n, m * n))
_MASKED = _op("A B C H", "m k n", lambda m, k, n: (m * k, k * n, m * n, m * n))

OPS = {
    "matmul": _PRODUCT,  # C = A B
    "matmul_tn": _PRODUCT,  # C = A^T B
    "matmul_nt": _PRODUCT,  # C = A B^T
    "matmul_relu": _PRODUCT,  # C = max(A B, 0)
    "matmul_bias": _op("A B C b", "m k n", lambda m, k, n: (m * k, k * n, m * n, n)),  # C = A B + b, by rows
    "matmul_mask": _MASKED,  # C = A B where H > 0, else 0
    "matmul_nt_mask": _MASKED,  # C = A B^T where H > 0, else 0
    "matmul_error": _op(  # E = A B - Y, D = scale E
        "A B D Y E", "m k n scale", lambda m, k, n, scale: (m * k, k * n, m * n, m * n, m * n)
    ),
    "matmul_tn_update": _op(  # W -= rate A^T B
        "A B W", "m k n rate", lambda m, k, n, rate: (m * k, k * n, m * n)
    ),
    "matmul_tn_update_both": _op(  # the same, and V = W^T
        "A B W V", "m k n rate", lambda m, k, n, rate: (m * k, k * n, m * n, m * n)
    ),
    "matmul_tn_update_bias": _op(  # W -= rate A^T B, b -= rate times the sum of the rows of B
        "A B W b", "m k n rate", lambda m, k, n, rate: (m * k, k * n, m * n, n)
    ),
    "matmul_tn_update_both_bias": _op(  # the same, and V = W^T
        "A B W V b", "m k n rate", lambda m, k, n, rate: (m * k, k * n, m * n, m * n, n)
    ),
    "relu": _op("Z", "n", lambda n: (n,)),  # Z = max(Z, 0)
    "error": _op("P Y E D", "n scale", lambda n, scale: (n, n, n, n)),  # E = P - Y, D = scale E
    "mask": _op("D H", "n", lambda n: (n, n)),  # D = D where H > 0, else 0
    "update": _op("W G", "n rate", lambda n, rate: (n, n)),  # W -= rate G
    "update_both": _op(  # the same, and V = W^T
        "W V G", "rows cols rate", lambda rows, cols, rate: (rows * cols,) * 3
    ),
    "sum_squares": _op("G S", "n", lambda n: (n, PARTIAL_SUMS)),  # sum of S = sum of G^2
    "clipped_update": _op(  # G scaled to an L2 norm of at most max_norm, then W -= rate G
        "W G S", "n rate max_norm", lambda n, rate, max_norm: (n, n, PARTIAL_SUMS)
    ),
    "clipped_update_both": _op(  # the same, and V = W^T
        "W V G S",
        "rows cols rate max_norm",
        lambda rows, cols, rate, max_norm: (rows * cols, rows * cols, rows * cols, PARTIAL_SUMS),
    ),
    "transpose": _op("A T", "rows cols", lambda rows, cols: (rows * cols, rows * cols)),  # T = A^T
    # Of layers: Z and G are (rows, width), images (rows, channels, height, width).
    "add_bias": _layer(  # Z += b in each row
        "bias",
        "Z b",
        "rows width",
        lambda rows, width: (rows * width, width),
        lambda rows, width: rows * width,
    ),
    "sum_rows": _layer(  # s = the sum of the rows of G
        "bias",
        "G s",
        "rows width",
        lambda rows, width: (rows * width, width),
        lambda rows, width: THREADS * width,
    ),
    "softmax_cross_entropy": _layer(  # E = -log softmax(P) at the one-hot Y, D = scale (softmax(P) - Y)
        "softmax",
        "P Y E D",
        "rows width scale",
        lambda rows, width, scale: (rows * width, rows * width, rows, rows * width),
        lambda rows, width, scale: rows,
    ),
    "transpose_each": _layer(  # T_i = A_i^T, of each of so many matrices
        "im2col",
        "A T",
        "count rows cols",
        lambda *sizes: (math.prod(sizes),) * 2,
        lambda *sizes: math.prod(sizes),
    ),
    "im2col": _layer(  # a row of P for each position of the kernel on the padded X: what it covers there
        "im2col", "X P", _IMAGES + " kernel padding", _patches, lambda *numbers: _patches(*numbers)[1]
    ),
    "col2im": _layer(  # X = for each element the sum of its copies in P, the transposed map of im2col
        "im2col",
        "P X",
        _IMAGES + " kernel padding",
        lambda *numbers: _patches(*numbers)[::-1],
        lambda *numbers: _patches(*numbers)[0],
    ),
    "max_pool2d": _layer(  # Z = the largest of each window of size x size
        "pooling", "X Z", _IMAGES + " size", _windows, lambda *numbers: _windows(*numbers)[1]
    ),
    "max_pool2d_gradient": _layer(  # D = G at the first largest element of each window, else 0
        "pooling",
        "G X D",
        _IMAGES + " size",
        lambda *numbers: (_windows(*numbers)[1], *2 * _windows(*numbers)[:1]),
        lambda *numbers: _windows(*numbers)[0],
    ),
    # What published programs compute in place of a gradient: see snn/models/gradients.py.
    "keep_first": _layer(  # G = G in its first elements, else 0
        "published", "G", "n kept", lambda n, kept: (n,), lambda n, kept: n
    ),
    "published_wgrad": _layer(  # dW and db of a convolution: 0 but for every 32nd, a sum over 32 parameters
        "published",
        "X G dW db",
        _IMAGES + " kernel padding filters",
        _filters,
        lambda *numbers: math.ceil(sum(_filters(*numbers)[2:]) / 32) * 32,
    ),
    "published_linear_wgrad": _layer(  # dW = X^T G, db = the sum of the rows of G; each sum over 32 lanes
        "published",
        "X G dW db",
        "rows inputs width",
        lambda rows, inputs, width: (rows * inputs, rows * width, inputs * width, width),
        lambda rows, inputs, width: 32 * width * (inputs + 1),
    ),
    "published_softmax": _layer(  # softmax_cross_entropy, with the device's approximate exponential
        "published",
        "P Y E D",
        "rows width scale",
        lambda rows, width, scale: (rows * width, rows * width, rows, rows * width),
        lambda rows, width, scale: rows,
    ),
    "fma_update": _layer(  # W -= rate G, rounded once
        "published", "W G", "n rate", lambda n, rate: (n, n), lambda n, rate: n
    ),
    # Direct convolutions of stride 1: X, D and H are (rows, channels, height, width), W (filters, channels,
    # kernel, kernel), Z and G (rows, filters, high, wide), with high = height + 2 padding - kernel + 1. With
    # an I, Z and G are those of the windows of size x size of a max pooling, and I holds which element of
    # each window was the largest, 0 to size^2 - 1, the first of equal ones.
    "conv2d": _convolution("X W b Z"),  # Z = X * W + b, a cross-correlation
    "conv2d_relu": _convolution("X W b Z"),  # Z = max(X * W + b, 0)
    "conv2d_relu_pool": _convolution("X W b Z I", "size"),  # Z = the largest of each window of the same
    "conv2d_dgrad": _convolution("G W D"),  # D = the gradient of X, from that of Z
    "conv2d_dgrad_mask": _convolution("G W D H"),  # the same where H > 0, else 0
    "conv2d_dgrad_pooled": _convolution("G I W D", "size"),
    "conv2d_dgrad_pooled_mask": _convolution("G I W D H", "size"),
    "conv2d_wgrad": _convolution("G X dW db"),  # the gradients of W and b
    "conv2d_wgrad_parts": _convolution("G X S", "parts"),  # sum of S = the same: S is (parts, W and b)
    "conv2d_wgrad_parts_pooled": _convolution("G I X S", "size parts"),
    "sum_parts": _layer(  # dW and db, of so many elements, from the partial sums S
        "parts",
        "S dW db",
        "parts weights biases",
        lambda parts, weights, biases: (parts * (weights + biases), weights, biases),
        lambda parts, weights, biases: THREADS * math.ceil((weights + biases) / 32),
    ),
    "update_parts": _layer(  # W -= rate dW, b -= rate db
        "parts",
        "S W b",
        "parts weights biases rate",
        lambda parts, weights, biases, rate: (parts * (weights + biases), weights, biases),
        lambda parts, weights, biases, rate: THREADS * math.ceil((weights + biases) / 32),
    ),
}
