"""The operations of a device: their operands, their numbers, and the size of each operand.

All matrices are row-major, and float32 but for those in ``NARROW``. For the products A is m x k, B is k x n
and C is m x n; ``_tn`` marks a first operand that is stored transposed (k x m), ``_nt`` a second one (n x k).
A longer name tells which operation follows the product in the same kernel. ``snn.backends.cpu.ops`` computes
each operation on the CPU, and is the oracle of the kernels.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from snn.models.step import LAYERS_AT_ONCE
from snn.models.storage import FP32, itemsize

PARTIAL_SUMS = 256
"""Floats that ``sum_squares`` writes: one for each of its blocks of threads."""

THREADS = 256
"""Threads per block of an operation other than a product."""

_ELEMENTWISE = "kernels/elementwise.cu"
_ROWS = "kernels/layers/rows.cu"
_IMAGES = "rows channels height width"
_CONVOLUTION = _IMAGES + " filters kernel padding"

_DERIVED: dict[str, Callable[[Mapping[str, int]], int]] = {
    # of a convolution's outputs; only those by im2col have a stride
    "high": lambda of: (of["height"] + 2 * of["padding"] - of["kernel"]) // of.get("stride", 1) + 1,
    "wide": lambda of: (of["width"] + 2 * of["padding"] - of["kernel"]) // of.get("stride", 1) + 1,
    "high/size": lambda of: _DERIVED["high"](of) // of["size"],  # their pooling windows
    "wide/size": lambda of: _DERIVED["wide"](of) // of["size"],
    "height/size": lambda of: of["height"] // of["size"],
    "width/size": lambda of: of["width"] // of["size"],
    "weights+biases": lambda of: of["weights"] + of["biases"],
    "features+outputs": lambda of: of["features"] + of["outputs"],
    "W+b": lambda of: of["filters"] * (of["channels"] * of["kernel"] ** 2 + 1),
    "W+b in 32s": lambda of: 32 * math.ceil(_DERIVED["W+b"](of) / 32),
    "weights+biases by 32": lambda of: math.ceil((of["weights"] + of["biases"]) / 32),
    "inputs+1": lambda of: of["inputs"] + 1,
    "m+bias": lambda of: of["m"] + of["bias"],
    "all": lambda of: max(
        of[f"at{i}"] + (of[f"m{i}"] + of[f"bias{i}"]) * of[f"n{i}"] for i in range(LAYERS_AT_ONCE)
    ),
    "n by 4": lambda of: of["n"] // 4 + 2,
    "blocks of channels": lambda of: of["channels"] if of["pixels"] > 1 else math.ceil(of["channels"] / 8),
    "width by 8": lambda of: math.ceil(of["width"] / 8),
}
"""Factors of sizes, computed from an operation's numbers."""


_REALS = (
    *("drop", "scale", "rate", "max_norm", "momentum", "decay", "gain1", "gain2", "eps", "shrink", "end"),
)
"""Numbers that are float32; the others are whole."""


@dataclass(frozen=True)
class Op:
    """An operation: its operands, its numbers, and from these the size of each operand in float32 elements.

    ``source`` is the kernel file of an operation that is neither a product nor a convolution. ``sizes`` are
    products of numbers, such as "m*k": one for each operand, and a last one for the threads of a launch,
    unless that is the first number.
    """

    operands: tuple[str, ...]
    numbers: tuple[str, ...]
    sizes: tuple[str, ...]
    source: str = _ELEMENTWISE

    @property
    def reals(self) -> tuple[str, ...]:
        return tuple(name for name in self.numbers if name in _REALS)

    @property
    def of_training(self) -> bool:
        """Whether it is a product whose kernels are compiled with -DTRAINING."""
        return self in _OF_TRAINING.values()

    @property
    def is_grouped(self) -> bool:
        """Whether it is the gradients of several layers."""
        return self.numbers[:1] == ("m0",)

    @property
    def is_product(self) -> bool:
        return self.numbers[:3] == ("m", "k", "n")

    @property
    def is_convolution(self) -> bool:
        return self.numbers[:7] == tuple(_CONVOLUTION.split())

    def elements(self, *values: float) -> tuple[int, ...]:
        """The number of elements of each operand, from the numbers."""
        of = dict(zip(self.numbers, map(int, values), strict=True))
        return tuple(_product(size, of) for size in self.sizes[: len(self.operands)])

    def threads(self, *values: float) -> int:
        """The number of threads of a launch."""
        if len(self.sizes) == len(self.operands):
            return int(values[0])
        return _product(self.sizes[-1], dict(zip(self.numbers, map(int, values), strict=True)))


