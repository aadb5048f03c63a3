"""The state of the machine around each run: who else works on it, its clocks, and what holds them back.

Everything is read between runs, from counters that the system keeps anyway: a timed region pays nothing.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from snn.hardware.devices import Device

_LEAST_SECONDS = 0.5
_PROC_STAT = Path("/proc/stat")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

# NVML's reasons for a clock below its maximum, those that take time away from a measurement.
_THROTTLE_REASONS = {
    "software power cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "hardware slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "software thermal slowdown": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    "hardware thermal slowdown": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "power brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}


@dataclass(frozen=True)
class CpuCounters:
    """Seconds since some moment: the clock's, all processors' at work, a hypervisor's, our own."""

    wall: float
    busy: float
    stolen: float
    own: float


class Watch:
    """Looks at the machine between the runs of a cell, twice a second at most, and at its end.

    ``readings`` holds one dict a look: ``seconds`` since the look before; ``other_cores`` and
    ``stolen_cores``, averages over these seconds in processors; on a GPU also clocks (MHz), temperature
    (C), power (W), memory in use (bytes), how many other processes compute on it, and what throttles it
    now. What a system does not tell is None.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last = _cpu_counters()
        self._looked = time.monotonic()
        self.readings: list[dict[str, Any]] = []

    def after_run(self) -> None:
        """Look, if half a second has passed: in less, the system's counters are too coarse."""
        if time.monotonic() - self._looked >= _LEAST_SECONDS:
            self._look()

    def finish(self) -> list[dict[str, Any]]:
        """All readings, with a last one of the time since the one before where that is long enough."""
        if not self.readings or time.monotonic() - self._looked >= _LEAST_SECONDS:
            self._look()
        return self.readings

    def _look(self) -> None:
        now, counters = time.monotonic(), _cpu_counters()
        seconds = now - self._looked
        long_enough = seconds >= _LEAST_SECONDS
        used = cores_in_use(self._last if long_enough else None, counters)
        self.readings.append({"seconds": seconds, **used, **gpu_state(self._device)})
        self._last, self._looked = counters, now


def cores_in_use(before: CpuCounters | None, after: CpuCounters | None) -> dict[str, float | None]:
    """Processors that others kept busy, and that a hypervisor took away, between two readings."""
    if before is None or after is None or after.wall <= before.wall:
        return {"other_cores": None, "stolen_cores": None}
    wall = after.wall - before.wall
    others = (after.busy - before.busy) - (after.own - before.own)
    return {
        "other_cores": max(others, 0.0) / wall,
        "stolen_cores": (after.stolen - before.stolen) / wall,
    }


def state_before(device: Device) -> dict[str, Any]:
    """The machine before a cell touches the device: processors, load, frequency governor, and how many bytes
    of the GPU's memory others hold already (None on the CPU)."""
    return {
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "governor": _first_line(_GOVERNOR),
        "others_gpu_bytes": gpu_state(device).get("memory_used_bytes"),
    }


def gpu_state(device: Device) -> dict[str, Any]:
    """Clocks, temperature, power, memory, other processes and throttling of a GPU; empty on the CPU."""
    if device.uuid is None:
        return {}
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(device.uuid)
        return {
            "sm_mhz": _ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            "memory_mhz": _ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            "temperature_c": _ask(
                lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
            ),
            "power_w": _ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            "memory_used_bytes": _ask(lambda: _memory_used(handle)),
            "other_processes": _ask(lambda: _other_processes(handle)),
            "throttled": _ask(lambda: _throttled(handle)),
        }
    finally:
        pynvml.nvmlShutdown()


def _memory_used(handle: Any) -> int:
    """Bytes that processes hold, without what the driver keeps for itself."""
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used


def _other_processes(handle: Any) -> int:
    """Processes that compute on the device besides us; in a container our own may have another number."""
    processes = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    return len(processes - {os.getpid()}) if os.getpid() in processes else max(len(processes) - 1, 0)


def _throttled(handle: Any) -> list[str]:
    mask = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return [name for name, bit in _THROTTLE_REASONS.items() if mask & bit]


def _ask(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except pynvml.NVMLError:  # not every device answers every question
        return None


def _cpu_counters() -> CpuCounters | None:
    """None where the system has no /proc/stat."""
    line = _first_line(_PROC_STAT)
    if line is None:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(n) for n in line.split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    busy = (user + nice + system + irq + softirq) / tick
    return CpuCounters(time.monotonic(), busy, steal / tick, time.process_time())


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return None
