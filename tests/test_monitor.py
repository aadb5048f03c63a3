"""What is read of the machine: CPUs in use by others, the state of a GPU, and a second process on it."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pynvml
import pytest
from test_machine_state import CPU, THRESHOLDS

from snn.analysis.machine_state import verdict
from snn.config.compose import composed
from snn.hardware import monitor
from snn.hardware.devices import Device
from snn.hardware.monitor import CpuCounters, Watch
from snn.measurement import cell


def test_cores_in_use():
    before, after = CpuCounters(10.0, 5.0, 1.0, 2.0), CpuCounters(14.0, 11.0, 2.0, 4.0)
    assert monitor.cores_in_use(before, after) == {"other_cores": 1.0, "stolen_cores": 0.25}
    assert monitor.cores_in_use(None, after) == {"other_cores": None, "stolen_cores": None}


def test_only_cpus_that_we_may_use_are_counted(tmp_path, monkeypatch):
    stat = tmp_path / "stat"
    stat.write_text(
        "cpu  90 0 90 900 0 0 0 90 0 0\n"
        "cpu0 10 2 30 300 0 1 2 40 0 0\n"
        "cpu1 50 0 50 500 0 0 0 50 0 0\n"
        "cpu12 5 0 5 50 0 0 0 5 0 0\nintr 8 0\n"
    )
    monkeypatch.setattr(monitor, "_PROC_STAT", stat)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 12})
    ticks = os.sysconf("SC_CLK_TCK")
    counters = monitor._cpu_counters()
    assert (round(counters.busy * ticks), round(counters.stolen * ticks)) == (55, 45)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {7})
    assert monitor._cpu_counters() is None


def _spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


@pytest.mark.alone
@pytest.mark.skipif(not monitor._PROC_STAT.exists(), reason="the system has no /proc/stat")
def test_another_process_is_seen_and_our_own_work_is_not_taken_for_one():
    watch = Watch(CPU)
    _spin(0.6)
    watch.after_run()
    watch.after_run()  # too soon for another look
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        _spin(0.7)
        watch.after_run()
        other.kill()
    alone, beside = (reading["other_cores"] for reading in watch.readings)
    assert len(watch.finish()) >= 2
    if alone > 0.5:
        pytest.skip(f"others use {alone:.2f} processors of this machine already")
    assert beside > alone + 0.3
    assert beside > 0.4


def test_a_cell_too_short_for_the_counters_claims_nothing_of_the_processors():
    (reading,) = Watch(CPU).finish()
    assert reading["other_cores"] is None
    assert reading["stolen_cores"] is None


def test_the_state_of_a_gpu_and_what_it_does_not_tell(monkeypatch):
    def refuse(*arguments):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    answers = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetTemperature": lambda handle, kind: 40,
        "nvmlDeviceGetPowerUsage": refuse,
        "nvmlDeviceGetMemoryInfo": lambda handle, version: SimpleNamespace(used=5),
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=p) for p in (1, 2)],
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: (
            pynvml.nvmlClocksThrottleReasonGpuIdle | pynvml.nvmlClocksThrottleReasonHwThermalSlowdown
        ),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    assert monitor.gpu_state(Device("cuda", "G", "GPU-1")) == {
        "sm_mhz": 1980,
        "memory_mhz": 1980,
        "temperature_c": 40,
        "power_w": None,
        "memory_used_bytes": 5,
        "other_processes": 1,
        "throttled": ["hardware thermal slowdown"],
    }
    assert monitor.gpu_state(CPU) == {}


@pytest.mark.gpu
def test_the_state_of_this_gpu():
    from snn.hardware import devices

    state = monitor.gpu_state(devices.find("cuda"))
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
    after_run = Watch.after_run

    def and_load(watch):
        after_run(watch)
        if watch.readings and not others:
            others.append(loaded())

    monkeypatch.setattr(Watch, "after_run", and_load)
    try:
        word, note = verdict([cell.run(config)], THRESHOLDS)
    finally:
        for process in others:
            process.kill()
    assert others
    assert "shared" in word
    assert "GPU" in note
