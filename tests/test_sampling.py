"""What is read of the machine: CPUs in use by others, a GPU's state, and the thread that samples sensors."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pynvml
import pytest
from test_machine_state import CPU, THRESHOLDS

from snn.analysis.machine_state import verdict
from snn.config.compose import composed
from snn.hardware import devices, sampling
from snn.hardware.devices import Device, gpus_here, machine_bytes, usable_bytes
from snn.hardware.sampling import CpuCounters, Sampler
from snn.measurement import cell

GIB = 1 << 30

# ---- between runs


def test_cores_in_use():
    before, after = CpuCounters(10.0, 5.0, 1.0, 2.0), CpuCounters(14.0, 11.0, 2.0, 4.0)
    assert sampling.cores_in_use(before, after) == {"other_cores": 1.0, "stolen_cores": 0.25}
    assert sampling.cores_in_use(None, after) == {"other_cores": None, "stolen_cores": None}


def test_only_cpus_that_we_may_use_are_counted(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  90 0 90 900 0 0 0 90 0 0\n"
        "cpu0 10 2 30 300 0 1 2 40 0 0\n"
        "cpu1 50 0 50 500 0 0 0 50 0 0\n"
        "cpu12 5 0 5 50 0 0 0 5 0 0\nintr 8 0\n"
    )
    monkeypatch.setattr(sampling, "_PROC_STAT", stat)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 12})
    ticks = os.sysconf("SC_CLK_TCK")
    counters = sampling._cpu_counters()
    assert (round(counters.busy * ticks), round(counters.stolen * ticks)) == (55, 45)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7})
    assert sampling._cpu_counters() is None


def _spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.alone
@pytest.mark.skipif(not sampling._PROC_STAT.exists(), reason="the system has no /proc/stat")
def test_another_process_is_seen_and_our_own_work_is_not_taken_for_one():
    with Sampler(CPU, lambda *_: None) as sampler:
        _spin(0.6)
        sampler.after_run()
        sampler.after_run()  # too soon for another look
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
            _spin(0.7)
            sampler.after_run()
            other.kill()
    alone, beside = (reading["other_cores"] for reading in sampler.readings()[:2])
    if alone > 0.5:
        pytest.skip(f"others use {alone:.2f} processors of this machine already")
    assert beside > alone + 0.3
    assert beside > 0.4


def test_a_cell_too_short_for_the_counters_claims_nothing_of_the_processors():
    with Sampler(CPU, lambda *_: None) as sampler:
        (reading,) = sampler.readings()
    assert reading["other_cores"] is reading["stolen_cores"] is None


def refuse(*_, **__):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def nvml(monkeypatch):
    """A driver that knows some of a GPU's state, and not its power, utilisation and limits."""
    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetTemperature": lambda handle, kind: 40,
        "nvmlDeviceGetMemoryInfo": lambda handle, version: SimpleNamespace(used=5, total=9, reserved=2),
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=p) for p in (1, 2)],
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: (
            pynvml.nvmlClocksThrottleReasonGpuIdle | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
        ),
        "nvmlDeviceGetTemperatureThreshold": lambda _, which: {1: 92, 3: 87}[which],
    }
    refused = ("nvmlDeviceGetPowerUsage", "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetEnforcedPowerLimit")
    for name, answer in (answers | dict.fromkeys(refused, refuse)).items():
        monkeypatch.setattr(pynvml, name, answer)


@pytest.mark.usefixtures("nvml")
def test_the_state_of_a_gpu_and_what_it_does_not_tell():
    whole = {
        "sm_mhz": 1980,
        "memory_mhz": 1980,
        "temperature_c": 40,
        "power_w": None,
        "memory_used_bytes": 5,
        "other_processes": 1,
        "throttled": ["hardware thermal slowdown"],
    }
    assert sampling.gpu_state(Device("cuda", "G", "GPU-1")) == whole
    assert sampling.gpu_state(CPU) == {}
    with sampling.open_sensors(Device("cuda", "G", "GPU-1")) as (limits, read):
        sampled = read()
    assert limits == {"memory_bytes": 7, "temperature_c": 87, "power_w": None}
    of_sample = {name: whole[name] for name in ("memory_used_bytes", "temperature_c", "power_w", "sm_mhz")}
    assert sampled == of_sample | {"utilisation": None, "throttled": "hardware thermal slowdown"}


@pytest.mark.usefixtures("nvml")
def test_a_gpu_of_which_nvml_has_nothing(monkeypatch):
    for name in ("MemoryInfo", "ClockInfo", "CurrentClocksThrottleReasons", "Temperature"):
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", refuse)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTemperatureThreshold", refuse)
    with sampling.open_sensors(Device("cuda", "G", "GPU-1")) as (limits, read):
        assert set(read().values()) == set(limits.values()) == {None}


@pytest.mark.gpu
def test_the_state_of_this_gpu():
    state = sampling.gpu_state(devices.find("cuda"))
    assert state["sm_mhz"] > 0
    assert state["memory_used_bytes"] > 0
    assert isinstance(state["throttled"], list)


LOAD = """
import cupy, time
a = cupy.ones(1 << 27, dtype=cupy.float32)
a *= 1.0
cupy.cuda.Device().synchronize()
print("ready", flush=True)
while True:
    for _ in range(10):
        a *= 1.0
    cupy.cuda.Device().synchronize()
"""


