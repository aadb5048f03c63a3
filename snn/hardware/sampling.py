"""The state of the machine while a cell is measured: the sensors, and when they are read.

``Watch`` reads between runs: other load, clocks and reasons for throttling, from counters that the system
keeps anyway. ``Sampler`` reads during runs, in a thread, about once per second. A sample asks few questions,
because after each answer the thread takes the GIL from the one that trains for some microseconds. The pause
after a sample is at least 500 times the seconds of CPU that it took, so that sampling costs less than 0.5%
wherever it runs; ``benchmarks/sampling_cost.py`` measures what it costs.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import pynvml

from snn.hardware.devices import Device, machine_bytes, open_gpu, usable_bytes, usable_processors

Sample = Mapping[str, Any]
"""``t_s``, seconds since the start, and what the sensors of a device gave, by column."""

Live = Callable[[Sample, Mapping[str, Any]], None]
"""What sees a sample when it is taken, with the limits of the device."""

Window = tuple[float, float]
"""The start and the end of a timed run, in seconds of ``time.perf_counter``."""

EVERY = 1.0
"""Seconds between two samples, at least."""

MOST_SHARE = 0.002
"""The largest share of one CPU's time that sampling takes."""

_MOST = 240
"""The most rows that a record keeps: beyond, a row has twice as many samples, again and again."""

_GAP = 0.5
"""Seconds between two timed runs that count as one stretch of work."""

_LEAST_SECONDS = 0.5
"""Between two readings: over less, the system's counters are too coarse."""

_PROC_STAT = Path("/proc/stat")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_HWMON = Path("/sys/class/hwmon")
_MEMINFO = "/proc/meminfo"
_CPU_SENSORS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")

_IN_CONTAINER = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
"""Where Linux says what a container has, with file caches."""

# Of NVML's reasons for a clock below its maximum, those that slow down a measurement.
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
    """Number of other processes that compute on the device; in a container our own may have another PID."""
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
"""What NVML is asked of a GPU: MHz, C, W, bytes, and percent of the time in which a kernel ran."""

_OF_STATE = tuple(name for name in _QUESTIONS if name != "utilisation")
_OF_SAMPLE = ("memory_used_bytes", "utilisation", "temperature_c", "power_w", "sm_mhz", "throttled")


def _ask(question: Callable[..., Any], *about: Any) -> Any:
    """The answer of NVML, or None where the device has none."""
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


def state_before(device: Device) -> dict[str, Any]:
    """The machine before a cell uses the device: CPUs, load, frequency governor, and the bytes of GPU memory
    that other processes hold (None on the CPU)."""
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


# ---- between runs


@dataclass(frozen=True)
class CpuCounters:
    """Seconds since some moment: wall clock; time of the CPUs that this process may use, by anybody, by the
    hypervisor, and by this process and its children."""

    wall: float
    busy: float
    stolen: float
    own: float


class Watch:
    """Reads the state of the machine between the runs of a cell, at most twice a second, and at the end.

    ``readings`` holds one dict per reading: ``seconds`` since the one before; ``other_cores`` and
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
        """Take a reading if half a second has passed."""
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
        used = cores_in_use(self._last if seconds >= _LEAST_SECONDS else None, counters)
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


# ---- during runs: the sensors


@contextmanager
def open_sensors(device: Device) -> Iterator["GpuSensors | HostSensors"]:
    """The sensors of a GPU, or of the host where the device is the CPU.

    ``read``: values by column, None where a sensor does not answer. ``limits``: what does not change.
    """
    if device.uuid is None:
        yield HostSensors()
    else:
        with open_gpu(device.uuid) as gpu:
            yield GpuSensors(gpu)


class GpuSensors:
    """NVML: memory in use (bytes), percent of the time in which a kernel ran, C, W, MHz, throttling."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def read(self) -> dict[str, Any]:
        found = {name: _ask(_QUESTIONS[name], self._handle) for name in _OF_SAMPLE}
        reasons = found["throttled"]
        return found | {"throttled": None if reasons is None else ", ".join(reasons)}

    def limits(self) -> dict[str, Any]:
        """Bytes that processes can have, the lowest temperature at which the GPU slows down, its power."""
        memory = _ask(_memory, self._handle)
        hot = [_ask(pynvml.nvmlDeviceGetTemperatureThreshold, self._handle, which) for which in _HOTTEST]
        power = _ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, self._handle)
        return {
            "memory_bytes": memory and int(memory.total - memory.reserved),
            "temperature_c": min((value for value in hot if value), default=None),
            "power_w": power and power / 1000,
        }


