"""Launches that CuPy has no call for: of clusters of blocks, and of grids whose blocks all run at once."""

import ctypes
from collections.abc import Sequence
from typing import Any

_driver = ctypes.CDLL("libcuda.so.1")
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_DYNAMIC_SHARED, _ANY_CLUSTER = 8, 14  # CUfunction_attribute
_MOST_PORTABLE = 8  # blocks of a cluster that every device with clusters allows


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
    """A launch of ``blocks`` that wait for each other: in clusters of ``cluster`` each, or else all of them.

    ``function`` is a kernel of a CuPy module, ``shared_bytes`` the dynamic shared memory of a block.
    """

    def __init__(
        self, function: Any, blocks: int, threads: int, cluster: int = 0, shared_bytes: int = 0
    ) -> None:
        self._function = function  # holds the module: dropping that would unload the kernel
        self._pointer = ctypes.c_void_p(function.kernel.ptr)
        self._attribute = _Attribute(id=_CLUSTER if cluster else _COOPERATIVE)
        if cluster:
            self._attribute.value.sizes[:] = [cluster, 1, 1]
        else:
            self._attribute.value.flag = 1
        self._config = _Config(shared_bytes=shared_bytes, count=1)
        self._config.attributes = ctypes.pointer(self._attribute)
        self._config.grid[:], self._config.block[:] = [blocks, 1, 1], [threads, 1, 1]
        if shared_bytes:
            status = _driver.cuFuncSetAttribute(self._pointer, _DYNAMIC_SHARED, shared_bytes)
            _check(status, "cuFuncSetAttribute")
        if cluster > _MOST_PORTABLE:
            _driver.cuFuncSetAttribute(self._pointer, _ANY_CLUSTER, 1)  # where it cannot be had, none fits

    def held_clusters(self) -> int:
        """Clusters that the device runs at the same time; 0 where it cannot run such a one."""
        found = ctypes.c_int(0)
        status = _driver.cuOccupancyMaxActiveClusters(
            ctypes.byref(found), self._pointer, ctypes.byref(self._config)
        )
        return found.value if status == 0 else 0

    def held_blocks(self) -> int:
        """Blocks that a multiprocessor runs at the same time."""
        found = ctypes.c_int(0)
        status = _driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(found),
            self._pointer,
            ctypes.c_int(self._config.block[0]),
            ctypes.c_size_t(self._config.shared_bytes),
        )
        _check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return found.value

    def __call__(self, values: Sequence[Any], stream: int = 0) -> None:
        """Launch it with these arguments, each a value of ``ctypes``."""
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        self._config.stream = stream
        status = _driver.cuLaunchKernelEx(ctypes.byref(self._config), self._pointer, arguments, None)
        _check(status, "cuLaunchKernelEx")


def _check(status: int, call: str) -> None:
    if status:
        raise RuntimeError(f"{call} failed with CUDA error {status}")
