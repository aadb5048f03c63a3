"""Find the device to run on without loading CuPy, or explain why it cannot be used."""

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pynvml

from snn.errors import DeviceError
from snn.files.outputs import note
from snn.files.project import IS_INSTALLED
from snn.hardware import driver
from snn.hardware.driver import LEAST, LEAST_OF_CUDA_13

BACKENDS = ("auto", "cuda", "cpu")

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The environment variable that lists the GPUs that a process may see, by number or UUID."""

_LEAST_OF_MEMORY = 0.6  # least share of a GPU's memory that CUDA reports; for a part (MIG) it is half or less
_MEMORY_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Linux' files with a container's memory limit, for cgroup v2 and v1."""

_DRIVER_SECONDS = 60  # longest start of a driver: a broken one may never return


@dataclass(frozen=True)
class Device:
    """A device as records name it; ``uuid`` and ``driver`` are None for the CPU."""

    backend: str
    name: str
    uuid: str | None = None
    driver: str | None = None

    @property
    def slug(self) -> str:
        """The device's name in paths, such as ``nvidia-h200`` or ``cpu-amd-epyc``. It ends with a digest if
        letters beyond ASCII are lost, or nothing is left."""
        words = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        of_cpu = "" if self.backend == "cuda" else "cpu"
        is_whole = words and self.name.isascii()
        digest = "" if is_whole else hashlib.sha256(self.name.encode()).hexdigest()[:8]
        return "-".join(filter(None, (of_cpu, words, digest)))


_INSTALL = "install snn with its extra cuda13 or cuda12" if IS_INSTALLED else "run `make env`"


class _NoGpuError(Exception):
    """No GPU can be used. ``is_here``: the machine has one, or at least its driver."""

    def __init__(self, reason: str, remedy: str = "", is_here: bool = True) -> None:
        super().__init__(f"{reason}: {remedy}" if remedy else reason)
        self.is_here = is_here
        self.of_cuda = f"device=cuda, but {reason}: {remedy}{', or ' if remedy else ''}use device=cpu"


def find(backend: str = "auto") -> Device:
    """The device for ``auto``, ``cuda`` or ``cpu`` on this machine. Raises DeviceError, with the reason, if
    ``cuda`` is requested but cannot be used."""
    return choices(backend)[0]


def say_unused_gpu(asked: str | None, device: Device) -> None:
    """Print why ``auto`` chose the CPU if the machine has a GPU or a driver."""
    if asked == "auto" and device.backend == "cpu" and (reason := why_unused()):
        note(f"the GPU is not used: {reason}")


def why_unused() -> str:
    """The reason why no GPU can be used; empty if one can, or without any GPU and driver."""
    try:
        _visible_gpus(starts_driver=True)
    except _NoGpuError as error:
        return str(error) if error.is_here else ""
    return ""


def choices(backend: str, name: str | None = None) -> list[Device]:
    """The candidate devices of this machine for ``auto``, ``cuda`` or ``cpu``, in CUDA's order.

    All have the given name, or the name of the first GPU that this process may see. Raises DeviceError as
    ``find`` does, and if no device has the name.
    """
    if backend not in BACKENDS:
        raise DeviceError(f"device is {backend!r}: it must be one of {', '.join(BACKENDS)}")
    found, unusable = [Device("cpu", _cpu_name())], ""
    if backend != "cpu":
        try:
            # A job planned for a device does not wait for the driver twice.
            found = _visible_gpus(starts_driver=name is None)
        except _NoGpuError as error:
            if backend == "cuda" and name is None:
                raise DeviceError(error.of_cuda) from error
            unusable = f" ({error.of_cuda})" if backend == "cuda" else ""
    named = [device for device in found if device.name == (name or found[0].name)]
    if unusable or not named:
        here = " and ".join(dict.fromkeys(repr(device.name) for device in found))
        raise DeviceError(
            f"device.name is {name!r}, but this machine has {here}: run this job on a machine that has the "
            f"planned one, or the workflow again, so that it is planned for this one{unusable}"
        )
    return named


def gpus_here() -> list[Device]:
    """The GPUs of this machine that this process may see; empty if none can be used."""
    try:
        return _visible_gpus(starts_driver=False)
    except _NoGpuError:
        return []


