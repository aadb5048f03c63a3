"""Launch shapes of CUDA kernels for operations: source, block, work per thread and grid."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from snn.backends.kernel_source import SPLIT_K
from snn.backends.ops import OPS, PARTIAL_SUMS, THREADS
from snn.errors import Unsupported
from snn.models.step import LAYERS_AT_ONCE

WORKS = ((4, 4), (2, 4), (2, 2), (1, 2), (1, 1))
"""Choices of elements per thread, rows by columns, if ``kernel.work`` is null."""

_SPLIT_BLOCK = (1024, 1)
_SIDE, _STRIPS = 32, 8  # tile side of the transpose kernels; their block size is _SIDE x _STRIPS
_ON_MATRICES = ("rows", "cols")
_MOST = 2**31 - 2**16  # of a kernel's int; the rest is for indices of threads beyond the last element
_INDEXED_BY_INT = ("published_wgrad", "batchnorm", "batchnorm_wgrad", "batchnorm_dgrad")
"""In addition to the convolutions; ``published_wgrad`` is as fast as the program that it repeats."""


MOST_Y = 65_535
"""Most blocks of a grid in y; in x a grid may have 2^31 - 1."""


class LaunchShape(NamedTuple):
    """A kernel's source, what it is compiled for, and its launch; ``work`` is rows by columns per thread.

    ``compiled_block`` is the block size for the compiler; (1, 1) if the kernel defines its own.
    ``of_products``: the source is the cell's kernel, which is compiled for a precision. ``tall``: rows of
    blocks are counted in x, because y cannot hold them; the source is compiled with -DTALL. ``training``: it
    is compiled with -DTRAINING, and ``grouped`` ones with -DGROUPED.
    """

    source: str
    compiled_block: tuple[int, int]
    work: tuple[int, int]
    grid: tuple[int, int]
    block: tuple[int, int]
    of_products: bool = False
    tall: bool = False
    training: bool = False
    grouped: bool = False

    @property
    def defines(self) -> tuple[tuple[str, int], ...]:
        """Macros that it is compiled with, besides its block and work."""
        return tuple((name, 1) for name in ("TALL", "TRAINING", "GROUPED") if getattr(self, name.lower()))


def launch_shape(
    op: str, numbers: Sequence[float], kernel: Mapping[str, Any], multiprocessors: int
) -> LaunchShape:
    """The launch shape of an operation other than a convolution, with a choice of ``config/kernel``.

    Raises Unsupported if no grid can hold it.
    """
    shape = _shape(op, numbers, kernel, multiprocessors)
    if shape.grid[1] <= MOST_Y:
        return shape
    check_grid(op, numbers, shape.grid[0])
    return shape._replace(grid=shape.grid[::-1], tall=True)


def check_grid(op: str, numbers: Sequence[float], down: int) -> None:
    """Raise Unsupported if a grid has more blocks in y than a launch may have."""
    if down > MOST_Y:
        raise Unsupported(f"{_named(op, numbers)} needs {down} blocks in y: CUDA launches {MOST_Y} at most")


def check_sizes(op: str, numbers: Sequence[float]) -> None:
    """Raise Unsupported if a number of an operation, or an index of its kernel, does not fit in 32 bits."""
    kind = OPS[op]
    uncounted = *kind.reals, "seed"
    pairs = zip(kind.numbers, numbers, strict=True)
    largest = max((int(number) for name, number in pairs if name not in uncounted), default=0)
    if kind.is_convolution or op in _INDEXED_BY_INT:
        largest = max(largest, *kind.elements(*map(int, numbers)))
    if largest > _MOST:
        raise Unsupported(
            f"{_named(op, numbers)} has {largest} elements, its kernel counts to {_MOST}: choose a smaller "
            "training.batch_size, or train in micro-batches (training.accumulate)"
        )


def _named(op: str, numbers: Sequence[float]) -> str:
    return f"{op} of " + ", ".join(
        f"{name} {number}" for name, number in zip(OPS[op].numbers, numbers, strict=True)
    )


def _shape(op: str, numbers: Sequence[float], kernel: Mapping[str, Any], multiprocessors: int) -> LaunchShape:
    kind = OPS[op]
    if kind.is_product and kernel["fused"] and _has_long_sums(op, numbers):
        grid = _grid(int(numbers[0]), int(numbers[2]), _SPLIT_BLOCK, (1, 1))
        return LaunchShape(SPLIT_K, _SPLIT_BLOCK, (1, 1), grid, _SPLIT_BLOCK, training=kind.of_training)
    if kind.is_product:
        m, n, block = int(numbers[0]), int(numbers[2]), (kernel["block"][0], kernel["block"][1])
        work = tuple(kernel["work"] or _best_work(m, n, block, multiprocessors))
        across, down = _grid(m, n, block, work)
        below = int(numbers[kind.numbers.index("bias")]) if "bias" in kind.numbers else 0
        shape = LaunchShape(kernel["source"], block, work, (across, down + below), block, of_products=True)
        return shape._replace(training=kind.of_training)
    if kind.is_grouped:
        return _of_layers(numbers, kernel, multiprocessors)
    if kind.numbers[:2] == _ON_MATRICES:
        rows, cols = int(numbers[0]), int(numbers[1])
        grid, block = (math.ceil(cols / _SIDE), math.ceil(rows / _SIDE)), (_SIDE, _STRIPS)
    else:
        blocks = PARTIAL_SUMS if op == "sum_squares" else math.ceil(kind.threads(*numbers) / THREADS)
        grid, block = (blocks, 1), (THREADS, 1)
    return LaunchShape(kind.source, (1, 1), (1, 1), grid, block)


def _of_layers(numbers: Sequence[float], kernel: Mapping[str, Any], multiprocessors: int) -> LaunchShape:
    """The launch shape of the gradients of several layers."""
    block = (kernel["block"][0], kernel["block"][1])
    sizes = list(map(int, numbers[: 4 * LAYERS_AT_ONCE]))
    layers = [sizes[i : i + 4] for i in range(0, len(sizes), 4)]

    def blocks(work: Sequence[int]) -> int:
        grids = ((*_grid(m, n, block, work), bias) for m, n, bias, _ in layers)
        return sum(across * (down + bias) for across, down, bias in grids)

    works = [tuple(kernel["work"])] if kernel["work"] else WORKS
    enough = (work for work in works if blocks(work) >= 0.75 * multiprocessors)
    work = next(enough, works[-1])
    shape = LaunchShape(kernel["source"], block, work, (blocks(work), 1), block, of_products=True)
    return shape._replace(training=True, grouped=True)


def _grid(m: int, n: int, block: Sequence[int], work: Sequence[int]) -> tuple[int, int]:
    """The grid of a product of m rows and n columns."""
    return math.ceil(n / (block[0] * work[1])), math.ceil(m / (block[1] * work[0]))


def _best_work(m: int, n: int, block: Sequence[int], multiprocessors: int) -> tuple[int, int]:
    """The most work per thread that still gives at least 3/4 as many blocks as SMs; otherwise the least."""
    for work in WORKS:
        if math.prod(_grid(m, n, block, work)) >= 0.75 * multiprocessors:
            return work
    return WORKS[-1]


def _has_long_sums(op: str, numbers: Sequence[float]) -> bool:
    """Whether a product of plain operands has so few elements that its sums should be split."""
    m, k, n = (int(number) for number in numbers[:3])
    return not op.startswith(("matmul_tn", "matmul_nt")) and n > 1 and m * n <= 4096 and k >= 2048
