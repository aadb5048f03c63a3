"""The state of the machine around each run: other load, clocks, and reasons for throttling.

Everything is read between runs, from counters that the system keeps anyway: timed regions are not affected.
``snn.hardware.samples`` has what is sampled during runs.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pynvml

from snn.hardware.devices import Device, usable_processors

_LEAST_SECONDS = 0.5
_PROC_STAT = Path("/proc/stat")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

# Of NVML's reasons for a clock below its maximum, those that slow down a measurement.
_THROTTLE_REASONS = {
    "software power cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "hardware slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "software thermal slowdown": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    "hardware thermal slowdown": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "power brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}


@dataclass(frozen=True)
class CpuCounters:
    """Seconds since some moment: wall clock; time of the CPUs that this process may use, by anybody, by the
    hypervisor, and by this process and its children."""

    wall: float
    busy: float
    stolen: float
    own: float


class Watch:
    """Samples the state of the machine between the runs of a cell, at most twice a second, and at the end.

    ``readings`` holds one dict per sample: ``seconds`` since the sample before; ``other_cores`` and
    ``stolen_cores``, averages over these seconds in numbers of CPUs; on a GPU also clocks (MHz), temperature
    (C), power (W), memory in use (bytes), the number of other processes that compute on it, and the current
    reasons for throttling. Values that the system does not provide are None.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._last = _cpu_counters()
        self._looked = time.monotonic()
        self.readings: list[dict[str, Any]] = []

    def after_run(self) -> None:
        """Take a sample if half a second has passed: over less, the system's counters are too coarse."""
        if time.monotonic() - self._looked >= _LEAST_SECONDS:
            self._look()

    def finish(self) -> list[dict[str, Any]]:
        """All readings, with a last one for the time since the previous one if that is long enough."""
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
    """CPUs, of those we may use, that others used or a hypervisor took, on average between two readings."""
    if before is None or after is None or after.wall <= before.wall:
        return {"other_cores": None, "stolen_cores": None}
    wall = after.wall - before.wall
    others = (after.busy - before.busy) - (after.own - before.own)
    return {
        "other_cores": max(others, 0.0) / wall,
        "stolen_cores": (after.stolen - before.stolen) / wall,
    }


def state_before(device: Device) -> dict[str, Any]:
    """The machine before a cell uses the device: CPUs, load, frequency governor, and the bytes of GPU memory
    that other processes hold (None on the CPU)."""
    return {
        "cpus": usable_processors(),
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
            "sm_mhz": ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
            "memory_mhz": ask(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM)),
            "temperature_c": ask(
                lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)
            ),
            "power_w": ask(lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            "memory_used_bytes": ask(lambda: memory_info(handle).used),
            "other_processes": ask(lambda: _other_processes(handle)),
            "throttled": ask(lambda: throttled(handle)),
        }
    finally:
        pynvml.nvmlShutdown()


def memory_info(handle: Any) -> Any:
    """Bytes of a GPU's memory: ``total``, ``used`` by processes, ``reserved`` by the driver, ``free``."""
    return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)


def _other_processes(handle: Any) -> int:
    """Number of other processes that compute on the device; in a container our own may have another PID."""
    processes = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
    return len(processes - {os.getpid()}) if os.getpid() in processes else max(len(processes) - 1, 0)


def throttled(handle: Any) -> list[str]:
    """The current reasons for a clock below its maximum that slow down a measurement."""
    mask = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
    return [name for name, bit in _THROTTLE_REASONS.items() if mask & bit]


def ask(question: Callable[[], Any]) -> Any:
    """The answer of NVML, or None where the device has none."""
    try:
        return question()
    except pynvml.NVMLError:  # not every device supports every query
        return None


def _cpu_counters() -> CpuCounters | None:
    """The counters of /proc/stat, or None where there are none of our CPUs."""
    try:
        lines = [line.split() for line in _PROC_STAT.read_text().splitlines()]
    except OSError:
        return None
    usable = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    ticks = [map(int, line[1:9]) for line in lines if line and line[0] in usable]
    if not ticks:
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(sum, zip(*ticks, strict=True))
    tick = os.sysconf("SC_CLK_TCK")
    busy = (user + nice + system + irq + softirq) / tick
    return CpuCounters(time.monotonic(), busy, steal / tick, sum(os.times()[:4]))


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text().splitlines()[0].strip()
    except (OSError, IndexError):
        return None