@contextmanager
def nvml_open(backend: str) -> Iterator[None]:
    """A context in which NVML stays open, unless the backend is ``cpu``. Code inside opens it repeatedly, and
    only the first time is slow."""
    with ExitStack() as open_meanwhile:
        if backend != "cpu":
            with suppress(pynvml.NVMLError):
                pynvml.nvmlInit()
                open_meanwhile.callback(pynvml.nvmlShutdown)
        yield


@contextmanager
def open_gpu(uuid: str) -> Iterator[Any]:
    """NVML's handle of a GPU. Raises pynvml.NVMLError."""
    pynvml.nvmlInit()
    try:
        yield pynvml.nvmlDeviceGetHandleByUUID(uuid)
    finally:
        pynvml.nvmlShutdown()


def _visible_gpus(starts_driver: bool) -> list[Device]:
    """The GPUs that this process may see and use, at least one, in CUDA's order. Raises _NoGpuError.
    ``starts_driver`` also starts CUDA in another process, which takes some tenths of a second."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if isinstance(error, pynvml.NVMLError_LibraryNotFound):
            problem = _NoGpuError(f"no NVIDIA driver was found ({error})", "install one", is_here=False)
        else:
            remedy = "restart the machine, or reinstall the driver"
            problem = _NoGpuError(f"the NVIDIA driver does not work ({error})", remedy)
        raise problem from error
    try:
        handles = _visible()
        supported = pynvml.nvmlSystemGetCudaDriverVersion() // 1000
        version = pynvml.nvmlSystemGetDriverVersion()
        cuda = _cuda_of_cupy(supported, version)
        unusable = {i: why for i, handle in enumerate(handles) if (why := _why_not(handle, cuda))}
        if len(unusable) == len(handles):
            raise unusable[max(unusable, key=lambda i: _capability(handles[i]) or LEAST)]
        if starts_driver and (failure := _failure_of_driver()):
            raise _NoGpuError(failure)
        usable = [handle for i, handle in enumerate(handles) if i not in unusable]
        return [Device("cuda", _name(one), pynvml.nvmlDeviceGetUUID(one), version) for one in usable]
    except pynvml.NVMLError as error:
        raise _NoGpuError(f"the GPU does not respond ({error})") from error
    finally:
        pynvml.nvmlShutdown()


@cache
def _failure_of_driver() -> str:
    """The reason why CUDA does not start although NVML knows the GPU; else empty."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", driver.__file__],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_DRIVER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"the driver does not answer cuInit in {_DRIVER_SECONDS} s: restart the machine"
    if done.returncode:
        return f"the driver ends the process that calls cuInit, with status {done.returncode}"
    return done.stdout.strip()


def free_bytes(device: Device) -> int:
    with open_gpu(str(device.uuid)) as gpu:
        return pynvml.nvmlDeviceGetMemoryInfo(gpu).free


def _visible() -> list[Any]:
    """The NVML handles of the GPUs that CUDA will number from 0, in PCI bus order.

    As CUDA does, it ignores the rest of CUDA_VISIBLE_DEVICES after an invalid entry, and takes the first part
    of a GPU that is divided into parts (MIG).
    """
    count = pynvml.nvmlDeviceGetCount()
    if count == 0:
        raise _NoGpuError("the driver finds no GPU", is_here=False)
    visible = os.environ.get(VISIBLE)
    entries = map(str, range(count)) if visible is None else map(str.strip, visible.split(","))
    handles: list[Any] = []
    for entry in entries:
        try:
            if entry.startswith(("GPU-", "MIG-")):
                handles.append(_of_uuid(entry, count))
            elif entry.isdigit() and int(entry) < count:
                handles.append(pynvml.nvmlDeviceGetHandleByIndex(int(entry)))
            else:
                break
        except pynvml.NVMLError:
            if not handles:
                raise
            break
    if not handles:
        raise _NoGpuError(f"{VISIBLE}={visible!r} selects none of the {count} GPUs", "unset it")
    parts = [part for handle in handles if (part := _part(handle)) is not None]
    if not parts:
        remedy = "create a compute instance, or leave the mode"
        raise _NoGpuError(f"{_name(handles[0])} is in MIG mode and has no part", remedy)
    return parts


def _part(handle: Any) -> Any:
    """The handle itself, or for a GPU in MIG mode the handle of its first part; None if it has no part."""
    try:
        if pynvml.nvmlDeviceGetMigMode(handle)[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
            return handle
        count = pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)
    except pynvml.NVMLError:  # unsupported on parts, and on GPUs that cannot be divided
        return handle
    for number in range(count):
        with suppress(pynvml.NVMLError):
            return pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)
    return None


