"""A backend that launches the CUDA kernels' own source on the CPU: an access outside a buffer is an error."""

from collections.abc import Mapping, Sequence
from typing import Any

import cuda_on_cpu
from conftest import ROOT

from snn.backends import kernel_source
from snn.backends.cpu.backend import CpuBackend, HostBuffer
from snn.backends.launches.operations import launch_shape
from snn.backends.ops import OPS, storage_defines

MULTIPROCESSORS = 132


class EmulatedBackend(CpuBackend):
    """Host memory; launches are those of a device with ``MULTIPROCESSORS`` SMs, with a ``config/kernel``."""

    def __init__(self, kernel: Mapping[str, Any], precision: str = "fp32") -> None:
        self._convolution = kernel_source.convolution(kernel["source"], ROOT)
        super().__init__(kernel["fused"], kernel["pretransposed"], self._convolution is not None)
        self._kernel = kernel
        self._rounding = {precision.upper(): 1} if precision != "fp32" else {}
        self._launches: dict[tuple[str, tuple[float, ...]], Any] = {}

    def store(self, storage: str) -> None:
        super().store(storage)
        self._launches.clear()

    def launch(
        self,
        op: str,
        buffers: tuple[HostBuffer, ...],
        numbers: tuple[float, ...],
        stream: int | None = None,
    ) -> None:
        kind = OPS[op]
        if (op, numbers) not in self._launches:
            make = self._convolve if kind.is_convolution else self._other
            self._launches[op, numbers] = make(op, numbers)
        kernel, grid, block = self._launches[op, numbers]
        values = [
            float(number) if name in kind.reals else int(number)
            for name, number in zip(kind.numbers, numbers, strict=True)
        ]
        arrays = (
            buffer.words if kind == "float32*" else buffer.words.view(kind[:-1])
            for buffer, kind in zip(buffers, kernel.parameters, strict=False)
        )
        kernel(grid=grid, block=block, arguments=(*arrays, *values))

    def _convolve(self, op: str, numbers: Sequence[float]) -> tuple[Any, ...]:
        shape = {name.upper(): int(n) for name, n in zip(OPS[op].numbers, numbers, strict=True)}
        only = {"ONLY": 1, f"ONLY_{op}": 1}
        found = self._load(self._convolution, self._kernel["block"], (1, 1), self._rounding | shape | only)
        return found[op], (found[f"{op}_grid_x"], found[f"{op}_grid_y"]), (found[f"{op}_threads"],)

    def _other(self, op: str, numbers: Sequence[float]) -> tuple[Any, ...]:
        shape = launch_shape(op, numbers, self._kernel, MULTIPROCESSORS)
        further = (self._rounding if shape.of_products else {}) | dict(shape.defines)
        further |= storage_defines(op, self.storage)
        found = self._load(shape.source, shape.compiled_block, shape.work, further)
        return found[op], shape.grid, shape.block

    @staticmethod
    def _load(source: str, block: Sequence[int], work: Sequence[int], more: Mapping[str, int]) -> Any:
        names = ("BLOCK_X", "BLOCK_Y", "WORK_ROWS", "WORK_COLS")
        defines = dict(zip(names, (*block, *work), strict=True)) | dict(more)
        return cuda_on_cpu.load(ROOT / source, **defines)