@pytest.mark.gpu
@pytest.mark.parametrize("begins", ["before", "meanwhile"])
def test_a_second_process_on_the_gpu_is_named(begins, monkeypatch):
    config = composed(["device=cuda", "dataset=small", "protocol.max_seconds=6", "protocol.runs=1000"])

    def loaded():
        process = subprocess.Popen([sys.executable, "-c", LOAD], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        return process

    others = [loaded()] if begins == "before" else []
    after_run = Sampler.after_run

    def and_load(sampler):
        after_run(sampler)
        if sampler._readings and not others:
            others.append(loaded())

    monkeypatch.setattr(Sampler, "after_run", and_load)
    try:
        word, note = verdict([cell.run(config)], THRESHOLDS)
    finally:
        for process in others:
            process.kill()
    assert others
    assert "shared" in word
    assert "GPU" in note


# ---- during runs


def test_a_thread_samples_until_the_end_and_costs_little():
    seen = []
    start = time.perf_counter()
    with Sampler(CPU, lambda sample, limits: seen.append((sample, limits)), every=0.05) as sampler:
        while len(seen) < 20:
            np.ones((64, 64)) @ np.ones((64, 64))
    end = time.perf_counter()
    found = sampler.samples([(start, end)])
    taken, columns = found["taken"], found["columns"]
    assert 20 <= taken <= (end - start) / 0.05 + 2 and taken == len(seen) == len(columns["t_s"])
    assert found["cpu_seconds"] < 0.001 * taken
    assert columns["t_s"] == sorted(columns["t_s"])
    assert found["limits"]["memory_bytes"] == usable_bytes() == seen[0][1]["memory_bytes"]
    assert 0 < max(columns["memory_used_bytes"]) <= usable_bytes()
    assert not {"power_w", "sm_mhz"} & set(columns)
    time.sleep(0.1)
    assert len(seen) == taken  # nothing is sampled afterwards


@pytest.fixture
def sampled():
    """A sampler whose samples a test writes itself."""
    sampler = Sampler(CPU, lambda *_: None)
    sampler._start = 0.0
    return sampler


def test_timed_rows_lie_within_runs_that_follow_each_other(sampled):
    sampled._samples += [{"t_s": float(second)} for second in range(10)]
    timed = sampled.samples([(1.5, 4.0), (4.3, 6.2), (7.8, 9.9)])["columns"]["timed"]
    # The second before a sample counts as well; a gap of 0.3 s does not interrupt, one of 1.6 s does.
    assert timed == [0, 0, 0, 1, 1, 1, 1, 0, 0, 1]


def test_a_long_series_stays_short_and_keeps_what_is_extreme(sampled):
    sampled._samples += [
        {
            "t_s": second,
            "memory_used_bytes": 5 if second != 7777 else 9,
            "temperature_c": second % 50,
            "power_w": 300.0,
            "throttled": "power brake" if second == 1234 else "",
            "utilisation": None,
        }
        for second in range(10_000)
    ]
    found = sampled.samples([(0, 9_999)])
    columns = found["columns"]
    times = columns["t_s"]
    assert 120 <= len(times) <= 240 and found["samples_per_row"] == 64
    assert times == [64 * row for row in range(len(times))]
    assert columns["timed"] == [0, *[1] * (len(times) - 1)]
    full = zip(times, columns["memory_used_bytes"], strict=True)
    assert [second for second, used in full if used == 9] == [7777 // 64 * 64]
    slow = zip(times, columns["throttled"], strict=True)
    assert [second for second, cause in slow if cause] == [1234 // 64 * 64]
    assert set(columns["power_w"]) == {300.0} and "utilisation" not in columns
    assert set(columns["temperature_c"][:-1]) == {49}


def test_a_gpu_that_does_not_answer_has_no_samples(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    monkeypatch.setattr(sampling, "_host_sensors", None)
    with Sampler(Device("cuda", "H200", "GPU-1"), lambda *_: None) as sampler:
        time.sleep(0.01)
    found = sampler.samples([])
    assert (found["taken"], found["limits"], found["columns"]) == (0, {}, {"t_s": [], "timed": []})


def test_the_thermometer_of_a_cpu(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_HWMON", tmp_path)
    assert sampling._host_sensors()[1]()["temperature_c"] is None
    for name, number in (("nvme", 0), ("coretemp", 1)):
        folder = tmp_path / f"hwmon{number}"
        folder.mkdir()
        (folder / "name").write_text(f"{name}\n")
        (folder / "temp1_input").write_text(f"{50 + number}500\n")
    limits, read = sampling._host_sensors()
    assert (read()["temperature_c"], limits["temperature_c"]) == (51.5, None)
    (tmp_path / "hwmon1/temp1_crit").write_text("100000\n")
    assert sampling._host_sensors()[0]["temperature_c"] == 100


def test_memory_in_use_is_the_containers_or_the_machines(tmp_path, monkeypatch):
    use, missing = tmp_path / "memory.current", str(tmp_path / "missing")
    monkeypatch.setattr(sampling, "_IN_CONTAINER", (missing, str(use)))
    for content, usable, is_containers in (
        ("5000\n", machine_bytes(), False),
        ("5000\n", 1 << 20, True),
        ("unknown\n", 1 << 20, False),
    ):
        use.write_text(content)
        monkeypatch.setattr(sampling, "usable_bytes", lambda usable=usable: usable)
        assert (sampling.bytes_in_use() == 5000) == is_containers
        assert is_containers or 1 << 24 < sampling.bytes_in_use() < machine_bytes()


@pytest.mark.gpu
def test_a_gpu_has_every_column():
    device = gpus_here()[0]
    with Sampler(device, lambda *_: None, every=0.1) as sampler:
        time.sleep(0.5)
    found = sampler.samples([])
    assert set(sampling._OF_SAMPLE) <= set(found["columns"])
    assert found["limits"]["memory_bytes"] > GIB and found["limits"]["power_w"] > 0
