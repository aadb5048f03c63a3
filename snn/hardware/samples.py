"""Samples of the machine while a cell is measured, taken by a thread about once per second.

A sample asks few questions, because after each answer the thread takes the GIL from the one that trains for
some microseconds. The pause after a sample is at least 500 times the seconds of CPU that it took, so that
sampling costs less than 0.5% wherever it runs. ``benchmarks/sampling_cost.py`` measures what it costs.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Any

import pynvml

from snn.hardware import sensors
from snn.hardware.devices import Device

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
"""The most rows that a record keeps: beyond, two neighbours become one, again and again."""

_GAP = 0.5
"""Seconds between two timed runs that count as one stretch of work."""


def _mean(values: Sequence[float]) -> float:
    return round(fmean(values), 3)


def _all_of(values: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(word for value in values for word in value.split(", ") if word))


_JOINED: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "memory_used_bytes": max,
    "utilisation": _mean,
    "temperature_c": max,
    "power_w": _mean,
    "sm_mhz": min,
    "throttled": _all_of,
    "load": max,
}
"""How the values of several samples become one, by column."""


class Series:
    """Samples in the order of time, in at most ``_MOST`` rows of equal numbers of samples."""

    def __init__(self) -> None:
        self._rows: list[Sample] = []
        self._open: list[Sample] = []
        self.samples_per_row = 1

    def add(self, sample: Sample) -> None:
        self._open.append(sample)
        if len(self._open) == self.samples_per_row:
            self._rows.append(_joined(self._open))
            self._open = []
        if len(self._rows) == _MOST:
            pairs = zip(self._rows[::2], self._rows[1::2], strict=True)
            self._rows = [_joined(pair) for pair in pairs]
            self.samples_per_row *= 2

    def rows(self) -> list[Sample]:
        """Each row with the times of its first and last sample, ``t_s`` and ``last_s``."""
        return [*self._rows, *([_joined(self._open)] if self._open else [])]


def _joined(samples: Sequence[Sample]) -> Sample:
    row: dict[str, Any] = {}
    for name, join in _JOINED.items():
        values = [sample[name] for sample in samples if sample.get(name) is not None]
        row[name] = join(values) if values else None
    last = samples[-1]
    return row | {"t_s": samples[0]["t_s"], "last_s": last.get("last_s", last["t_s"])}


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
        self._series = Series()
        self._taken, self._cpu_seconds = 0, 0.0
        self._limits: dict[str, Any] = {}

    def __enter__(self) -> "Sampler":
        self._start = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(pynvml.NVMLError), sensors.of(self._device) as sensor:
            self._limits = sensor.limits()
            while True:
                cpu = time.thread_time()
                now = time.perf_counter() - self._start
                sample = {"t_s": round(now, 3), **sensor.read()}
                self._series.add(sample)
                self._taken += 1
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
        rows = self._series.rows()
        columns: dict[str, list[Any]] = {
            "t_s": [row["t_s"] for row in rows],
            "timed": [int(_within(row["t_s"] - EVERY, row["last_s"], windows)) for row in rows],
        }
        for name in _JOINED:
            values = [row[name] for row in rows]
            if any(value is not None for value in values):
                columns[name] = values
        return {
            "taken": self._taken,
            "samples_per_row": self._series.samples_per_row,
            "cpu_seconds": self._cpu_seconds,
            "limits": self._limits,
            "columns": columns,
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


def _within(start: float, end: float, windows: Sequence[Window]) -> bool:
    return any(low <= start and end <= high for low, high in windows)
