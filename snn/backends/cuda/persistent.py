"""Compiles and launches the kernels that train many steps per launch."""

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
from snn.backends.launches import (
    DeviceCapability,
    LaunchConfiguration,
    Steps,
    TrainingLaunch,
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
    """The best launch for a shape on this device. Raises Unsupported, with every reason."""

    def __init__(self, shape: TrainingShape, root: Path) -> None:
        device = device_capability()
        reasons: list[str] = []
        launchers: list[_Launcher] = []
        for launch in shape.configurations(device):
            if isinstance(launch, str):
                reasons.append(launch)
                continue
            try:
                launchers.append(_Launcher(launch, device, root))
            except Unsupported as error:
                reasons.append(f"not {launch.words}: {error}")
                continue
            if shape.members == 1:
                break
        if not launchers:
            raise Unsupported("; ".join(reasons))
        # Networks that do not fit wait for others, so fewer blocks per network may finish all of them sooner.
        best = min(launchers, key=lambda it: it.cost(shape.members))
        together = best.held if shape.members > 1 else None
        held = f", at most {best.held} networks at the same time" if together else ""
        words = "; ".join([best.configuration.words + held, *reasons])
        self.launch = TrainingLaunch(words, best.configuration, together)
        self._best, self._shape = best, shape

    def train(self, buffers: Sequence[int], steps: Steps, stream: int) -> None:
        """Train many steps in one launch."""
        shape = self._shape
        checked("rows + batch", steps.rows + shape.batch)  # kernels compute these sums
        checked("steps + 1", steps.number + 1)
        pointers = map(ctypes.c_void_p, buffers)
        numbers = (
            ctypes.c_float(n) if isinstance(n, float) else ctypes.c_int(n) for n in shape.arguments(steps)
        )
        sizes = dict(zip(shape.operands, shape.elements(steps.rows), strict=True))
        self._best.check_workspace(shape.op, sizes["S"])
        self._best.launch([*pointers, *numbers], stream)

    @cached_property
    def steps_per_launch(self) -> int:
        """The number of steps per launch, from the time of a few steps on zeros."""
        rows, clip = self._shape.timed_rows, float(self._shape.clipped)
        with _zeros(self._shape.elements(rows)) as buffers:

            def timed(steps: int) -> float:
                started = time.perf_counter()
                self.train(buffers, Steps(rows, 0, steps, 0.0, clip), 0)
                runtime.streamSynchronize(0)
                return time.perf_counter() - started

            return steps_within(longest_launch(), timed)


def longest_launch() -> float:
    """The largest duration of a launch on this device, in seconds."""
    return launch_seconds(bool(cupy.cuda.Device().attributes["KernelExecTimeout"]))


@contextmanager
def _zeros(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Zeroed device memory of these numbers of float32 elements. Raises OutOfMemory."""
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
    """Compile the first launch of each training run in parallel, before its trainer needs it.

    A run may offer several shapes, the preferred one first. A compilation that fails will fail again when the
    shape is trained, which reports it.
    """
    device = device_capability()
    with ThreadPoolExecutor(usable_processors()) as pool:
        for shapes in trainings:
            launches = (one for shape in shapes for one in shape.configurations(device))
            first = next((one for one in launches if isinstance(one, LaunchConfiguration)), None)
            if first:
                pool.submit(_module, first, root)


def device_capability() -> DeviceCapability:
    """The capability of the current device."""
    device = cupy.cuda.Device()
    capability = device.compute_capability
    return DeviceCapability(
        device.attributes["MultiProcessorCount"],
        device.attributes["MaxSharedMemoryPerBlockOptin"],
        (int(capability[:-1]), int(capability[-1])),
    )


def _module(one: LaunchConfiguration, root: Path) -> cupy.RawModule:
    options = tuple(f"-D{name}={value}" for name, value in one.defines)
    return modules.load(kernel_source.text(root / one.source), options)


class _Launcher:
    """A compiled launch. ``held``: networks that the device trains at the same time.

    Raises Unsupported if the device does not hold a network's blocks at the same time.
    """

    def __init__(self, one: LaunchConfiguration, device: DeviceCapability, root: Path) -> None:
        self.configuration = one
        module = _module(one, root)
        try:
            self._workspace = modules.constant(module, "workspace_floats")
        except driver.CUDADriverError as error:
            raise failure(error.status, "cuModuleLoadData") from error
        if _report() is not None:
            address = ctypes.c_uint64(ctypes.addressof(_report()))
            pointer = module.get_global("wait_report").ptr
            runtime.memcpy(pointer, ctypes.addressof(address), 8, runtime.memcpyHostToDevice)
        independent = one.cluster == 1 and device.capability < (9, 0)  # which has no clusters
        self.launch = CooperativeLaunch(
            module.get_function("train_persistent"),
            checked("blocks", one.blocks),
            one.threads,
            0 if independent else one.cluster,
            modules.constant(module, "shared_bytes"),
            together=one.clusters > 1,
            independent=independent,
        )
        if independent:
            self.held = self.launch.held_blocks() * device.multiprocessors
        elif one.cluster:
            self.held = self.launch.held_clusters() // one.clusters
        else:
            self.held = int(self.launch.held_blocks() * device.multiprocessors >= one.blocks)
        if not self.held:
            raise Unsupported("the device does not hold them at the same time")

    def check_workspace(self, op: str, allocated: int) -> None:
        """Raise RuntimeError if the kernel uses more than ``allocated`` floats of workspace."""
        if self._workspace > allocated:
            raise RuntimeError(
                f"{op}: the kernel needs {self._workspace} floats of workspace, {allocated} are allocated"
            )

    def cost(self, members: int) -> float:
        """The cost of a step of all members, relative to other launches."""
        return self.configuration.total_cost(members, self.held, self.launch.held_blocks())


@cache
def _report() -> Any:
    """Two words that a block writes when it gives up waiting; None if the system cannot pin a page for them.

    They are in host memory, because device memory cannot be read afterwards. All kernels of the process share
    them, and they are never freed: after the first report the process launches nothing more.
    """
    try:
        address = runtime.hostAlloc(16, _PORTABLE | _MAPPED)
    except runtime.CUDARuntimeError:
        return None
    report = (ctypes.c_uint64 * 2).from_address(address)
    report[:] = [0, 0]
    return report


def naming_waits(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a call so that it raises LaunchError if it fails because a block gave up waiting."""

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
