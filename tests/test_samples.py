"""The thread that samples the machine, and the sensors that it reads."""

import time

import numpy as np
import pytest

from snn.hardware import memory, sensors
from snn.hardware.devices import Device, gpus_here
from snn.hardware.samples import Sampler, Series

CPU = Device("cpu", "Abacus")
GIB = 1 << 30


def test_a_thread_samples_until_the_end_and_costs_little():
    seen = []
    start = time.perf_counter()
    with Sampler(CPU, lambda sample, limits: seen.append((sample, limits)), every=0.05) as sampler:
        while len(seen) < 20:
            np.ones((64, 64)) @ np.ones((64, 64))
    end = time.perf_counter()
    found = sampler.described([(start, end)])
    taken = found["taken"]
    assert 20 <= taken <= (end - start) / 0.05 + 2 and taken == len(seen) == len(found["columns"]["t_s"])
    assert found["cpu_seconds"] < 0.001 * taken
    assert found["columns"]["t_s"] == sorted(found["columns"]["t_s"])
    assert found["limits"]["memory_bytes"] == memory.usable_bytes() == seen[0][1]["memory_bytes"]
    assert 0 < max(found["columns"]["memory_used_bytes"]) <= memory.usable_bytes()
    assert "power_w" not in found["columns"] and "sm_mhz" not in found["columns"]
    time.sleep(0.1)
    assert len(seen) == taken  # nothing is sampled afterwards


def test_timed_rows_lie_within_runs_that_follow_each_other():
    with Sampler(CPU, lambda *_: None) as sampler:
        pass
    for second in range(10):
        sampler._series.add({"t_s": float(second), "utilisation": 50.0})
    begun = sampler._start
    runs = [(begun + 1.5, begun + 4.0), (begun + 4.3, begun + 6.2), (begun + 7.8, begun + 9.9)]
    timed = sampler.described(runs)["columns"]["timed"]
    # The second before a sample counts as well; a gap of 0.3 s does not interrupt, one of 1.6 s does.
    assert timed[1:] == [0, 0, 0, 1, 1, 1, 1, 0, 0, 1][: len(timed) - 1]


def test_a_long_series_stays_short_and_keeps_what_is_extreme():
    series = Series()
    for second in range(10_000):
        series.add(
            {
                "t_s": second,
                "memory_used_bytes": 5 if second != 7777 else 9,
                "temperature_c": second % 50,
                "power_w": 300.0,
                "throttled": "power brake" if second == 1234 else "",
                "utilisation": None,
            }
        )
    rows = series.rows()
    assert 120 <= len(rows) <= 240 and series.samples_per_row == 64
    assert [row["t_s"] for row in rows] == [64 * i for i in range(len(rows))]
    assert rows[-1]["last_s"] == 9_999
    assert [row["t_s"] for row in rows if row["memory_used_bytes"] == 9] == [7777 // 64 * 64]
    assert [row["t_s"] for row in rows if row["throttled"]] == [1234 // 64 * 64]
    assert {row["power_w"] for row in rows} == {300.0} and rows[0]["utilisation"] is None
    assert all(row["temperature_c"] == 49 for row in rows[:-1])


class Broken:
    def __init__(self, *_):
        raise AssertionError("the CPU was asked")


def test_a_gpu_that_does_not_answer_has_no_samples(monkeypatch):
    def lost():
        raise sensors.pynvml.NVMLError(15)

    monkeypatch.setattr(sensors.pynvml, "nvmlInit", lost)
    monkeypatch.setattr(sensors, "HostSensors", Broken)
    with Sampler(Device("cuda", "H200", "GPU-1"), lambda *_: None) as sampler:
        time.sleep(0.01)
    assert sampler.described([]) == {
        "taken": 0,
        "samples_per_row": 1,
        "cpu_seconds": 0.0,
        "limits": {},
        "columns": {"t_s": [], "timed": []},
    }


def test_gpu_sensors_say_none_where_nvml_has_nothing(monkeypatch):
    def not_supported(*_, **__):
        raise sensors.pynvml.NVMLError(3)

    for name in (
        "nvmlDeviceGetMemoryInfo",
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetPowerUsage",
        "nvmlDeviceGetClockInfo",
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        "nvmlDeviceGetEnforcedPowerLimit",
    ):
        monkeypatch.setattr(sensors.pynvml, name, not_supported)
    monkeypatch.setattr(sensors.pynvml, "nvmlDeviceGetTemperature", lambda *_: 50)
    monkeypatch.setattr(
        sensors.pynvml, "nvmlDeviceGetTemperatureThreshold", lambda _, which: {1: 92, 3: 87}[which]
    )
    gpu = sensors.GpuSensors(None)
    assert {key for key, value in gpu.read().items() if value is not None} == {"temperature_c"}
    assert gpu.limits() == {"memory_bytes": None, "temperature_c": 87, "power_w": None}


def test_the_thermometer_of_a_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(sensors, "_HWMON", tmp_path)
    assert sensors.HostSensors().read()["temperature_c"] is None
    for name, number in (("nvme", 0), ("coretemp", 1)):
        folder = tmp_path / f"hwmon{number}"
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "temp1_input").write_text(f"{50 + number}500\n")
    found = sensors.HostSensors()
    assert found.read()["temperature_c"] == 51.5
    assert found.limits()["temperature_c"] is None
    (tmp_path / "hwmon1/temp1_crit").write_text("100000\n")
    assert found.limits()["temperature_c"] == 100


def test_memory_in_use_is_the_containers_or_the_machines(tmp_path, monkeypatch):
    use, missing = tmp_path / "memory.current", str(tmp_path / "missing")
    use.write_text("5000\n")
    monkeypatch.setattr(memory, "_USE", (missing, str(use)))
    monkeypatch.setattr(memory, "usable_bytes", memory.machine_bytes)
    assert 1 << 24 < in_use() < memory.machine_bytes()
    monkeypatch.setattr(memory, "usable_bytes", lambda: 1 << 20)
    assert in_use() == 5000
    use.write_text("unknown\n")
    assert in_use() is None
    use.unlink()
    assert 1 << 24 < in_use() < memory.machine_bytes()
    monkeypatch.setattr(memory, "_MEMINFO", missing)
    assert in_use() is None


def in_use():
    of_process = memory.InUse()
    try:
        return of_process.nbytes()
    finally:
        of_process.close()


@pytest.mark.gpu
def test_a_gpu_has_every_column():
    device = gpus_here()[0]
    with Sampler(device, lambda *_: None, every=0.1) as sampler:
        time.sleep(0.5)
    found = sampler.described([])
    assert {"memory_used_bytes", "utilisation", "temperature_c", "power_w", "sm_mhz", "throttled"} <= set(
        found["columns"]
    )
    assert found["limits"]["memory_bytes"] > GIB and found["limits"]["power_w"] > 0
