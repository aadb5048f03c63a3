"""Reads the sensors of the machine while a cell is measured.

A ``Sampler`` takes readings between runs (other load, clocks and reasons for throttling, from counters that
the system keeps anyway) and samples during runs, in a thread, about once per second. A sample makes few
queries, because after each answer the thread takes the GIL from the training thread for some microseconds.
The pause after a sample is at least 500 times its CPU time, so that sampling costs less than 0.5% on any
machine; ``benchmarks/sampling_cost.py`` measures the cost.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pynvml

from snn.hardware.devices import Device, machine_bytes, open_gpu, usable_bytes, usable_processors

Sample = Mapping[str, Any]
"""``t_s``, seconds since the start, and the values of a device's sensors, by column."""

Live = Callable[[Sample, Mapping[str, Any]], None]
"""Callback for each new sample and the limits of the device."""

Window = tuple[float, float]
"""The start and the end of a timed run, in seconds of ``time.perf_counter``."""

EVERY = 1.0  # seconds between two samples, at least
MOST_SHARE = 0.002  # largest share of one CPU's time for sampling
_MOST = 240  # most rows of samples in a record
_GAP = 0.5  # longest pause in seconds between timed runs that count as one stretch
_LEAST_SECONDS = 0.5  # least time between two readings, because the system's counters are coarse
_PROC_STAT = Path("/proc/stat")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_HWMON = Path("/sys/class/hwmon")
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")

_IN_CONTAINER = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
"""Linux' files with the memory in use by a container, including file caches."""

# NVML's reasons for a clock below its maximum that slow down a measurement
_THROTTLE_REASONS = {
    "software power cap": pynvml.nvmlClocksThrottleReasonSwPowerCap,
    "hardware slowdown": pynvml.nvmlClocksThrottleReasonHwSlowdown,
    "software thermal slowdown": pynvml.nvmlClocksThrottleReasonSwThermalSlowdown,
    "hardware thermal slowdown": pynvml.nvmlClocksThrottleReasonHwThermalSlowdown,
    "power brake": pynvml.nvmlClocksThrottleReasonHwPowerBrakeSlowdown,
}
_HOTTEST = (pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, pynvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX)


def _memory(gpu: Any) -> Any:
    """Bytes of a GPU's memory: ``total``, ``used`` by processes, ``reserved`` by the driver, ``free``."""
    return pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)


def _throttled(gpu: Any) -> list[str]:
    """The current reasons for a clock below its maximum that slow down a measurement."""
    mask = pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)
    return [name for name, bit in _THROTTLE_REASONS.items() if mask & bit]


def _other_processes(gpu: Any) -> int:
    """Number of other processes that compute on the device; in a container, ours may have another PID."""
    processes = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu)}
    return len(processes - {os.getpid()}) if os.getpid() in processes else max(len(processes) - 1, 0)


_QUESTIONS: Mapping[str, Callable[[Any], Any]] = {
    "sm_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
    "memory_mhz": lambda gpu: pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
    "temperature_c": lambda gpu: pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
    "power_w": lambda gpu: pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
    "memory_used_bytes": lambda gpu: _memory(gpu).used,
    "other_processes": _other_processes,
    "throttled": _throttled,
    "utilisation": lambda gpu: pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu,
}
"""NVML's queries of a GPU: MHz, C, W, bytes, and percent of the time in which a kernel ran."""

_OF_STATE = tuple(name for name in _QUESTIONS if name != "utilisation")
_OF_SAMPLE = ("memory_used_bytes", "utilisation", "temperature_c", "power_w", "sm_mhz", "throttled")


def _ask(question: Callable[..., Any], *about: Any) -> Any:
    """NVML's answer, or None if the device does not support the query."""
    try:
        return question(*about)
    except pynvml.NVMLError:  # not every device supports every query
        return None


def gpu_state(device: Device) -> dict[str, Any]:
    """Clocks, temperature, power, memory, other processes and throttling of a GPU; empty on the CPU."""
    if device.uuid is None:
        return {}
    with open_gpu(device.uuid) as gpu:
        return {name: _ask(_QUESTIONS[name], gpu) for name in _OF_STATE}


@contextmanager
def energy_counter(device: Device) -> Iterator[Callable[[], float] | None]:
    """A function that reads the joules that a GPU has used so far, whoever used it; None if it has no such
    counter."""
    with ExitStack() as stack:
        read = None
        with suppress(pynvml.NVMLError):
            if device.uuid is not None:
                gpu = stack.enter_context(open_gpu(device.uuid))
                pynvml.nvmlDeviceGetTotalEnergyConsumption(gpu)  # raises an error without a counter
                read = partial(_joules, gpu)
        yield read


