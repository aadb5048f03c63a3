"""The CUDA device, through CuPy's bindings of the runtime: the only module that touches it."""

import ctypes
import math
import struct
from collections.abc import Sequence
from pathlib import Path

import cupy
import numpy as np
from cupy.cuda import driver, runtime

from snn.backends.base import Backend
from snn.errors import DeviceError, out_of_memory

_MEMORY_ALLOCATION = 2  # cudaErrorMemoryAllocation
_REFUSED_PAGE_LOCK = (_MEMORY_ALLOCATION, 304)  # cudaErrorOperatingSystem


class KernelLauncher:
    """One matrix-product kernel of a ``.cu`` file, launched with as little host work as there can be.

    The six arguments (three addresses, three sizes) live in one buffer that is filled anew for each
    launch; CUDA copies them out before the launch returns.
    """

    _LAYOUT = struct.Struct("<3q i4x i4x i4x")

    def __init__(self, source: Path, function: str, block: Sequence[int]) -> None:
        # The module owns the machine code: dropping it would unload the kernel.
        self._module = cupy.RawModule(code=source.read_text(), options=("-std=c++17",), backend="nvrtc")
        self._function = self._module.get_function(function).kernel.ptr
        self._block_x, self._block_y = block
        self._values = ctypes.create_string_buffer(self._LAYOUT.size)
        base = ctypes.addressof(self._values)
        self._arguments = (ctypes.c_void_p * 6)(*(base + 8 * i for i in range(6)))
        self._arguments_address = ctypes.addressof(self._arguments)

    def __call__(self, A: int, B: int, C: int, m: int, k: int, n: int, stream: int) -> None:
        self._LAYOUT.pack_into(self._values, 0, A, B, C, m, k, n)
        driver.launchKernel(
            self._function,
            -(-n // self._block_x),
            -(-m // self._block_y),
            1,
            self._block_x,
            self._block_y,
            1,
            0,
            stream,
            self._arguments_address,
            0,
        )


class CudaBackend(Backend):
    """Plain runtime calls: nothing is pooled or cached behind a strategy's back."""

    def __init__(self, source: Path, function: str, block: Sequence[int], index: int = 0) -> None:
        try:
            runtime.setDevice(index)
            runtime.free(0)
        except runtime.CUDARuntimeError as error:
            raise DeviceError(f"CUDA device {index} cannot be used: {error}") from error
        self._launch = KernelLauncher(source, function, block)
        self._page_locked: set[int] = set()

    def malloc(self, nbytes: int, kind: str | None = None) -> int:
        try:
            return runtime.malloc(nbytes)
        except runtime.CUDARuntimeError as error:
            if error.status != _MEMORY_ALLOCATION:
                raise
            raise out_of_memory("cudaMalloc", nbytes, *self.memory()) from error

    def free(self, buffer: int) -> None:
        runtime.free(buffer)

    def host_alloc(
        self, shape: tuple[int, ...], kind: str = "workspace", page_locked: bool = True
    ) -> np.ndarray:
        if not page_locked:
            return np.empty(shape, dtype=np.float32)
        try:
            address = runtime.hostAlloc(4 * math.prod(shape), runtime.hostAllocDefault)
        except runtime.CUDARuntimeError as error:
            if error.status not in _REFUSED_PAGE_LOCK:
                raise
            self.pageable_fallbacks += 1
            return np.empty(shape, dtype=np.float32)
        self._page_locked.add(address)
        return np.asarray(_PageLocked(address, shape))

    def host_free(self, array: np.ndarray) -> None:
        address = _address(array)
        if address in self._page_locked:
            self._page_locked.remove(address)
            runtime.freeHost(address)

    def copy_in(self, buffer: int, array: np.ndarray, stream: int | None = None) -> None:
        if stream is None:
            runtime.memcpy(buffer, _address(array), array.nbytes, runtime.memcpyHostToDevice)
        else:
            runtime.memcpyAsync(buffer, _address(array), array.nbytes, runtime.memcpyHostToDevice, stream)

    def copy_out(self, array: np.ndarray, buffer: int, stream: int | None = None) -> None:
        if stream is None:
            runtime.memcpy(_address(array), buffer, array.nbytes, runtime.memcpyDeviceToHost)
        else:
            runtime.memcpyAsync(_address(array), buffer, array.nbytes, runtime.memcpyDeviceToHost, stream)

    def matmul(self, A: int, B: int, C: int, m: int, k: int, n: int, stream: int | None = None) -> None:
        self._launch(A, B, C, m, k, n, stream or 0)

    def stream_create(self) -> int:
        return runtime.streamCreate()

    def stream_destroy(self, stream: int) -> None:
        runtime.streamDestroy(stream)

    def stream_synchronize(self, stream: int) -> None:
        runtime.streamSynchronize(stream)

    def synchronize(self) -> None:
        runtime.deviceSynchronize()

    def memory(self) -> tuple[int, int]:
        return runtime.memGetInfo()

    def address(self, buffer: int) -> int:
        return buffer

    def mark(self, stream: int | None = None) -> cupy.cuda.Event:
        event = cupy.cuda.Event()
        runtime.eventRecord(event.ptr, stream or 0)
        return event

    def seconds_between(self, first: cupy.cuda.Event, last: cupy.cuda.Event) -> float:
        return cupy.cuda.get_elapsed_time(first, last) / 1000


class _PageLocked:
    """Shows page-locked memory to NumPy as a float32 array; the memory's life is the backend's care."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__array_interface__ = {
            "shape": shape,
            "typestr": "<f4",
            "data": (address, False),
            "version": 3,
        }


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
