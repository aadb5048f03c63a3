"""Find the device to run on without loading CuPy, or explain why it cannot be used."""

import os
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pynvml

from snn.errors import DeviceError

BACKENDS = ("auto", "cuda", "cpu")


@dataclass(frozen=True)
class Device:
    """A device as records name it; ``uuid`` and ``driver`` are None for the CPU."""

    backend: str
    name: str
    uuid: str | None = None
    driver: str | None = None

    @property
    def slug(self) -> str:
        """The device's name in paths, as ``nvidia-h200`` or ``cpu-amd-epyc``."""
        words = self.name if self.backend == "cuda" else f"cpu {self.name}"
        return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def find(backend: str = "auto") -> Device:
    """The device that ``auto``, ``cuda`` or ``cpu`` means on this machine.

    Raises DeviceError if ``cuda`` is requested but cannot be used: no driver, a driver that is too
    old, no GPU, or no CuPy.
    """
    if backend not in BACKENDS:
        raise DeviceError(f"device is {backend!r}: it must be one of {', '.join(BACKENDS)}")
    if backend == "cpu":
        return Device("cpu", _cpu_name())
    try:
        return _first_gpu()
    except DeviceError:
        if backend == "cuda":
            raise
        return Device("cpu", _cpu_name())


def _first_gpu() -> Device:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise DeviceError(
            f"device=cuda, but no NVIDIA driver was found ({error}): install one, or use device=cpu"
        ) from error
    try:
        handle = _first_visible()
        supported = pynvml.nvmlSystemGetCudaDriverVersion() // 1000
        driver = pynvml.nvmlSystemGetDriverVersion()
        _check_cupy(supported, driver)
        return Device("cuda", pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetUUID(handle), driver)
    except pynvml.NVMLError as error:
        raise DeviceError(f"device=cuda, but the GPU does not respond ({error}): use device=cpu") from error
    finally:
        pynvml.nvmlShutdown()


def _first_visible():
    """The NVML handle of the GPU that CUDA will number 0, in PCI bus order."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    first = "0" if visible is None else visible.split(",")[0].strip()
    count = pynvml.nvmlDeviceGetCount()
    if count == 0:
        raise DeviceError("device=cuda, but the driver finds no GPU: use device=cpu")
    if first.startswith(("GPU-", "MIG-")):
        return pynvml.nvmlDeviceGetHandleByUUID(first)
    if not first.isdigit() or int(first) >= count:
        raise DeviceError(
            f"device=cuda, but CUDA_VISIBLE_DEVICES={visible!r} selects none of the {count} GPUs: "
            "unset it, or use device=cpu"
        )
    return pynvml.nvmlDeviceGetHandleByIndex(int(first))


def _check_cupy(supported: int, driver: str) -> None:
    """Raise DeviceError if CuPy is missing, or built for a newer CUDA than the driver supports."""
    if find_spec("cupy") is None:
        raise DeviceError("device=cuda, but CuPy is not installed: run `make env`, or use device=cpu")
    for major in (12, 13):
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


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_processors() -> int:
    """Number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