def _product(text: str, of: Mapping[str, int]) -> int:
    return math.prod(
        of[one] if one in of else int(one) if one.isdigit() else _DERIVED[one](of) for one in text.split("*")
    )


def _op(operands: str, numbers: str, threads: str = "", source: str = _ELEMENTWISE) -> Op:
    """``operands``: each with its size, such as "A:m*k B:k*n"."""
    names, sizes = zip(*(one.split(":") for one in operands.split()), strict=True)
    return Op(names, tuple(numbers.split()), (*sizes, threads) if threads else sizes, source)


def _layer(source: str, operands: str, numbers: str, threads: str) -> Op:
    return _op(operands, numbers, threads, f"kernels/layers/{source}.cu")


_IMAGE = "rows*channels*height*width"
_PATCHES = "rows*high*wide*channels*kernel*kernel"
_WINDOWS = "rows*channels*height/size*width/size"
_WEIGHTS, _OUTPUTS, _POOLED = (
    "filters*channels*kernel*kernel",
    "rows*filters*high*wide",
    "rows*filters*high/size*wide/size",
)


def _convolution(operands: str, further: str = "") -> Op:
    """A direct convolution or a gradient of one, in the kernel file of the cell's kernel."""
    names = operands.split()
    sizes = dict.fromkeys("XDH", _IMAGE) | dict.fromkeys(("W", "dW"), _WEIGHTS)
    sizes |= dict.fromkeys(("b", "db"), "filters") | {"I": _POOLED, "S": "parts*W+b"}
    sizes |= dict.fromkeys("ZG", _POOLED if "I" in names else _OUTPUTS)
    return _op(" ".join(f"{name}:{sizes[name]}" for name in names), f"{_CONVOLUTION} {further}")


_MATRICES = "A:m*k B:k*n "
_PRODUCT = _op(_MATRICES + "C:m*n", "m k n")
_MASKED = _op(_MATRICES + "C:m*n H:m*n", "m k n")
_IN_PLACE = ("leaky_relu", "tanh", "sigmoid", "elu")
_PIXELS = "rows*channels*pixels"
_OF_CHANNELS = "rows channels pixels", f"{THREADS}*blocks of channels"
_DROPOUT = "n first layer seed turn drop"
_SUMS = 8 + PARTIAL_SUMS
_ADAM = "n rate gain1 gain2 eps decay"
_LAYER = _MATRICES + "W:m+bias*n M:m+bias*n V:m+bias*n T:8"
_STEP = "rate gain1 gain2 eps decay shrink"
_LAYERS = " ".join(f"A{i}:k*m{i} B{i}:k*n{i}" for i in range(LAYERS_AT_ONCE))
_EACH = " ".join(f"m{i} n{i} bias{i} at{i}" for i in range(LAYERS_AT_ONCE)) + " k"

_OF_TRAINING = {
    "matmul_bias_activation": _op(_MATRICES + "C:m*n b:n", "m k n activation"),  # C = f(A B + b)
    # the same, and Z = A B + b
    "matmul_bias_activation_kept": _op(_MATRICES + "Z:m*n b:n C:m*n", "m k n activation"),
    # E = A B + b - Y, D = scale E
    "matmul_bias_error": _op(_MATRICES + "D:m*n b:n Y:m*n E:m*n", "m k n scale"),
    # C = A B times the derivative of f, computed from H
    "matmul_derivative": _op(_MATRICES + "C:m*n H:m*n", "m k n activation"),
    "matmul_nt_derivative": _op(_MATRICES + "C:m*n H:m*n", "m k n activation"),  # the same of A B^T
    # G = A^T B and, if bias is 1 and not 0, the sums of the columns of B as one more row
    "matmul_tn_sum": _op(_MATRICES + "G:m+bias*n", "m k n bias"),
    # With that G, W -= rate shrink W, then adam_update
    "matmul_tn_adam": _op(_LAYER, f"m k n bias {_STEP}"),
    # The same of several layers, each from its element ``at`` of G, or of W, M and V, on; without elements it
    # is left out
    "matmul_tn_sum_layers": _op(f"{_LAYERS} G:all", _EACH),
    "matmul_tn_adam_layers": _op(f"{_LAYERS} W:all M:all V:all T:8", f"{_EACH} {_STEP}"),
}

_SOFTMAX = "P:rows*width Y:rows*width E:rows D:rows*width", "rows width scale", "rows"