def _joules(gpu: Any) -> float:
    millijoules = _ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, gpu)
    return math.nan if millijoules is None else float(millijoules) / 1000


def state_before(device: Device) -> dict[str, Any]:
    """The state of the machine before a cell uses the device: CPUs, load, frequency governor, and the bytes
    of GPU memory that other processes hold (None on the CPU)."""
    governor = None
    with suppress(OSError, IndexError):
        governor = _GOVERNOR.read_text().splitlines()[0].strip()
    return {
        "cpus": usable_processors(),
        "load_average": _load(),
        "governor": governor,
        "others_gpu_bytes": gpu_state(device).get("memory_used_bytes"),
    }


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


class CpuCounters(NamedTuple):
    """Seconds since some moment: wall clock; and the usable CPUs' time, used by anybody, by the hypervisor,
    and by this process and its children."""

    wall: float
    busy: float
    stolen: float
    own: float


def cores_in_use(before: CpuCounters | None, after: CpuCounters | None) -> dict[str, float | None]:
    """Mean numbers of our usable CPUs that others used, and that a hypervisor took, between readings."""
    if before is None or after is None or after.wall <= before.wall:
        return {"other_cores": None, "stolen_cores": None}
    wall, busy, stolen, own = (now - then for now, then in zip(after, before, strict=True))
    return {"other_cores": max(busy - own, 0.0) / wall, "stolen_cores": stolen / wall}


def _cpu_counters() -> CpuCounters | None:
    """The counters of /proc/stat, or None if it lacks our CPUs."""
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


# ---- the sensors


@contextmanager
def open_sensors(device: Device) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """The constant limits of a GPU (or the host, for the CPU), and a function that reads its sensors.

    The limits: bytes that processes can use, the lowest temperature at which a GPU slows down (C), its power
    (W). Values are by column, None if a sensor does not answer.
    """
    if device.uuid is None:
        yield _host_sensors()
        return
    with open_gpu(device.uuid) as gpu:
        memory = _ask(_memory, gpu)
        hot = [_ask(pynvml.nvmlDeviceGetTemperatureThreshold, gpu, which) for which in _HOTTEST]
        power = _ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, gpu)
        limits = {
            "memory_bytes": memory and int(memory.total - memory.reserved),
            "temperature_c": min((value for value in hot if value), default=None),
            "power_w": power and power / 1000,
        }

        def read() -> dict[str, Any]:
            found = {name: _ask(_QUESTIONS[name], gpu) for name in _OF_SAMPLE}
            reasons = found["throttled"]
            return found | {"throttled": None if reasons is None else ", ".join(reasons)}

        yield limits, read


def _host_sensors() -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """``open_sensors`` of the host; a user cannot read a CPU's power and clocks. The utilisation is the
    percentage of the usable CPUs that this process keeps busy."""
    thermometer, processors = _thermometer(), usable_processors()
    last = (time.monotonic(), sum(os.times()[:4]))

    def celsius(name: str) -> float | None:
        with suppress(OSError, ValueError):
            return int((thermometer / name).read_text()) / 1000 if thermometer else None
        return None

    def read() -> dict[str, Any]:
        nonlocal last
        (before, had), last = last, (time.monotonic(), sum(os.times()[:4]))
        wall, busy = last[0] - before, last[1] - had
        return {
            **dict.fromkeys(_OF_SAMPLE),
            "memory_used_bytes": bytes_in_use(),
            "utilisation": 100 * busy / wall / processors if wall > 0.1 else None,
            "temperature_c": celsius("temp1_input"),
            "load": _load(),
        }

    limits = {"memory_bytes": usable_bytes(), "temperature_c": celsius("temp1_crit"), "power_w": None}
    return limits, read


def bytes_in_use() -> int:
    """The bytes in use now of ``usable_bytes``. File caches count only in a container, because its limit
    includes them."""
    import psutil

    for path in _IN_CONTAINER if usable_bytes() < machine_bytes() else ():
        with suppress(OSError, ValueError):
            return int(Path(path).read_text(encoding="ascii"))
    memory = psutil.virtual_memory()
    return memory.total - memory.available


