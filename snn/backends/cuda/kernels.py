"""CUDA kernels, compiled for a block shape and launched with as little host work as possible."""

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import driver, runtime

from snn.backends import kernel_source
from snn.backends.cuda import modules
from snn.backends.cuda.cooperative import OverlappingLaunch
from snn.backends.cuda.cublas import Cublas
from snn.backends.launches.operations import MOST_Y, check_grid, check_sizes, launch_shape
from snn.backends.ops import OPS, Op, storage_defines
from snn.errors import Unsupported
from snn.models.storage import FP32

OVERLAPPING_CAPABILITY, OVERLAPPING_DRIVER = 90, 12030
"""The first compute capability and driver version with programmatic dependent launches in graphs."""


class Kernels:
    """The kernels of a file of ``config/kernel`` and the element-wise kernels, by the names of ``OPS``."""

    def __init__(self, kernel: Mapping[str, Any], precision: str, root: Path) -> None:
        self._library = None if kernel["source"] else Cublas(precision)
        self._source = kernel_source.text(root / kernel["source"]) if kernel["source"] else ""
        self._convolution = kernel_source.convolution(kernel["source"], root)
        self._kernel, self._root, self._block = kernel, root, tuple(kernel["block"])
        self._precision, self._device = precision, runtime.getDevice()
        self._multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self._launchers: dict[tuple[str, tuple[float, ...]], Callable[[Sequence[int], int], None]] = {}
        self._overlap, self._storage = False, FP32

    def launch(self, op: str, buffers: Sequence[int], numbers: tuple[float, ...], stream: int) -> None:
        """Launch the kernel of an op, which is compiled at the first use."""
        launcher = self._launchers.get((op, numbers))
        if launcher is None:
            launcher = self._launchers[op, numbers] = self._make(op, numbers)
        launcher(buffers, stream)

    def store(self, storage: str) -> None:
        """Set how activations and error signals are held from now on."""
        self._storage = storage
        self._launchers.clear()

    def overlap(self, on: bool) -> None:
        """Whether each kernel may begin while the one before it on its stream ends. Raises Unsupported."""
        capability, version = cupy.cuda.Device().compute_capability, runtime.driverGetVersion()
        if on and int(capability) < OVERLAPPING_CAPABILITY:
            raise Unsupported(
                "programmatic dependent launches need compute capability 9.0 or newer, and this GPU's is "
                f"{int(capability) / 10}"
            )
        if on and version < OVERLAPPING_DRIVER:
            raise Unsupported(
                "CUDA graphs keep programmatic dependent launches from driver version 12.3 on, and this "
                f"driver's is {version // 1000}.{version % 1000 // 10}"
            )
        self._overlap = on
        self._launchers.clear()

    @property
    def convolves(self) -> bool:
        """Whether there are direct convolutions."""
        return self._convolution is not None

    def _make(self, op: str, numbers: tuple[float, ...]) -> Callable[[Sequence[int], int], None]:
        kind = OPS[op]
        check_sizes(op, numbers)
        if kind.is_product and self._library is not None:
            return self._library.make(op, numbers)
        if kind.is_convolution:
            return self._convolve(op, numbers)
        shape = launch_shape(op, numbers, self._kernel, self._multiprocessors)
        source = self._source if shape.of_products else self._text(shape.source)
        precision = self._precision if shape.of_products else "fp32"
        if shape.tall and not kernel_source.knows_tall_grids(source):
            raise Unsupported(
                f"{op} needs {shape.grid[0]} blocks in y: CUDA launches {MOST_Y} at most, and {shape.source} "
                "cannot count them in x. Choose a smaller training.batch_size, or include tile_place.cuh"
            )
        if shape.training and not kernel_source.knows_training(source):
            raise Unsupported(f"{shape.source} has no {op}: include entry_points.cuh, or choose fused: false")
        defines = shape.defines + storage_defines(op, self._storage)
        module = self._module(source, shape.compiled_block, shape.work, precision, defines)
        return self._launcher(module.get_function(op), kind, numbers, shape.grid, shape.block)

    def _convolve(self, op: str, numbers: tuple[float, ...]) -> Callable[[Sequence[int], int], None]:
        """Compile a convolution for its shape; its source defines the grid and the block size."""
        assert self._convolution is not None
        shape = tuple((name.upper(), int(n)) for name, n in zip(OPS[op].numbers, numbers, strict=True))
        only = (("ONLY", 1), (f"ONLY_{op}", 1))
        source = self._text(self._convolution)
        module = self._module(source, self._block, (1, 1), self._precision, (*shape, *only))
        x, y, threads = (modules.constant(module, f"{op}_{name}") for name in ("grid_x", "grid_y", "threads"))
        check_grid(op, numbers, y)
        return self._launcher(module.get_function(op), OPS[op], numbers, (x, y), (threads, 1))

    def _module(self, source: str, *compiled_for: Any) -> cupy.RawModule:
        text = kernel_source.overlapping(source) if self._overlap else source
        return _module(self._device, text, *compiled_for)

    @property
    def _launcher(self) -> type["_Launcher"]:
        return _OverlappingLauncher if self._overlap else _Launcher

    def _text(self, source: str) -> str:
        return kernel_source.text(self._root / source)


class _Launcher:
    """A kernel with its grid, block and scalar arguments.

    The arguments are in one buffer, in which a launch replaces only the addresses. That is safe because CUDA
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
        cast = [float(x) if kind == "f" else int(x) for kind, x in zip(kinds, numbers, strict=True)]
        packed = struct.pack("<" + "4x".join(kinds), *cast)
        self._values = ctypes.create_string_buffer(bytes(8 * count) + packed, 8 * count + len(packed))
        base = ctypes.addressof(self._values)
        self._arguments = (ctypes.c_void_p * (count + len(kinds)))(
            *(base + 8 * i for i in range(count + len(kinds)))
        )
        self._arguments_address = ctypes.addressof(self._arguments)

    def __call__(self, buffers: Sequence[int], stream: int) -> None:
        self._addresses.pack_into(self._values, 0, *buffers)
        driver.launchKernel(self._pointer, *self._shape, 0, stream, self._arguments_address, 0)


class _OverlappingLauncher(_Launcher):
    """The same for a kernel that may begin while the one before it ends."""

    def __init__(
        self, function: Any, op: Op, numbers: tuple[float, ...], grid: tuple[int, int], block: tuple[int, ...]
    ) -> None:
        super().__init__(function, op, numbers, grid, block)
        self._launch = OverlappingLaunch(function, grid, block)

    def __call__(self, buffers: Sequence[int], stream: int) -> None:
        self._addresses.pack_into(self._values, 0, *buffers)
        self._launch(self._arguments_address, stream)


@cache
def _module(
    device: int,
    source: str,
    block: tuple[int, int],
    work: tuple[int, int],
    precision: str,
    further: tuple[tuple[str, int], ...] = (),
) -> cupy.RawModule:
    defines = {"BLOCK_X": block[0], "BLOCK_Y": block[1], "WORK_ROWS": work[0], "WORK_COLS": work[1]}
    options = [f"-D{name}={value}" for name, value in (defines | dict(further)).items()]
    if precision != "fp32":
        options.append(f"-D{precision.upper()}")
    return modules.load(source, tuple(options))