def is_part(handle: Any) -> bool:
    try:
        return bool(pynvml.nvmlDeviceIsMigDeviceHandle(handle))
    except pynvml.NVMLError:
        return False


def _name(handle: Any) -> str:
    """The name of a GPU; a part's name includes its profile: ``NVIDIA H100 80GB HBM3 MIG 1g.10gb``."""
    name: str = pynvml.nvmlDeviceGetName(handle)
    if not is_part(handle) or " MIG " in name:
        return name
    of_part = pynvml.nvmlDeviceGetAttributes(handle)
    return f"{name} MIG {of_part.gpuInstanceSliceCount}g.{round(of_part.memorySizeMB / 1024)}gb"


def check_cuda(device: Device) -> None:
    """Raise DeviceError if CUDA uses another device in this process than NVML describes: a part of the GPU
    (MIG), with less memory and fewer SMs, or another GPU."""
    if device.uuid is None or "/" in device.uuid:  # before driver 470, a part's name contains its GPU's name
        return
    try:
        seen = driver.first_device()
    except OSError:  # no driver, so no CUDA
        return
    except driver.DriverError as error:
        raise DeviceError(f"{device.name} cannot be used: {error}") from error
    nbytes = None  # NVML does not report it if GPU and host share their memory
    with suppress(pynvml.NVMLError), open_gpu(device.uuid) as gpu:
        nbytes = int(pynvml.nvmlDeviceGetMemoryInfo(gpu).total)
    is_whole = seen.memory_bytes >= _LEAST_OF_MEMORY * (nbytes or 0)
    if device.uuid.partition("-")[2].lower() != seen.uuid or not is_whole:
        raise DeviceError(
            f"CUDA uses a device with the UUID {seen.uuid} and {seen.memory_bytes} bytes, but the driver "
            f"describes {device.name} as {device.uuid} with {nbytes} bytes: set {VISIBLE} to the UUID of one "
            "device or part, as `nvidia-smi -L` lists them"
        )


def _of_uuid(entry: str, count: int) -> Any:
    """The handle of a UUID; its beginning suffices if only one GPU matches."""
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(entry)
    except pynvml.NVMLError:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        found = [one for one in handles if pynvml.nvmlDeviceGetUUID(one).startswith(entry)]
        if len(found) != 1:
            raise
        return found[0]


def _cuda_of_cupy(supported: int, version: str) -> int | None:
    """The CUDA version that the installed CuPy is built for; None if its package does not state it. Raises
    _NoGpuError if CuPy is missing, or built for a newer CUDA than the driver supports."""
    if find_spec("cupy") is None:
        raise _NoGpuError("CuPy is not installed", _INSTALL)
    for major in (13, 12):
        try:
            metadata.version(f"cupy-cuda{major}x")
        except metadata.PackageNotFoundError:
            continue
        if major > supported:
            raise _NoGpuError(
                f"driver {version} is too old: it supports CUDA {supported}, and the installed CuPy needs "
                f"CUDA {major}",
                f"update the driver, {_INSTALL} again",
            )
        return major
    return None


def _why_not(handle: Any, cuda: int | None) -> _NoGpuError | None:
    """The reason why a GPU cannot be used with a CuPy for this version of CUDA; None if it can."""
    capability = _capability(handle)
    if capability is None:
        return None
    has = f"{pynvml.nvmlDeviceGetName(handle)} has compute capability {capability[0]}.{capability[1]}"
    if capability < LEAST:
        return _NoGpuError(f"{has}, and the kernels need {LEAST[0]}.{LEAST[1]} or newer", "use another GPU")
    if cuda == 13 and capability < LEAST_OF_CUDA_13:
        return _NoGpuError(
            f"{has}, which the CUDA 13 of the installed CuPy does not support",
            f"{_INSTALL} again, or make a new environment for CUDA 12",
        )
    return None


def _capability(handle: Any) -> tuple[int, ...] | None:
    """The compute capability of a GPU; None for a part of one (MIG), which has at least 8.0."""
    try:
        return tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    except pynvml.NVMLError:
        return None


def _cpu_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def usable_bytes() -> int:
    """Bytes of the machine's memory, or of the container's limit."""
    found = [machine_bytes()]
    for path in _MEMORY_LIMITS:
        with suppress(OSError):
            text = Path(path).read_text(encoding="ascii").strip()
            found += [int(text)] if text.isdecimal() else []
    return min(found)


def machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def usable_processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