class HostSensors:
    """The system: memory in use (bytes), percent of the usable CPUs that this process keeps busy, C, load.

    Power and clocks of a CPU are not readable by a user: they are None.
    """

    def __init__(self) -> None:
        self._thermometer = _thermometer()
        self._processors = usable_processors()
        self._last = (time.monotonic(), sum(os.times()[:4]))

    def read(self) -> dict[str, Any]:
        now, busy = time.monotonic(), sum(os.times()[:4])
        (before, had), self._last = self._last, (now, busy)
        wall = now - before
        return {
            **dict.fromkeys(_OF_SAMPLE),
            "memory_used_bytes": bytes_in_use(),
            "utilisation": 100 * (busy - had) / wall / self._processors if wall > 0.1 else None,
            "temperature_c": self._celsius("temp1_input"),
            "load": _load(),
        }

    def limits(self) -> dict[str, Any]:
        return {
            "memory_bytes": usable_bytes(),
            "temperature_c": self._celsius("temp1_crit"),
            "power_w": None,
        }

    def _celsius(self, name: str) -> float | None:
        with suppress(OSError, ValueError):
            return int((self._thermometer / name).read_text()) / 1000 if self._thermometer else None
        return None


def bytes_in_use() -> int | None:
    """The bytes in use now of what ``usable_bytes`` counts; None where the system does not say.

    Of a machine without file caches; of a container with them, as its limit counts them.
    """
    for path in (*(_IN_CONTAINER if usable_bytes() < machine_bytes() else ()), _MEMINFO):
        try:
            text = Path(path).read_text(encoding="ascii")
            if path != _MEMINFO:
                return int(text)
            values = {line[0]: int(line[1]) for line in map(str.split, text.splitlines()) if len(line) > 1}
            return 1024 * (values["MemTotal:"] - values["MemAvailable:"])
        except OSError:
            continue
        except (KeyError, ValueError):
            return None
    return None


def _thermometer() -> Path | None:
    """The folder of the CPU's thermometer, or None where the system shows none."""
    for folder in sorted(_HWMON.glob("hwmon*")):
        with suppress(OSError, ValueError):
            name = (folder / "name").read_text(encoding="ascii").strip()
            if name in _CPU_SENSORS and os.access(folder / "temp1_input", os.R_OK):
                return folder
    return None


# ---- during runs: the samples


_JOINED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "memory_used_bytes": max,
    "utilisation": lambda values: round(fmean(values), 3),
    "temperature_c": max,
    "power_w": lambda values: round(fmean(values), 3),
    "sm_mhz": min,
    "throttled": lambda values: ", ".join(dict.fromkeys(filter(None, ", ".join(values).split(", ")))),
    "load": max,
}
"""How the values of several samples become one, by column."""


def join_samples(samples: Sequence[Sample]) -> tuple[list[Sample], int]:
    """Samples in rows of equal numbers of them, in fewer than ``_MOST`` full rows, and that number.

    Each row has the times of its first and last sample, ``t_s`` and ``last_s``.
    """
    per_row = 1
    while len(samples) // per_row >= _MOST:
        per_row *= 2
    rows: list[Sample] = []
    for start in range(0, len(samples), per_row):
        some = samples[start : start + per_row]
        row: dict[str, Any] = {"t_s": some[0]["t_s"], "last_s": some[-1]["t_s"]}
        for name, join in _JOINED.items():
            values = [sample[name] for sample in some if sample.get(name) is not None]
            row[name] = join(values) if values else None
        rows.append(row)
    return rows, per_row


class Sampler:
    """A thread that samples a device from the entry of a ``with`` to its end.

    ``live`` is called with each sample and the device's limits, in that thread. What a sensor does not answer
    is None, and of a device that does not answer at all there are no samples.
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

    def __enter__(self) -> "Sampler":
        self._start = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(pynvml.NVMLError), open_sensors(self._device) as sensors:
            self._limits = sensors.limits()
            while True:
                cpu = time.thread_time()
                now = time.perf_counter() - self._start
                sample = {"t_s": round(now, 3), **sensors.read()}
                self._samples.append(sample)
                with suppress(OSError, ValueError):  # the standard error is closed
                    self._live(sample, self._limits)
                took = time.thread_time() - cpu
                self._cpu_seconds += took
                if self._stop.wait(max(self._every, took / self._most_share)):
                    return

    def described(self, runs: Iterable[Window]) -> dict[str, Any]:
        """What was sampled, as a record keeps it; to be called after the end.

        ``columns`` holds a list per column, with ``t_s`` the time of a row's first sample and ``timed`` 1
        where all of its samples, and the second before them, lie within the timed ``runs``. A column
        without a value is left out.
        """
        windows = _stretches((start - self._start, end - self._start) for start, end in runs)
        rows, samples_per_row = join_samples(self._samples)
        spans = [(row["t_s"] - EVERY, row["last_s"]) for row in rows]
        columns: dict[str, list[Any]] = {
            "t_s": [row["t_s"] for row in rows],
            "timed": [
                int(any(low <= start and end <= high for low, high in windows)) for start, end in spans
            ],
        }
        of_sensors = {name: [row[name] for row in rows] for name in _JOINED}
        return {
            "taken": len(self._samples),
            "samples_per_row": samples_per_row,
            "cpu_seconds": self._cpu_seconds,
            "limits": self._limits,
            "columns": columns | {name: some for name, some in of_sensors.items() if set(some) - {None}},
        }


def _stretches(runs: Iterable[Window]) -> list[Window]:
    """The windows with those joined between which there is next to nothing."""
    joined: list[Window] = []
    for start, end in runs:
        if joined and start - joined[-1][1] <= _GAP:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