def _thermometer() -> Path | None:
    """The folder of the CPU's thermometer, or None if the system does not show one."""
    for folder in sorted(_HWMON.glob("hwmon*")):
        with suppress(OSError, ValueError):
            name = (folder / "name").read_text(encoding="ascii").strip()
            if name in _CPU_SENSORS and os.access(folder / "temp1_input", os.R_OK):
                return folder
    return None


# ---- when the sensors are read


_JOINED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "memory_used_bytes": max,
    "utilisation": lambda values: round(fmean(values), 3),
    "temperature_c": max,
    "power_w": lambda values: round(fmean(values), 3),
    "sm_mhz": min,
    "throttled": lambda values: ", ".join(dict.fromkeys(filter(None, ", ".join(values).split(", ")))),
    "load": max,
}
"""Functions that combine the values of several samples, by column."""


class Sampler:
    """Reads a device during a ``with`` block: samples in a thread, readings in ``after_run``.

    The thread calls ``live`` with each sample and the device's limits. The value is None if a sensor does not
    answer; a device that does not answer at all gives no samples.
    """

    def __init__(
        self, device: Device, live: Live, every: float = EVERY, most_share: float = MOST_SHARE
    ) -> None:
        self._device, self._live = device, live
        self._every, self._most_share = every, most_share
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
        self._samples: list[Sample] = []
        self._cpu_seconds = 0.0
        self._limits: dict[str, Any] = {}
        self._readings: list[dict[str, Any]] = []

    def __enter__(self) -> "Sampler":
        self._start = self._looked = time.perf_counter()
        self._counters = _cpu_counters()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(pynvml.NVMLError), open_sensors(self._device) as (self._limits, read):
            while True:
                cpu = time.thread_time()
                now = time.perf_counter() - self._start
                sample = {"t_s": round(now, 3), **read()}
                self._samples.append(sample)
                with suppress(OSError, ValueError):  # the standard error is closed
                    self._live(sample, self._limits)
                took = time.thread_time() - cpu
                self._cpu_seconds += took
                if self._stop.wait(max(self._every, took / self._most_share)):
                    return

    def after_run(self) -> None:
        """Take a reading if half a second has passed."""
        if time.perf_counter() - self._looked >= _LEAST_SECONDS:
            self._look()

    def readings(self) -> list[dict[str, Any]]:
        """All readings, with a last one for the time since the previous one if that is long enough.

        A reading has ``seconds`` since the previous one; ``other_cores`` and ``stolen_cores``, means over
        these seconds in numbers of CPUs; and the state of a GPU. Values that the system does not provide are
        None.
        """
        if not self._readings or time.perf_counter() - self._looked >= _LEAST_SECONDS:
            self._look()
        return self._readings

    def _look(self) -> None:
        now, counters = time.perf_counter(), _cpu_counters()
        seconds = now - self._looked
        used = cores_in_use(self._counters if seconds >= _LEAST_SECONDS else None, counters)
        self._readings.append({"seconds": seconds, **used, **gpu_state(self._device)})
        self._counters, self._looked = counters, now

    def samples(self, runs: Iterable[Window]) -> dict[str, Any]:
        """The samples for the record; call it after the end.

        ``columns`` holds a list per column. ``t_s`` is the time of a row's first sample, and ``timed`` is 1
        if all of its samples, and the second before them, lie within the timed ``runs``. A column without
        any value is left out. Whenever rows exceed ``_MOST``, each combines twice as many samples.
        """
        per_row = 1
        while len(self._samples) // per_row >= _MOST:
            per_row *= 2
        rows = [self._samples[start : start + per_row] for start in range(0, len(self._samples), per_row)]
        stretches: list[Window] = []  # runs, merged if almost no pause lies between them
        for start, end in runs:
            joins = bool(stretches) and start - self._start - stretches[-1][1] <= _GAP
            begin = stretches.pop()[0] if joins else start - self._start
            stretches.append((begin, end - self._start))
        columns: dict[str, list[Any]] = {"t_s": [row[0]["t_s"] for row in rows]}
        spans = [(row[0]["t_s"] - EVERY, row[-1]["t_s"]) for row in rows]
        columns["timed"] = [int(any(a <= first and last <= b for a, b in stretches)) for first, last in spans]
        for name, join in _JOINED.items():
            values = [[one[name] for one in row if one.get(name) is not None] for row in rows]
            if any(values):
                columns[name] = [join(some) if some else None for some in values]
        return {
            "taken": len(self._samples),
            "samples_per_row": per_row,
            "cpu_seconds": self._cpu_seconds,
            "limits": self._limits,
            "columns": columns,
        }