OPS = {
    "matmul": _PRODUCT,  # C = A B
    "matmul_tn": _PRODUCT,  # C = A^T B
    "matmul_nt": _PRODUCT,  # C = A B^T
    "matmul_relu": _PRODUCT,  # C = max(A B, 0)
    "matmul_bias": _op(_MATRICES + "C:m*n b:n", "m k n"),  # C = A B + b, by rows
    "matmul_mask": _MASKED,  # C = A B where H > 0, else 0
    "matmul_nt_mask": _MASKED,  # C = A B^T where H > 0, else 0
    "matmul_error": _op(_MATRICES + "D:m*n Y:m*n E:m*n", "m k n scale"),  # E = A B - Y, D = scale E
    "matmul_tn_update": _op(_MATRICES + "W:m*n", "m k n rate"),  # W -= rate A^T B
    "matmul_tn_update_both": _op(_MATRICES + "W:m*n V:m*n", "m k n rate"),  # the same, and V = W^T
    # W -= rate A^T B, b -= rate times the sum of the rows of B; the same, and V = W^T
    "matmul_tn_update_bias": _op(_MATRICES + "W:m*n b:n", "m k n rate"),
    "matmul_tn_update_both_bias": _op(_MATRICES + "W:m*n V:m*n b:n", "m k n rate"),
    **_OF_TRAINING,
    "relu": _op("Z:n", "n"),  # Z = max(Z, 0)
    "error": _op("P:n Y:n E:n D:n", "n scale"),  # E = P - Y, D = scale E
    "mask": _op("D:n H:n", "n"),  # D = D where H > 0, else 0
    "update": _op("W:n G:n", "n rate"),  # W -= rate G
    # the same, and V = W^T
    "update_both": _op("W:rows*cols V:rows*cols G:rows*cols", "rows cols rate"),
    "sum_squares": _op(f"G:n S:{PARTIAL_SUMS}", "n"),  # sum of S = sum of G^2
    # G scaled to an L2 norm of at most max_norm, then W -= rate G; the same, and V = W^T
    "clipped_update": _op(f"W:n G:n S:{PARTIAL_SUMS}", "n rate max_norm"),
    "clipped_update_both": _op(
        f"W:rows*cols V:rows*cols G:rows*cols S:{PARTIAL_SUMS}", "rows cols rate max_norm"
    ),
    "transpose": _op("A:rows*cols T:rows*cols", "rows cols"),  # T = A^T
    # I = the order of the rows in epoch C, as snn/models/row_order.py defines it: whole numbers, as C is
    "row_order": _op("C:1 I:rows", "rows seed", source=_ROWS),
    # U and V = the rows I of X and Y, C += 1
    "take_rows": _op(
        "I:rows X:rows*features Y:rows*outputs U:rows*features V:rows*outputs C:1",
        "rows features outputs",
        "rows*features+outputs",
        _ROWS,
    ),
    # Layers: Z and G are (rows, width), images (rows, channels, height, width).
    "add_bias": _layer("bias", "Z:rows*width b:width", "rows width", "rows*width"),  # Z += b in each row
    # s = the sum of the rows of G
    "sum_rows": _layer("bias", "G:rows*width s:width", "rows width", f"{THREADS}*width"),
    # Activation functions f: Z = f(Z) in place, or Z = f(X). The gradient is D = D f', with the derivative
    # computed from the output H, or from the input X.
    **{f"{name}_forward": _layer("activations", "Z:n", "n", "n") for name in _IN_PLACE},
    **{f"{name}_gradient": _layer("activations", "D:n H:n", "n", "n") for name in _IN_PLACE},
    **{f"{name}_forward": _layer("activations", "X:n Z:n", "n", "n") for name in ("silu", "gelu")},
    **{f"{name}_gradient": _layer("activations", "D:n X:n", "n", "n") for name in ("silu", "gelu")},
    # Norms, with eps 1e-5: M has the mean and 1 / sqrt(variance + eps) of each row of X.
    # Z = W (X - mean) / sqrt(variance + eps) + b
    "layernorm": _layer(
        "norms", "X:rows*width W:width b:width Z:rows*width M:2*rows", "rows width", "32*rows"
    ),
    # the gradients of W and b, and of X
    "layernorm_wgrad": _layer(
        "norms", "G:rows*width X:rows*width M:2*rows dW:width db:width", "rows width", f"{THREADS}*width by 8"
    ),
    "layernorm_dgrad": _layer(
        "norms", "G:rows*width X:rows*width M:2*rows W:width D:rows*width", "rows width", "32*rows"
    ),
    # The same with the mean and the variance of each channel of (rows, channels, pixels)
    "batchnorm": _layer(
        "norms", f"X:{_PIXELS} W:channels b:channels Z:{_PIXELS} M:2*channels", *_OF_CHANNELS
    ),
    # the gradients of W and b; A and V, as snn/models/layers.py says
    "batchnorm_wgrad": _layer(
        "norms",
        f"G:{_PIXELS} X:{_PIXELS} M:2*channels dW:channels db:channels A:channels V:channels",
        *_OF_CHANNELS,
    ),
    "batchnorm_dgrad": _layer(
        "norms", f"G:{_PIXELS} X:{_PIXELS} M:2*channels W:channels D:{_PIXELS}", *_OF_CHANNELS
    ),
    # Z = W (X - A) / sqrt(V + eps) + b
    "batchnorm_predict": _layer(
        "norms",
        f"X:{_PIXELS} W:channels b:channels A:channels V:channels Z:{_PIXELS}",
        "rows channels pixels",
        _PIXELS,
    ),
    # Z = 0 where an element is dropped, else X / (1 - drop), and the same in place; snn/models/dropout.py
    # says which, and what C and turn are.
    "dropout": _layer("dropout", "X:n Z:n C:2", _DROPOUT, "n by 4"),
    "dropout_gradient": _layer("dropout", "D:n C:2", _DROPOUT, "n by 4"),
    "count_dropout": _layer("dropout", "C:2", "", "1"),  # C[0] += 1
    # E = -log softmax(P) at the one-hot Y, D = scale (softmax(P) - Y)
    "softmax_cross_entropy": _layer("softmax", *_SOFTMAX),
    # E = the losses of outputs P with targets Y, D = scale times their gradient
    **{
        name: _layer("losses", "P:n Y:n E:n D:n", "n scale", "n")
        for name in ("huber", "binary_cross_entropy")
    },
    # T_i = A_i^T, of each of so many matrices
    "transpose_each": _layer(
        "im2col", "A:count*rows*cols T:count*rows*cols", "count rows cols", "count*rows*cols"
    ),
    # a row of P for each position of the kernel on the padded X, in steps of stride: the covered elements
    "im2col": _layer("im2col", f"X:{_IMAGE} P:{_PATCHES}", _IMAGES + " kernel padding stride", _PATCHES),
    # X = for each element the sum of its copies in P, the transposed map of im2col
    "col2im": _layer("im2col", f"P:{_PATCHES} X:{_IMAGE}", _IMAGES + " kernel padding stride", _IMAGE),
    # Z = the largest of each window of size x size
    "max_pool2d": _layer("pooling", f"X:{_IMAGE} Z:{_WINDOWS}", _IMAGES + " size", _WINDOWS),
    # Z = the mean of each window; D = G / size^2 in a window, else 0
    "avg_pool2d": _layer("pooling", f"X:{_IMAGE} Z:{_WINDOWS}", _IMAGES + " size", _WINDOWS),
    "avg_pool2d_gradient": _layer("pooling", f"G:{_WINDOWS} D:{_IMAGE}", _IMAGES + " size", _IMAGE),
    # D = G at the first largest element of each window, else 0
    "max_pool2d_gradient": _layer(
        "pooling", f"G:{_WINDOWS} X:{_IMAGE} D:{_IMAGE}", _IMAGES + " size", _IMAGE
    ),
    # Of optimisers, snn/models/optimizers.py: T is the number of a step, 1 / (1 - beta1^T) and
    # 1 / sqrt(1 - beta2^T) with gain = 1 - beta, the factors of the rate and of the gradients, 3 unused, and
    # partial sums of squares.
    "zero": _layer("optimizers", "Z:n", "n", "n"),  # Z = 0
    # G scaled, as clipped_update does
    "clip": _layer("optimizers", f"G:n S:{PARTIAL_SUMS}", "n max_norm", "n"),
    "start_steps": _layer("optimizers", "T:n", "n", "n"),  # T when a run starts
    # T of the next steps, from that of the last one; the rate as in snn/models/schedules.py
    "count_step": _layer("optimizers", "T:8*steps", "steps gain1 gain2 form warmup length end", f"{THREADS}"),
    "add_squares": _layer("optimizers", f"G:n T:{_SUMS}", "n", f"{THREADS}*{PARTIAL_SUMS}"),  # sums += G^2
    # the factor of the gradients, as clip_grad_norm_ has it, from the sums, which are 0 afterwards
    "clip_together": _layer("optimizers", f"T:{_SUMS}", "max_norm", "1"),
    "unscale": _layer("optimizers", "G:n", "n scale", "n"),  # G = scale G
    "decay_update": _layer("optimizers", "W:n G:n T:8", "n rate decay", "n"),
    "momentum_update": _layer("optimizers", "W:n G:n M:n T:8", "n rate momentum decay", "n"),
    "nesterov_update": _layer("optimizers", "W:n G:n M:n T:8", "n rate momentum decay", "n"),
    "adam_update": _layer("optimizers", "W:n G:n M:n V:n T:8", _ADAM, "n"),
    "adamw_update": _layer("optimizers", "W:n G:n M:n V:n T:8", _ADAM, "n"),
    # The published programs' replacements of a gradient: see snn/models/gradients.py.
    "keep_first": _layer("published", "G:n", "n kept", "n"),  # G = G in its first elements, else 0
    # dW and db of a convolution: 0 but for every 32nd, a sum over 32 parameters
    "published_wgrad": _layer(
        "published",
        f"X:{_IMAGE} G:{_OUTPUTS} dW:{_WEIGHTS} db:filters",
        _IMAGES + " kernel padding filters",
        "W+b in 32s",
    ),
    # dW = X^T G, db = the sum of the rows of G; each sum over 32 lanes
    "published_linear_wgrad": _layer(
        "published",
        "X:rows*inputs G:rows*width dW:inputs*width db:width",
        "rows inputs width",
        "32*width*inputs+1",
    ),
    # softmax_cross_entropy, with the device's approximate exponential
    "published_softmax": _layer("published", *_SOFTMAX),
    "fma_update": _layer("published", "W:n G:n", "n rate", "n"),  # W -= rate G, rounded once
    # Direct convolutions of stride 1: X, D and H are (rows, channels, height, width), W (filters, channels,
    # kernel, kernel), Z and G (rows, filters, high, wide), with high = height + 2 padding - kernel + 1. With
    # an I, Z and G belong to the windows of size x size of a max pooling, and I holds the index of the
    # largest element of each window, 0 to size^2 - 1, the first of equal ones.
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
    # dW and db, of so many elements, from the partial sums S
    "sum_parts": _layer(
        "parts",
        "S:parts*weights+biases dW:weights db:biases",
        "parts weights biases",
        f"{THREADS}*weights+biases by 32",
    ),
    # W -= rate dW, b -= rate db
    "update_parts": _layer(
        "parts",
        "S:parts*weights+biases W:weights b:biases",
        "parts weights biases rate",
        f"{THREADS}*weights+biases by 32",
    ),
}

