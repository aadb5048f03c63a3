"""Memory pools on CUDA: CuPy's, of device and pinned memory, and the driver's, in stream order."""

import math

import cupy
import numpy as np
from cupy.cuda import runtime

from snn.backends.cuda.views import address_of, as_array
from snn.errors import Unsupported

_KEEP_ALL = 2**64 - 1


class CupyPool:
    """A MemoryPool and a PinnedMemoryPool of CuPy, private to this object."""

    allocates_by = "CuPy's pool by cudaMalloc"

    def __init__(self) -> None:
        self._device, self._page_locked = cupy.cuda.MemoryPool(), cupy.cuda.PinnedMemoryPool()
        self._blocks: dict[int, cupy.cuda.MemoryPointer] = {}
        self._pages: dict[int, cupy.cuda.PinnedMemoryPointer] = {}

    def malloc(self, nbytes: int) -> int:
        block = self._device.malloc(nbytes)
        self._blocks[block.ptr] = block
        return block.ptr

    def free(self, buffer: int) -> None:
        del self._blocks[buffer]

    def host_alloc(self, shape: tuple[int, ...]) -> np.ndarray:
        pages = self._page_locked.malloc(4 * math.prod(shape))
        self._pages[pages.ptr] = pages
        return as_array(pages.ptr, shape)

    def host_free(self, array: np.ndarray) -> None:
        self._pages.pop(address_of(array), None)  # absent if it is pageable memory

    def nbytes(self) -> int:
        return self._device.total_bytes()

    def close(self) -> None:
        self._device.free_all_blocks()
        self._page_locked.free_all_blocks()


class DriverPool:
    """The device's default memory pool, which keeps freed memory until ``close`` (release threshold raised).

    Raises Unsupported where the driver has no memory pools.
    """

    allocates_by = "cudaMallocAsync"

    def __init__(self, stream: int) -> None:
        device = runtime.getDevice()
        if not runtime.deviceGetAttribute(runtime.cudaDevAttrMemoryPoolsSupported, device):
            raise Unsupported("the driver has no memory pools on this device, which cudaMallocAsync needs")
        self._stream, self._pool = stream, runtime.deviceGetDefaultMemPool(device)
        self._threshold = runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold)
        runtime.memPoolSetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold, _KEEP_ALL)

    def malloc(self, nbytes: int) -> int:
        return runtime.mallocAsync(nbytes, self._stream)

    def free(self, buffer: int) -> None:
        runtime.freeAsync(buffer, self._stream)

    def host_alloc(self, shape: tuple[int, ...]) -> np.ndarray:
        raise Unsupported("the driver's pool has no pinned memory")

    def host_free(self, array: np.ndarray) -> None:
        raise Unsupported("the driver's pool has no pinned memory")

    def nbytes(self) -> int:
        return runtime.memPoolGetAttribute(self._pool, runtime.cudaMemPoolAttrReservedMemCurrent)

    def close(self) -> None:
        runtime.streamSynchronize(self._stream)
        runtime.memPoolSetAttribute(self._pool, runtime.cudaMemPoolAttrReleaseThreshold, self._threshold)
        runtime.memPoolTrimTo(self._pool, 0)
