"""Find the device to run on without loading CuPy, or explain why it cannot be used."""

import hashlib
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pynvml

from snn.errors import DeviceError

BACKENDS = ("auto", "cuda", "cpu")

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable of the environment that says which GPUs a process may see, by number or UUID."""

LEAST, LEAST_OF_CUDA_13 = (7, 0), (7, 5)
"""The least compute capability for the kernels (waits with ``.acq_rel``), and that CUDA 13 supports."""


@dataclass(frozen=True)
class Device:
    """A device as records name it; ``uuid`` and ``driver`` are None for the CPU."""

    backend: str
    name: str
    uuid: str | None = None
    driver: str | None = None

    @property
    def slug(self) -> str:
        """The device's name in paths, as ``nvidia-h200`` or ``cpu-amd-epyc``.

        A name of which other letters than those of ASCII are lost, or everything, ends with its digest.
        """
        words = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        of_cpu = "" if self.backend == "cuda" else "cpu"
        is_whole = words and self.name.isascii()
        digest = "" if is_whole else hashlib.sha256(self.name.encode()).hexdigest()[:8]
        return "-".join(filter(None, (of_cpu, words, digest)))


def find(backend: str = "auto") -> Device:
    """The device that ``auto``, ``cuda`` or ``cpu`` means on this machine.

    Raises DeviceError if ``cuda`` is requested but cannot be used: no driver, a driver that is too
    old, no GPU, or no CuPy.
    """
    return choices(backend)[0]


def choices(backend: str, name: str | None = None) -> list[Device]:
    """The devices of this machine that ``auto``, ``cuda`` or ``cpu`` may mean, all of one name.

    Of the GPUs that this process may see, they are those with the name of the first, or with the name that is
    given, in the order of CUDA. Raises DeviceError as ``find`` does, and, with both names, where no device
    has the name.
    """
    if backend not in BACKENDS:
        raise DeviceError(f"device is {backend!r}: it must be one of {', '.join(BACKENDS)}")
    found = [Device("cpu", _cpu_name())]
    if backend != "cpu":
        try:
            found = _visible_gpus()
        except DeviceError as error:
            if backend == "cuda" and name:
                raise DeviceError(f"{_other(name, found)} ({error})") from error
            if backend == "cuda":
                raise
    named = [device for device in found if device.name == (name or found[0].name)]
    if not named:
        raise DeviceError(_other(str(name), found))
    return named


def _other(planned: str, found: list[Device]) -> str:
    """What is wrong where a job was planned for another device than those that there are."""
    here = " and ".join(dict.fromkeys(repr(device.name) for device in found))
    return (
        f"device.name is {planned!r}, but this machine has {here}: run this job on a machine that has the "
        "planned one, or the workflow again, so that it is planned for this one"
    )


def gpus_here() -> list[Device]:
    """The GPUs of this machine that this process may see; empty where none can be used."""
    try:
        return _visible_gpus()
    except DeviceError:
        return []


@contextmanager
def nvml_open(backend: str) -> Iterator[None]:
    """A context in which NVML stays open, unless the backend is ``cpu``: it is opened again and again there.

    The driver takes its time to open it first.
    """
    opened = False
    if backend != "cpu":
        with suppress(pynvml.NVMLError):
            pynvml.nvmlInit()
            opened = True
    try:
        yield
    finally:
        if opened:
            pynvml.nvmlShutdown()


def _visible_gpus() -> list[Device]:
    """The GPUs that this process may see and use, in the order of CUDA: at least one."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(
            f"device=cuda, but no NVIDIA driver was found ({error}): install one, or use device=cpu"
        ) from error
    try:
        handles = _visible()
        supported = pynvml.nvmlSystemGetCudaDriverVersion() // 1000
        driver = pynvml.nvmlSystemGetDriverVersion()
        cuda = _cuda_of_cupy(supported, driver)
        refused = [_why_not(handle, cuda) for handle in handles]
        usable = [handle for handle, why_not in zip(handles, refused, strict=True) if not why_not]
        if not usable:
            newest = max(range(len(handles)), key=lambda number: _capability(handles[number]) or LEAST)
            raise DeviceError(f"device=cuda, but {refused[newest]}, or use device=cpu")
        return [
            Device("cuda", pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle), driver)
            for handle in usable
        ]
    except pynvml.NVMLError as error:
        raise DeviceError(f"device=cuda, but the GPU does not respond ({error}): use device=cpu") from error
    finally:
        pynvml.nvmlShutdown()


def free_bytes(device: Device) -> int:
    """The bytes of a GPU's memory that no process holds."""
    pynvml.nvmlInit()
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(device.uuid)).free
    finally:
        pynvml.nvmlShutdown()


def _visible() -> list[Any]:
    """The NVML handles of the GPUs that CUDA will number from 0, in PCI bus order.

    As CUDA does, it ignores what follows an entry of CUDA_VISIBLE_DEVICES that is no GPU.
    """
    count = pynvml.nvmlDeviceGetCount()
    if count == 0:
        raise DeviceError("device=cuda, but the driver finds no GPU: use device=cpu")
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
        raise DeviceError(
            f"device=cuda, but CUDA_VISIBLE_DEVICES={visible!r} selects none of the {count} GPUs: "
            "unset it, or use device=cpu"
        )
    return handles


def _of_uuid(entry: str, count: int) -> Any:
    """The handle of a UUID, of which the beginning is enough if only one GPU has it."""
    try:
        return pynvml.nvmlDeviceGetHandleByUUID(entry)
    except pynvml.NVMLError:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        found = [one for one in handles if pynvml.nvmlDeviceGetUUID(one).startswith(entry)]
        if len(found) != 1:
            raise
        return found[0]


def _cuda_of_cupy(supported: int, driver: str) -> int | None:
    """The version of CUDA that the installed CuPy is built for; None if its package does not say it.

    Raises DeviceError if CuPy is missing, or built for a newer CUDA than the driver supports.
    """
    if find_spec("cupy") is None:
        raise DeviceError("device=cuda, but CuPy is not installed: run `make env`, or use device=cpu")
    for major in (13, 12):
        try:
            metadata.version(f"cupy-cuda{major}x")
        except metadata.PackageNotFoundError:
            continue
        if major > supported:
            raise DeviceError(
                f"device=cuda, but driver {driver} is too old: it supports CUDA {supported}, and the "
                f"installed CuPy needs CUDA {major}. Update the driver, run `make env` again, or use "
                "device=cpu"
            )
        return major
    return None


def _why_not(handle: Any, cuda: int | None) -> str:
    """Why a GPU cannot be used with a CuPy for this version of CUDA, and what to do; else empty."""
    capability = _capability(handle)
    if capability is None:
        return ""
    has = f"{pynvml.nvmlDeviceGetName(handle)} has compute capability {capability[0]}.{capability[1]}"
    if capability < LEAST:
        return f"{has}, and the kernels need {LEAST[0]}.{LEAST[1]} or newer: use another GPU"
    if cuda == 13 and capability < LEAST_OF_CUDA_13:
        return (
            f"{has}, which the CUDA 13 of the installed CuPy does not support: run `make env` again, or "
            "make a new environment with envs/requirements-cuda12.txt"
        )
    return ""


def _capability(handle: Any) -> tuple[int, ...] | None:
    """The compute capability of a GPU; None of a part of one (MIG), for which it is at least 8.0."""
    try:
        return tuple(pynvml.nvmlDeviceGetCudaComputeCapability(handle))
    except pynvml.NVMLError:
        return None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_processors() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
