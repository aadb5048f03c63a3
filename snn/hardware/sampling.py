"""The state of the machine while a cell is measured: the sensors, and when they are read.

A ``Sampler`` takes readings between runs (other load, clocks and reasons for throttling, from counters that
the system keeps anyway) and samples during runs, in a thread, about once per second. A sample asks few
questions, because after each answer the thread takes the GIL from the one that trains for some microseconds.
The pause after a sample is at least 500 times the seconds of CPU that it took, so that sampling costs less
than 0.5% wherever it runs; ``benchmarks/sampling_cost.py`` measures what it costs.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pynvml

from snn.hardware.devices import Device, machine_bytes, open_gpu, usable_bytes, usable_processors

Sample = Mapping[str, Any]
"""``t_s``, seconds since the start, and what the sensors of a device gave, by column."""

Live = Callable[[Sample, Mapping[str, Any]], None]
"""What sees a sample when it is taken, with the limits of the device."""

Window = tuple[float, float]
"""The start and the end of a timed run, in seconds of ``time.perf_counter``."""

EVERY = 1.0  # seconds between two samples, at least
MOST_SHARE = 0.002  # the largest share of one CPU's time that sampling takes
_MOST = 240  # the most rows of samples that a record keeps
_GAP = 0.5  # seconds between two timed runs that count as one stretch of work
_LEAST_SECONDS = 0.5  # between two readings: over less, the system's counters are too coarse
_PROC_STAT = Path("/proc/stat")
_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_HWMON = Path("/sys/class/hwmon")
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


class CpuCounters(NamedTuple):
    """Seconds since some moment: wall clock; time of the CPUs that this process may use, by anybody, by the
    hypervisor, and by this process and its children."""

    wall: float
    busy: float
    stolen: float
    own: float


def cores_in_use(before: CpuCounters | None, after: CpuCounters | None) -> dict[str, float | None]:
    """CPUs, of those we may use, that others used or a hypervisor took, on average between two readings."""
    if before is None or after is None or after.wall <= before.wall:
        return {"other_cores": None, "stolen_cores": None}
    wall, busy, stolen, own = (now - then for now, then in zip(after, before, strict=True))
    return {"other_cores": max(busy - own, 0.0) / wall, "stolen_cores": stolen / wall}


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


# ---- the sensors


@contextmanager
def open_sensors(device: Device) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """What does not change of a GPU, or of the host if the device is the CPU, and what reads its sensors.

    The limits: bytes that processes can have, the lowest temperature at which a GPU slows down (C), its power
    (W). Values are by column, None where a sensor does not answer.
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
    """As ``open_sensors``; a user cannot read a CPU's power and clocks. The utilisation is the percentage of
    the usable CPUs that this process keeps busy."""
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
    """The bytes in use now of what ``usable_bytes`` counts. Of a machine without file caches; of a container
    with them, as its limit counts them."""
    import psutil

    for path in _IN_CONTAINER if usable_bytes() < machine_bytes() else ():
        with suppress(OSError, ValueError):
            return int(Path(path).read_text(encoding="ascii"))
    memory = psutil.virtual_memory()
    return memory.total - memory.available


def _thermometer() -> Path | None:
    """The folder of the CPU's thermometer, or None where the system shows none."""
    for folder in sorted(_HWMON.glob("hwmon*")):
        with suppress(OSError, ValueError):
            name = (folder / "name").read_text(encoding="ascii").strip()
            if name in _CPU_SENSORS and os.access(folder / "temp1_input", os.R_OK):
                return folder
    return None


# ---- when they are read


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


class Sampler:
    """Reads a device from the entry of a ``with`` to its end: samples in a thread, readings in ``after_run``.

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

        One has ``seconds`` since the one before; ``other_cores`` and ``stolen_cores``, averages over these in
        numbers of CPUs; and on a GPU its state. What the system does not provide is None.
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
        """What was sampled, as a record keeps it; to be called after the end.

        ``columns`` holds a list per column, with ``t_s`` the time of a row's first sample and ``timed`` 1
        where all of its samples, and the second before them, lie within the timed ``runs``. A column
        without a value is left out. Beyond ``_MOST`` rows each has twice as many samples, again and again.
        """
        per_row = 1
        while len(self._samples) // per_row >= _MOST:
            per_row *= 2
        rows = [self._samples[start : start + per_row] for start in range(0, len(self._samples), per_row)]
        stretches: list[Window] = []  # runs with next to nothing between them
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
