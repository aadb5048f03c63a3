"""Host arrays over addresses, managed (unified) memory, and memory pools: CuPy's and the driver's."""

import math
from collections.abc import Callable

import cupy
import numpy as np
from cupy.cuda import runtime

from snn.backends.base import Backend
from snn.backends.cuda.managed_budget import ManagedBudget
from snn.errors import Unsupported, out_of_memory

MEMORY_ALLOCATION = 2  # cudaErrorMemoryAllocation


class _Memory:
    """Presents memory to NumPy as a float32 array; the allocator of the memory frees it."""

    __slots__ = ("__array_interface__",)

    def __init__(self, address: int, shape: tuple[int, ...]) -> None:
        self.__array_interface__ = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3}


def as_array(address: int, shape: tuple[int, ...]) -> np.ndarray:
    """A float32 array over the memory at an address."""
    return np.asarray(_Memory(address, shape))


_PAGE = 4096


def in_own_pages(nbytes: int) -> np.ndarray:
    """Ordinary memory of so many bytes that shares no page with other memory."""
    whole = np.empty(nbytes + 2 * _PAGE, np.uint8)
    start = -address_of(whole) % _PAGE
    return whole[start : start + nbytes]


def address_of(array: np.ndarray) -> int:
    """The address of an array's data."""
    return array.__array_interface__["data"][0]


_ADVICE = {
    "read_mostly": runtime.cudaMemAdviseSetReadMostly,
    "preferred_location": runtime.cudaMemAdviseSetPreferredLocation,
    "accessed_by": runtime.cudaMemAdviseSetAccessedBy,
}
_HOST = -1  # cudaCpuDeviceId


class ManagedMemory(Backend):
    """A backend's managed memory: at most half of the free device memory before the first allocation."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._sizes: dict[int, int] = {}
        self._budget = ManagedBudget(lambda: runtime.memGetInfo()[0])
        self._supported = runtime.deviceGetAttribute(runtime.cudaDevAttrManagedMemory, device) != 0
        self._concurrent = runtime.deviceGetAttribute(runtime.cudaDevAttrConcurrentManagedAccess, device) != 0
        self._to_host = _prefetch_to_host() if self._concurrent else None

    @property
    def prefetches_out(self) -> bool:  # type: ignore[override]
        return self._to_host is not None

    def managed_alloc(self, shape: tuple[int, ...], purpose: str = "workspace") -> np.ndarray:
        if not self._supported:
            raise Unsupported("the device does not support managed memory (its attribute managedMemory is 0)")
        nbytes = 4 * math.prod(shape)
        self._budget.take(nbytes)
        try:
            address = runtime.mallocManaged(nbytes)
        except runtime.CUDARuntimeError as error:
            self._budget.give(nbytes)
            if error.status != MEMORY_ALLOCATION:
                raise
            raise out_of_memory("cudaMallocManaged", nbytes, *self.memory()) from error
        self._sizes[address] = nbytes
        return as_array(address, shape)

    def managed_free(self, array: np.ndarray) -> None:
        address = address_of(array)
        self._budget.give(self._sizes.pop(address))
        runtime.free(address)

    def shared_buffer(self, array: np.ndarray) -> int:
        # Pinned memory has the same address on the device, by unified addressing.
        if self.pageable_fallbacks:
            raise Unsupported("the system could not pin a host array, so that kernels cannot access it")
        return address_of(array)

    def advise(self, array: np.ndarray, advice: str) -> None:
        if not self._concurrent:
            raise Unsupported(
                "host and device cannot access managed memory concurrently (the device attribute "
                "concurrentManagedAccess is 0), so it cannot be prefetched"
            )
        runtime.memAdvise(address_of(array), array.nbytes, _ADVICE[advice], self._device)

    def prefetch_in(self, array: np.ndarray) -> None:
        runtime.memPrefetchAsync(address_of(array), array.nbytes, self._device, 0)

    def prefetch_out(self, array: np.ndarray) -> None:
        if self._to_host is None:
            raise Unsupported(
                "on CUDA 13 CuPy prefetches to devices only, and cuda.bindings 13 is not installed"
            )
        self._to_host(address_of(array), array.nbytes)


def _prefetch_to_host() -> Callable[[int, int], None] | None:
    """A function that prefetches to the host, or None.

    Uses CuPy, or ``cuda.bindings`` (if installed) on CUDA 13, because CuPy supports only devices there.
    """
    if runtime.runtimeGetVersion() < 13000:
        return lambda address, nbytes: runtime.memPrefetchAsync(address, nbytes, _HOST, 0)
    try:
        from cuda.bindings import __version__, driver
    except ImportError:
        return None
    if int(__version__.partition(".")[0]) < 13:
        return None
    host = driver.CUmemLocation()
    host.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_HOST

    def prefetch(address: int, nbytes: int) -> None:
        (status,) = driver.cuMemPrefetchAsync(address, nbytes, host, 0, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuMemPrefetchAsync to the host failed: {status}")

    return prefetch


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
        self._pages.pop(address_of(array), None)  # absent for pageable memory

    def nbytes(self) -> int:
        return self._device.total_bytes()

    def close(self) -> None:
        self._device.free_all_blocks()
        self._page_locked.free_all_blocks()


class DriverPool:
    """The device's default memory pool, which keeps freed memory until ``close`` (release threshold raised).

    Raises Unsupported if the driver has no memory pools.
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
