"""Launches that CuPy has no call for: of clusters of blocks, and of grids whose blocks all run at once."""

import ctypes
from collections.abc import Sequence
from typing import Any

_driver = ctypes.CDLL("libcuda.so.1")
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_ANY_CLUSTER = 14  # CUfunction_attribute
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


class Together:
    """A launch of so many blocks that run at the same time: as one ``cluster``, or else anywhere.

    ``function`` is a kernel of a CuPy module. The launch is on the default stream.
    """

    def __init__(self, function: Any, blocks: int, threads: int, cluster: bool) -> None:
        self._function = function  # holds the module: dropping that would unload the kernel
        self._pointer = ctypes.c_void_p(function.kernel.ptr)
        self._attribute = _Attribute(id=_CLUSTER if cluster else _COOPERATIVE)
        if cluster:
            self._attribute.value.sizes[:] = [blocks, 1, 1]
        else:
            self._attribute.value.flag = 1
        self._config = _Config(count=1, attributes=ctypes.pointer(self._attribute))
        self._config.grid[:], self._config.block[:] = [blocks, 1, 1], [threads, 1, 1]
        if cluster and blocks > _MOST_PORTABLE:
            _driver.cuFuncSetAttribute(self._pointer, _ANY_CLUSTER, 1)  # where it cannot be had, none fits

    def fits_as_cluster(self) -> bool:
        """Whether the device can run such a cluster."""
        found = ctypes.c_int(0)
        status = _driver.cuOccupancyMaxActiveClusters(
            ctypes.byref(found), self._pointer, ctypes.byref(self._config)
        )
        return status == 0 and found.value >= 1

    def __call__(self, values: Sequence[Any]) -> None:
        """Launch it with these arguments, each a value of ``ctypes``."""
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        status = _driver.cuLaunchKernelEx(ctypes.byref(self._config), self._pointer, arguments, None)
        if status:
            raise RuntimeError(f"cuLaunchKernelEx failed with CUDA error {status}")