_ACTIVATIONS = ("leaky_relu", "tanh", "sigmoid", "elu", "silu", "gelu")
_OF_ALL = tuple(f"{matrix}{i}" for i in range(LAYERS_AT_ONCE) for matrix in "AB")

NARROW: Mapping[str, tuple[str, ...]] = {
    **{op: ("A", "C", "D", "H", "Z") for op in OPS if op.startswith("matmul")},
    **{op: ("A", "B", *_OF_ALL) for op in OPS if op.startswith("matmul_tn")},
    **dict.fromkeys(("relu", "add_bias"), ("Z",)),
    **{f"{name}_forward": ("X", "Z") for name in _ACTIVATIONS},
    **{f"{name}_gradient": ("D", "H", "X") for name in (*_ACTIVATIONS, "dropout")},
    **dict.fromkeys(("layernorm", "batchnorm", "batchnorm_predict", "dropout"), ("X", "Z")),
    **dict.fromkeys(("layernorm_wgrad", "batchnorm_wgrad", "sum_rows"), ("G", "X")),
    **dict.fromkeys(("layernorm_dgrad", "batchnorm_dgrad"), ("G", "X", "D")),
    **dict.fromkeys(("error", "softmax_cross_entropy", "huber", "binary_cross_entropy"), ("P", "D")),
    "mask": ("D", "H"),
    "take_rows": ("X", "U"),
}
"""Operands to which ``training.storage`` applies, by operation: inputs, activations and error signals."""


@lru_cache(maxsize=1024)
def operand_bytes(op: str, numbers: tuple[float, ...], storage: str) -> tuple[int, ...]:
    """The bytes of each operand."""
    sizes, narrow = OPS[op].elements(*numbers), NARROW.get(op, ())
    names = OPS[op].operands
    return tuple(
        n * (itemsize(storage) if name in narrow else 4) for name, n in zip(names, sizes, strict=True)
    )


def storage_defines(op: str, storage: str) -> tuple[tuple[str, int], ...]:
    """The macro that an operation's source is compiled with (kernels/stored.cuh)."""
    return () if storage == FP32 or op not in NARROW else ((f"STORED_{storage.upper()}", 1),)
