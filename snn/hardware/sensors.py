"""The sensors of a device: what a sample of it holds, and the limits that it is held against."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import pynvml

from snn.hardware import memory
from snn.hardware.devices import Device, usable_processors
from snn.hardware.monitor import ask, memory_info, throttled

_HWMON = Path("/sys/class/hwmon")
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
_HOTTEST = (
    pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN,
    pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX,
)


class Sensors(Protocol):
    """``read``: values by column, None where a sensor does not answer. ``limits``: what does not change."""

    def read(self) -> dict[str, Any]: ...

    def limits(self) -> dict[str, Any]: ...


@contextmanager
def of(device: Device) -> Iterator[Sensors]:
    """The sensors of a GPU, or of the host where the device is the CPU."""
    if device.uuid is None:
        host = HostSensors()
        try:
            yield host
        finally:
            host.close()
        return
    pynvml.nvmlInit()
    try:
        yield GpuSensors(pynvml.nvmlDeviceGetHandleByUUID(device.uuid))
    finally:
        pynvml.nvmlShutdown()


class GpuSensors:
    """NVML: memory in use (bytes), percent of the time in which a kernel ran, C, W, MHz, throttling."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def read(self) -> dict[str, Any]:
        handle = self._handle
        return {
            "memory_used_bytes": ask(lambda: memory_info(handle).used),
            "utilisation": ask(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu),
            "temperature_c": ask(
                lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
            ),
            "power_w": ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            "sm_mhz": ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            "throttled": ask(lambda: ", ".join(throttled(handle))),
        }

    def limits(self) -> dict[str, Any]:
        """Bytes that processes can have, the lowest temperature at which the GPU slows down, its power."""
        handle = self._handle
        hot = [ask(partial(pynvml.nvmlDeviceGetTemperatureThreshold, handle, which)) for which in _HOTTEST]
        return {
            "memory_bytes": ask(lambda: _available(handle)),
            "temperature_c": min((value for value in hot if value), default=None),
            "power_w": ask(lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        }


def _available(handle: Any) -> int:
    info = memory_info(handle)
    return int(info.total - info.reserved)


class HostSensors:
    """The system: memory in use (bytes), percent of the usable CPUs that this process keeps busy, C, load.

    Power and clocks of a CPU are not readable by a user: they are None.
    """

    def __init__(self) -> None:
        self._memory = memory.InUse()
        folder = _cpu_sensor()
        self._temperature = folder and memory.OpenFile(str(folder / "temp1_input"))
        self._slows_down = folder and folder / "temp1_crit"
        self._processors = usable_processors()
        self._last = (time.monotonic(), sum(os.times()[:4]))

    def read(self) -> dict[str, Any]:
        now, busy = time.monotonic(), sum(os.times()[:4])
        (before, had), self._last = self._last, (now, busy)
        wall = now - before
        return {
            "memory_used_bytes": self._memory.nbytes(),
            "utilisation": 100 * (busy - had) / wall / self._processors if wall > 0.1 else None,
            "temperature_c": _celsius(self._temperature.text) if self._temperature else None,
            "power_w": None,
            "sm_mhz": None,
            "throttled": None,
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        }

    def limits(self) -> dict[str, Any]:
        slows_down = self._slows_down
        return {
            "memory_bytes": memory.usable_bytes(),
            "temperature_c": _celsius(slows_down.read_text) if slows_down else None,
            "power_w": None,
        }

    def close(self) -> None:
        self._memory.close()
        if self._temperature:
            self._temperature.close()


def _cpu_sensor() -> Path | None:
    """The folder of the CPU's thermometer, or None where the system shows none."""
    for folder in sorted(_HWMON.glob("hwmon*")):
        try:
            name = (folder / "name").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if name in _CPU_SENSORS and os.access(folder / "temp1_input", os.R_OK):
            return folder
    return None


def _celsius(read: Callable[[], str]) -> float | None:
    try:
        return int(read()) / 1000
    except (OSError, ValueError):
        return None
