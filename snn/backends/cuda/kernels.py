"""CUDA kernels, compiled for a block shape and launched with as little host work as possible."""

import ctypes
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import driver

from snn.backends import kernel_source
from snn.backends.cuda.cublas import Cublas
from snn.backends.ops import OPS, PARTIAL_SUMS, THREADS, Op

WORKS = ((4, 4), (2, 4), (2, 2), (1, 2), (1, 1))
"""Elements per thread, rows by columns, to choose from where ``kernel.work`` is null."""

_SPLIT_BLOCK = (1024, 1)

_SIDE, _STRIPS = 32, 8  # tile side of the transpose kernels; their block size is _SIDE x _STRIPS
_ON_MATRICES = ("rows", "cols")


class Kernels:
    """The kernels of a file of ``config/kernel`` and the element-wise kernels, by the names of ``OPS``."""

    def __init__(self, kernel: Mapping[str, Any], precision: str, root: Path) -> None:
        self._library = None if kernel["source"] else Cublas(precision)
        self._source = kernel_source.text(root / kernel["source"]) if kernel["source"] else ""
        self._convolution = kernel_source.convolution(kernel["source"], root)
        self._splits_k = kernel["fused"]
        self._root = root
        self._block, self._work = tuple(kernel["block"]), kernel["work"]
        self._precision = precision
        self._multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._launchers: dict[tuple[str, tuple[float, ...]], Callable[[Sequence[int], int], None]] = {}

    def launch(self, op: str, buffers: Sequence[int], numbers: tuple[float, ...], stream: int) -> None:
        """Launch the kernel of an op; it is compiled at the first use."""
        launcher = self._launchers.get((op, numbers))
        if launcher is None:
            launcher = self._launchers[op, numbers] = self._make(op, numbers)
        launcher(buffers, stream)

    @property
    def can_be_captured(self) -> bool:
        """Whether a CUDA graph can capture them: CuPy's cuBLAS refuses to run during a capture."""
        return self._library is None

    @property
    def convolves(self) -> bool:
        """Whether there are direct convolutions."""
        return self._convolution is not None

    def _make(self, op: str, numbers: tuple[float, ...]) -> Callable[[Sequence[int], int], None]:
        kind = OPS[op]
        if kind.is_product and self._library is not None:
            return self._library.make(op, numbers)
        if kind.is_convolution:
            return self._convolve(op, numbers)
        if kind.is_product and self._splits_k and _has_long_sums(op, numbers):
            source, grid = (
                self._text(kernel_source.SPLIT_K),
                _grid(int(numbers[0]), int(numbers[2]), _SPLIT_BLOCK, (1, 1)),
            )
            function = _compile(source, _SPLIT_BLOCK, (1, 1), "fp32", op)
            return _Launcher(function, kind, numbers, grid, _SPLIT_BLOCK)
        if kind.is_product:
            m, n = int(numbers[0]), int(numbers[2])
            work = tuple(self._work or _best_work(m, n, self._block, self._multiprocessors))
            grid = _grid(m, n, self._block, work)
            function = _compile(self._source, self._block, work, self._precision, op)
            return _Launcher(function, kind, numbers, grid, self._block)
        if kind.numbers[:2] == _ON_MATRICES:
            rows, cols = int(numbers[0]), int(numbers[1])
            grid, block = (math.ceil(cols / _SIDE), math.ceil(rows / _SIDE)), (_SIDE, _STRIPS)
        else:
            blocks = PARTIAL_SUMS if op == "sum_squares" else math.ceil(kind.threads(*numbers) / THREADS)
            grid, block = (blocks, 1), (THREADS, 1)
        function = _compile(self._text(kind.source), (1, 1), (1, 1), "fp32", op)
        return _Launcher(function, kind, numbers, grid, block)

    def _convolve(self, op: str, numbers: tuple[float, ...]) -> Callable[[Sequence[int], int], None]:
        """A convolution, compiled for its shape; the source tells the grid and the block size."""
        assert self._convolution is not None
        shape = tuple((name.upper(), int(n)) for name, n in zip(OPS[op].numbers, numbers, strict=True))
        only = (("ONLY", 1), (f"ONLY_{op}", 1))
        source = self._text(self._convolution)
        module = _module(source, self._block, (1, 1), self._precision, (*shape, *only))
        x, y, threads = (_constant(module, f"{op}_{name}") for name in ("grid_x", "grid_y", "threads"))
        return _Launcher(module.get_function(op), OPS[op], numbers, (x, y), (threads, 1))

    def _text(self, source: str) -> str:
        return kernel_source.text(self._root / source)


class _Launcher:
    """A kernel with its grid, block and scalar arguments.

    The arguments live in one buffer, in which a launch replaces only the addresses. That is safe because CUDA
    copies the arguments before a launch returns.
    """

    def __init__(
        self, function: Any, op: Op, numbers: tuple[float, ...], grid: tuple[int, int], block: tuple[int, ...]
    ) -> None:
        self._function = function  # keeps the module loaded
        self._pointer = function.kernel.ptr
        self._shape = (*grid, 1, *block, 1)
        count = len(op.operands)
        self._addresses = struct.Struct(f"<{count}q")
        kinds = "".join("f" if name in op.reals else "i" for name in op.numbers)
        packed = struct.pack("<" + "4x".join(kinds), *_cast(kinds, numbers))
        self._values = ctypes.create_string_buffer(bytes(8 * count) + packed, 8 * count + len(packed))
        base = ctypes.addressof(self._values)
        self._arguments = (ctypes.c_void_p * (count + len(kinds)))(
            *(base + 8 * i for i in range(count + len(kinds)))
        )
        self._arguments_address = ctypes.addressof(self._arguments)

    def __call__(self, buffers: Sequence[int], stream: int) -> None:
        self._addresses.pack_into(self._values, 0, *buffers)
        driver.launchKernel(self._pointer, *self._shape, 0, stream, self._arguments_address, 0)


def _cast(kinds: str, numbers: Sequence[float]) -> list[float]:
    return [float(x) if kind == "f" else int(x) for kind, x in zip(kinds, numbers, strict=True)]


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
    """Whether a product of plain operands has so few elements that its sums are to be split."""
    m, k, n = (int(number) for number in numbers[:3])
    return not op.startswith(("matmul_tn", "matmul_nt")) and n > 1 and m * n <= 4096 and k >= 2048


def _constant(module: cupy.RawModule, name: str) -> int:
    return int(cupy.ndarray(1, dtype=cupy.int32, memptr=module.get_global(name)).get()[0])


@cache
def _compile(source: str, block: tuple[int, int], work: tuple[int, int], precision: str, name: str) -> Any:
    return _module(source, block, work, precision).get_function(name)


@cache
def _module(
    source: str,
    block: tuple[int, int],
    work: tuple[int, int],
    precision: str,
    shape: tuple[tuple[str, int], ...] = (),
) -> cupy.RawModule:
    defines = {"BLOCK_X": block[0], "BLOCK_Y": block[1], "WORK_ROWS": work[0], "WORK_COLS": work[1]}
    options = ["-std=c++17", *(f"-D{name}={value}" for name, value in (defines | dict(shape)).items())]
    if precision != "fp32":
        options.append(f"-D{precision.upper()}")
    return cupy.RawModule(code=source, options=tuple(options), backend="nvrtc")
