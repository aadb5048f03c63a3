"""Whole trainings in one launch: the best launch plan for a shape on this device, compiled."""

import ctypes
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import driver

from snn.backends import kernel_source
from snn.backends.cuda import modules
from snn.backends.cuda.cooperative import CooperativeLaunch, failure
from snn.backends.ops import OPS
from snn.backends.persistent_plans import DeviceCapability, LaunchPlan
from snn.backends.trainings import TrainingShape
from snn.errors import Unsupported
from snn.hardware.devices import usable_processors


class Trainer:
    """The best plan for a shape that this device can launch. Raises Unsupported, with every reason."""

    def __init__(self, shape: TrainingShape, root: Path) -> None:
        limits = _limits()
        reasons: list[str] = []
        launchers: list[_Launcher] = []
        for plan in shape.plans(limits):
            if isinstance(plan, str):
                reasons.append(plan)
                continue
            try:
                launcher = _Launcher(plan, limits, root)
            except Unsupported as error:
                reasons.append(f"{plan.refused}: {error}")
                continue
            if launcher.reason:
                reasons.append(launcher.reason)
                continue
            launchers.append(launcher)
            if shape.members == 1:
                break
        if not launchers:
            raise Unsupported("; ".join(reasons))
        # Networks that do not fit wait for others: with fewer blocks for each, all may be done sooner.
        best = min(launchers, key=lambda it: it.cost(shape.members))
        held = f", at most {best.held} networks at the same time" if shape.members > 1 else ""
        self.words = "; ".join([best.plan.words + held, *reasons])
        self._launch = best.launch

    def launch(self, op: str, buffers: Sequence[int], numbers: Sequence[float], stream: int) -> None:
        """Train all epochs: a training op of ``snn.backends.ops``."""
        named = dict(zip(OPS[op].numbers, numbers, strict=False))
        values: list[Any] = [ctypes.c_void_p(buffer) for buffer in buffers]
        values += [ctypes.c_int(int(named[name])) for name in ("rows", "epochs")]
        values += [ctypes.c_float(named[name]) for name in OPS[op].reals]
        self._launch(values, stream)


def compile_ahead(trainings: Iterable[Sequence[TrainingShape]], root: Path) -> None:
    """Compile the first plan of each training, on all processors at once: its trainer finds it compiled.

    A training may be of several shapes, the one to be preferred first.

    A compilation that fails does so again when the shape is trained.
    """
    limits = _limits()
    plans = (
        next((one for it in shapes for one in it.plans(limits) if isinstance(one, LaunchPlan)), None)
        for shapes in trainings
    )
    with ThreadPoolExecutor(usable_processors()) as pool:
        for plan in filter(None, plans):
            pool.submit(_module, plan, root)


def _limits() -> DeviceCapability:
    device = cupy.cuda.Device()
    capability = device.compute_capability
    return DeviceCapability(
        device.attributes["MultiProcessorCount"],
        device.attributes["MaxSharedMemoryPerBlockOptin"],
        (int(capability[:-1]), int(capability[-1])),
    )


def _module(plan: LaunchPlan, root: Path) -> cupy.RawModule:
    options = tuple(f"-D{name}={value}" for name, value in plan.defines)
    return modules.load(kernel_source.text(root / plan.source), options)


class _Launcher:
    """A compiled plan. ``held``: networks that the device trains simultaneously; ``reason``: why it is 0."""

    def __init__(self, plan: LaunchPlan, limits: DeviceCapability, root: Path) -> None:
        self.plan, self.held, self.reason = plan, 0, ""
        module = _module(plan, root)
        try:
            constant = cupy.ndarray(1, dtype=cupy.int32, memptr=module.get_global("shared_bytes"))
        except driver.CUDADriverError as error:
            raise failure(error.status, "cuModuleLoadData") from error
        shared_bytes = int(constant.get()[0])
        if shared_bytes > limits.shared_bytes:
            self.reason = plan.too_large(shared_bytes, limits)
            return
        function = module.get_function("train_persistent")
        self.launch = CooperativeLaunch(function, plan.blocks, plan.threads, plan.cluster, shared_bytes)
        if plan.cluster:
            self.held = self.launch.held_clusters() // plan.clusters
        else:
            self.held = int(self.launch.held_blocks() * limits.multiprocessors >= plan.blocks)
        if not self.held:
            self.reason = f"{plan.refused}: the device does not hold them at the same time"

    def cost(self, members: int) -> float:
        """Of a step of all members, relative to other plans."""
        return self.plan.total_cost(members, self.held, self.launch.held_blocks())
