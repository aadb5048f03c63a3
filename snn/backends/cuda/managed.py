"""Managed (unified) memory of CUDA: one address for host and device, pages migrate on access."""

import math
from collections.abc import Callable

import numpy as np
from cupy.cuda import runtime

from snn.backends.cuda.managed_budget import ManagedBudget
from snn.backends.cuda.views import address_of, as_array
from snn.errors import Unsupported

_ADVICE = {
    "read_mostly": runtime.cudaMemAdviseSetReadMostly,
    "preferred_location": runtime.cudaMemAdviseSetPreferredLocation,
    "accessed_by": runtime.cudaMemAdviseSetAccessedBy,
}
_HOST = -1  # cudaCpuDeviceId


class Managed:
    """Allocates managed memory, at most half of what was free on the device before the first allocation."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._sizes: dict[int, int] = {}
        self._budget = ManagedBudget(lambda: runtime.memGetInfo()[0])
        self._supported = runtime.deviceGetAttribute(runtime.cudaDevAttrManagedMemory, device) != 0
        self._concurrent = runtime.deviceGetAttribute(runtime.cudaDevAttrConcurrentManagedAccess, device) != 0
        self._to_host = _prefetch_to_host() if self._concurrent else None

    @property
    def prefetches_out(self) -> bool:
        """Whether memory can be prefetched to the host."""
        return self._to_host is not None

    def alloc(self, shape: tuple[int, ...]) -> np.ndarray:
        if not self._supported:
            raise Unsupported("the device does not support managed memory (its attribute managedMemory is 0)")
        nbytes = 4 * math.prod(shape)
        self._budget.take(nbytes)
        try:
            address = runtime.mallocManaged(nbytes)
        except runtime.CUDARuntimeError:
            self._budget.give(nbytes)
            raise
        self._sizes[address] = nbytes
        return as_array(address, shape)

    def free(self, array: np.ndarray) -> None:
        address = address_of(array)
        self._budget.give(self._sizes.pop(address))
        runtime.free(address)

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

    By CuPy; on CUDA 13, where CuPy can name devices only, by ``cuda.bindings`` if it is installed.
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
