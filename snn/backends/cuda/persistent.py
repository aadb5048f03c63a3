"""Compile and launch the kernels that train for many steps per launch."""

import ctypes
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import Any

import cupy
from cupy.cuda import driver, runtime

from snn.backends import kernel_source
from snn.backends.cuda import modules
from snn.backends.cuda.cooperative import CooperativeLaunch, failure
from snn.backends.ops import OPS
from snn.backends.persistent_plans import DeviceCapability, LaunchPlan
from snn.backends.trainings import (
    TrainingShape,
    checked,
    error_of_wait,
    launch_seconds,
    steps_within,
)
from snn.errors import LaunchError, Unsupported, out_of_memory
from snn.hardware.devices import usable_processors

_PORTABLE, _MAPPED = 1, 2  # flags of cudaHostAlloc


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
        self._best, self._shape, self.may_stop = best, shape, best.plan.may_stop

    def launch(self, op: str, buffers: Sequence[int], numbers: Sequence[float], stream: int) -> None:
        """Train many steps: a training op of ``snn.backends.ops``."""
        named = dict(zip(OPS[op].numbers, numbers, strict=False))
        checked("rows + batch", int(named["rows"] + named["batch"]))  # sums that kernels compute
        checked("steps + 1", int(named["steps"] + 1))
        rows, first, steps = (int(named[name]) for name in ("rows", "first", "steps"))
        pointers = [ctypes.c_void_p(buffer) for buffer in buffers]
        reals = [ctypes.c_float(named[name]) for name in OPS[op].reals]

        self._best.check_workspace(op, OPS[op].elements(*numbers)[-1])
        self._best.launch([*pointers, *map(ctypes.c_int, (rows, first, steps)), *reals], stream)

    @cached_property
    def steps_per_launch(self) -> int:
        """How many steps a launch may train, by the time that a few take on a batch of zeros."""
        op, batch, clip = self._shape.op, self._shape.batch, float(self._shape.clipped)
        sizes = OPS[op].elements(*self._shape.numbers(batch, 0, 1, 0.0, clip))
        with _zeros(sizes) as buffers:

            def timed(steps: int) -> float:
                started = time.perf_counter()
                self.launch(op, buffers, self._shape.numbers(batch, 0, steps, 0.0, clip), 0)
                runtime.streamSynchronize(0)
                return time.perf_counter() - started

            return steps_within(longest_launch(), timed)


def longest_launch() -> float:
    """How long a launch may take on this device, in seconds."""
    return launch_seconds(bool(cupy.cuda.Device().attributes["KernelExecTimeout"]))


@contextmanager
def _zeros(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Device memory of so many float32 each, all zero. Raises OutOfMemory."""
    buffers: list[int] = []
    try:
        for elements in sizes:
            try:
                buffers.append(runtime.malloc(4 * elements))
            except runtime.CUDARuntimeError as error:
                raise out_of_memory("cudaMalloc", 4 * elements, *runtime.memGetInfo()) from error
            runtime.memset(buffers[-1], 0, 4 * elements)
        yield buffers
    finally:
        for buffer in buffers:
            runtime.free(buffer)


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
            shared_bytes = _constant(module, "shared_bytes")
        except driver.CUDADriverError as error:
            raise failure(error.status, "cuModuleLoadData") from error
        self._workspace = _constant(module, "workspace_floats")
        if shared_bytes > limits.shared_bytes:
            self.reason = plan.too_large(shared_bytes, limits)
            return
        if _report() is not None:
            address = ctypes.c_uint64(ctypes.addressof(_report()))
            pointer = module.get_global("wait_report").ptr
            runtime.memcpy(pointer, ctypes.addressof(address), 8, runtime.memcpyHostToDevice)
        function = module.get_function("train_persistent")
        self.launch = CooperativeLaunch(
            function,
            checked("blocks", plan.blocks),
            plan.threads,
            plan.cluster,
            shared_bytes,
            together=plan.clusters > 1,
        )
        if plan.cluster:
            self.held = self.launch.held_clusters() // plan.clusters
        else:
            self.held = int(self.launch.held_blocks() * limits.multiprocessors >= plan.blocks)
        if not self.held:
            self.reason = f"{plan.refused}: the device does not hold them at the same time"

    def check_workspace(self, op: str, allocated: int) -> None:
        """Raise RuntimeError if so many floats of workspace are fewer than the kernel uses."""
        if self._workspace > allocated:
            raise RuntimeError(
                f"{op}: the kernel needs {self._workspace} floats of workspace, {allocated} are allocated"
            )

    def cost(self, members: int) -> float:
        """Of a step of all members, relative to other plans."""
        return self.plan.total_cost(members, self.held, self.launch.held_blocks())


def _constant(module: cupy.RawModule, name: str) -> int:
    return int(cupy.ndarray(1, dtype=cupy.int32, memptr=module.get_global(name)).get()[0])


@cache
def _report() -> Any:
    """Two words that a block writes when it gives up waiting; None if the system locks no page for them.

    In memory of the host, since nothing can be read from the device's afterwards. All kernels of the process
    share them, and they are never freed: after the first report the process launches nothing more.
    """
    try:
        address = runtime.hostAlloc(16, _PORTABLE | _MAPPED)
    except runtime.CUDARuntimeError:
        return None
    report = (ctypes.c_uint64 * 2).from_address(address)
    report[:] = [0, 0]
    return report


def naming_waits(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, which raises LaunchError if it fails because a block gave up waiting."""

    @wraps(call)
    def named(*arguments: Any, **options: Any) -> Any:
        try:
            return call(*arguments, **options)
        except Exception as error:
            report = _report()
            if report is None or not report[0]:
                raise
            raise LaunchError(f"{error_of_wait(*report)} (CUDA: {error})") from error

    return named
