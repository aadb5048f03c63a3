"""Whole trainings in one launch: the plan that a device takes for a shape, compiled, and its launches."""

import ctypes
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cupy

from snn import kernel_source
from snn.errors import Unsupported
from snn.plans import Limits, Plan, Shape, plans

_driver = ctypes.CDLL("libcuda.so.1")
_COOPERATIVE, _CLUSTER = 2, 4  # CUlaunchAttributeID
_DYNAMIC_SHARED, _ANY_CLUSTER = 8, 14  # CUfunction_attribute
_MOST_PORTABLE = 8  # blocks of a cluster that every device allows


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


class Trainer:
    """The best plan for a shape that this device can launch. Raises Unsupported, with every reason."""

    def __init__(self, shape: Shape, root: Path) -> None:
        device = cupy.cuda.Device()
        capability = device.compute_capability
        limits = Limits(
            device.attributes["MultiProcessorCount"],
            device.attributes["MaxSharedMemoryPerBlockOptin"],
            (int(capability[:-1]), int(capability[-1])),
        )
        reasons: list[str] = []
        found: list[_Launcher] = []
        for plan in plans(shape, limits):
            if isinstance(plan, str):
                reasons.append(plan)
                continue
            launcher = _Launcher(plan, limits, root)
            if launcher.reason:
                reasons.append(launcher.reason)
                continue
            found.append(launcher)
            if shape.members == 1:
                break
        if not found:
            raise Unsupported("; ".join(reasons))
        # Networks that do not fit wait for others to end: fewer blocks for each may be sooner done with all.
        best = min(found, key=lambda one: math.ceil(shape.members / one.held) * one.plan.cost)
        held = f", at most {best.held} networks at the same time" if shape.members > 1 else ""
        self.words = "; ".join([best.plan.words + held, *reasons])
        self._launch = best.launch

    def launch(self, buffers: Sequence[int], numbers: Sequence[float], stream: int) -> None:
        """All epochs: ``numbers`` as of the op ``train``."""
        rows, _, epochs, _, rate, max_norm, *_ = numbers
        values: list[Any] = [ctypes.c_void_p(buffer) for buffer in buffers]
        values += [ctypes.c_int(int(rows)), ctypes.c_int(int(epochs))]
        values += [ctypes.c_float(rate), ctypes.c_float(max_norm)]
        self._launch(values, stream)


class _Launcher:
    """A plan, compiled. ``held``: networks that the device trains at the same time; ``reason``: why none."""

    def __init__(self, plan: Plan, limits: Limits, root: Path) -> None:
        self.plan, self.held, self.reason = plan, 0, ""
        options = tuple(f"-D{name}={value}" for name, value in plan.defines)
        source = kernel_source.text(root / plan.source)
        self._module = cupy.RawModule(code=source, options=("-std=c++17", *options), backend="nvrtc")
        self._function = self._module.get_function("train_persistent")  # holds the module, too
        self._pointer = ctypes.c_void_p(self._function.kernel.ptr)
        constant = cupy.ndarray(1, dtype=cupy.int32, memptr=self._module.get_global("shared_bytes"))
        self._shared_bytes = int(constant.get()[0])
        if self._shared_bytes > limits.shared_bytes:
            self.reason = (
                f"not {plan.words}: a block would need {self._shared_bytes} bytes of shared memory, "
                f"the device has {limits.shared_bytes}"
            )
            return
        self._set(_DYNAMIC_SHARED, self._shared_bytes)
        if plan.cluster > _MOST_PORTABLE:
            self._set(_ANY_CLUSTER, 1)
        self.held = self._held_clusters() if plan.cluster else self._held_grids(limits.multiprocessors)
        if not self.held:
            self.reason = f"not {plan.words}: the device does not hold them at the same time"

    def launch(self, values: list[Any], stream: int) -> None:
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        config = self._config(stream)
        status = _driver.cuLaunchKernelEx(ctypes.byref(config), self._pointer, arguments, None)
        _check(status, "cuLaunchKernelEx")

    def _held_clusters(self) -> int:
        found, config = ctypes.c_int(0), self._config(0)
        status = _driver.cuOccupancyMaxActiveClusters(
            ctypes.byref(found), self._pointer, ctypes.byref(config)
        )
        return found.value // self.plan.clusters if status == 0 else 0

    def _held_grids(self, multiprocessors: int) -> int:
        found = ctypes.c_int(0)
        status = _driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(found), self._pointer, self.plan.threads, ctypes.c_size_t(self._shared_bytes)
        )
        _check(status, "cuOccupancyMaxActiveBlocksPerMultiprocessor")
        return int(found.value * multiprocessors >= self.plan.blocks)

    def _config(self, stream: int) -> _Config:
        attribute = _Attribute(id=_CLUSTER if self.plan.cluster else _COOPERATIVE)
        if self.plan.cluster:
            attribute.value.sizes[:] = [self.plan.cluster, 1, 1]
        else:
            attribute.value.flag = 1
        config = _Config(shared_bytes=self._shared_bytes, stream=stream, count=1)
        config.grid[:], config.block[:] = [self.plan.blocks, 1, 1], [self.plan.threads, 1, 1]
        config.attributes = ctypes.pointer(attribute)
        return config

    def _set(self, attribute: int, value: int) -> None:
        _check(_driver.cuFuncSetAttribute(self._pointer, attribute, value), "cuFuncSetAttribute")


def _check(status: int, call: str) -> None:
    if status:
        raise RuntimeError(f"{call} failed with CUDA error {status}")
