"""Launches that CuPy does not offer: clusters, cooperative grids, overlapping kernels, compiled loops."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from snn.errors import DeviceError, OutOfMemory, SnnError, Unsupported

driver = ctypes.CDLL("libcuda.so.1")
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC = 2, 4, 6  # CUlaunchAttributeID
_DYNAMIC_SHARED, _ANY_CLUSTER = 8, 14  # CUfunction_attribute
_MOST_PORTABLE = 8  # cluster size that every device with clusters supports
_OUT_OF_MEMORY = 2  # CUresult
_REFUSALS = (1, 209, 701, 720, 800, 801, 912, 914, 915)
"""CUresults if the device, or a limit of this process, does not allow a launch; others may be allowed."""


class _Value(ctypes.Union):
    _fields_ = (("sizes", ctypes.c_uint * 3), ("flag", ctypes.c_int), ("pad", ctypes.c_char * 64))


class _Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", _Value))


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class CooperativeLaunch:
    """A launch whose blocks wait for each other: within clusters of ``cluster`` blocks, or all (0).

    ``together``: the clusters wait for each other, too, so none may start before the device has room for all.
    Otherwise there may be more clusters than the device runs at the same time. ``independent``: no block
    waits for another, and without clusters there may be any number of blocks. ``function`` is a kernel of a
    CuPy module, ``blocks`` the grid size, ``threads`` the block size, ``shared_bytes`` the dynamic shared
    memory of a block.
    """

    def __init__(
        self,
        function: Any,
        blocks: int,
        threads: int,
        cluster: int = 0,
        shared_bytes: int = 0,
        together: bool = False,
        independent: bool = False,
    ) -> None:
        self._function = function  # keeps the module loaded
        self._pointer = ctypes.c_void_p(function.kernel.ptr)
        attributes = []
        if cluster:
            attributes.append(_Attribute(id=_CLUSTER))
            attributes[0].value.sizes[:] = [cluster, 1, 1]
        if together or not (cluster or independent):
            attributes.append(_Attribute(id=_COOPERATIVE))
            attributes[-1].value.flag = 1
        self._attributes = (_Attribute * len(attributes))(*attributes)
        self._config = _Config(shared_bytes=shared_bytes, count=len(attributes))
        self._config.attributes = self._attributes
        self._config.grid[:], self._config.block[:] = [blocks, 1, 1], [threads, 1, 1]
        if shared_bytes:
            status = driver.cuFuncSetAttribute(self._pointer, _DYNAMIC_SHARED, shared_bytes)
            check(status, "cuFuncSetAttribute")
        if cluster > _MOST_PORTABLE:
            driver.cuFuncSetAttribute(self._pointer, _ANY_CLUSTER, 1)  # if this fails, held_clusters() is 0

    def held_clusters(self) -> int:
        """Number of such clusters that the device can run at the same time; 0 if it cannot run one."""
        count = ctypes.c_int(0)
        clusters = _Config.from_buffer_copy(self._config)
        clusters.count = 1  # the cluster's size, which comes first
        status = driver.cuOccupancyMaxActiveClusters(
            ctypes.byref(count), self._pointer, ctypes.byref(clusters)
        )
        return count.value if status == 0 else 0

    def held_blocks(self) -> int:
        """Number of such blocks that an SM can run at the same time."""
        count = ctypes.c_int(0)
        status = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(count),
            self._pointer,
            ctypes.c_int(self._config.block[0]),
            ctypes.c_size_t(self._config.shared_bytes),
        )
        check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return count.value

    def __call__(self, values: Sequence[Any], stream: int = 0) -> None:
        """Launch the kernel with these arguments, each a ``ctypes`` value."""
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self._config.stream = stream
        status = driver.cuLaunchKernelEx(ctypes.byref(self._config), self._pointer, arguments, None)
        check(status, "cuLaunchKernelEx")


class OverlappingLaunch:
    """A launch that may begin while the kernel before it on its stream ends: the kernel itself waits.

    ``grid`` and ``block`` have a size in x and in y.
    """

    def __init__(self, function: Any, grid: tuple[int, int], block: tuple[int, ...]) -> None:
        self._pointer = ctypes.c_void_p(function.kernel.ptr)
        self._attributes = (_Attribute * 1)(_Attribute(id=_PROGRAMMATIC))
        self._attributes[0].value.flag = 1
        self._config = _Config(count=1, attributes=self._attributes)
        self._config.grid[:], self._config.block[:] = [*grid, 1], [*block, 1]

    def __call__(self, arguments: int, stream: int) -> None:
        """Launch the kernel with the argument pointers at this address."""
        self._config.stream = stream
        status = driver.cuLaunchKernelEx(
            ctypes.byref(self._config), self._pointer, ctypes.c_void_p(arguments), None
        )
        check(status, "cuLaunchKernelEx")


def compiled_launches() -> Callable[[int, int], None]:
    """A compiled loop that launches a kernel without arguments, by its pointer, ``count`` times with one
    warp.

    Raises Unsupported if Numba, which compiles it, is missing.
    """
    try:
        import numba
    except ImportError as error:
        raise Unsupported(f"numba cannot be imported ({error}): `make env` installs it") from error
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel
    address, number = ctypes.c_uint64, ctypes.c_uint32  # Numba takes addresses as integers
    launch.argtypes, launch.restype = [address, *7 * [number], *3 * [address]], ctypes.c_int

    @numba.njit("int32(uint64, int64)")
    def loop(pointer, count):
        for _ in range(count):
            status = launch(pointer, 1, 1, 1, 32, 1, 1, 0, 0, 0, 0)
            if status != 0:
                return status
        return 0

    return lambda pointer, count: check(loop(pointer, count), "cuLaunchKernel")


def failure(status: int, call: str) -> SnnError:
    """The error for a driver call that failed with this CUresult, with CUDA's name for it.

    Unsupported if the driver does not allow the call, else OutOfMemory or DeviceError.
    """
    said = []
    for ask in (driver.cuGetErrorName, driver.cuGetErrorString):
        text = ctypes.c_char_p()
        if ask(status, ctypes.byref(text)) == 0 and text.value:
            said.append(text.value.decode())
    name = f"{said[0]} ({', '.join(said[1:])})" if len(said) > 1 else f"CUDA error {status}"
    if status in _REFUSALS:
        return Unsupported(f"the driver does not allow {call}: {name}")
    return (OutOfMemory if status == _OUT_OF_MEMORY else DeviceError)(f"{call} failed: {name}")


def check(status: int, call: str) -> None:
    """Raise the error for a driver call that failed."""
    if status:
        raise failure(status, call)
