"""The state of the machine: what is read of it, and which words readings and samples earn."""

import math
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pandas as pd
import pynvml
import pytest
from conftest import ROOT
from real_records import edited, quick, reference, without
from records_of import QUIET

from snn.analysis.machine_state import drift, mean_costs, verdict, watched
from snn.config.compose import composed
from snn.config.groups import read_yaml
from snn.hardware import devices, sampling
from snn.hardware.devices import Device, gpus_here, machine_bytes, usable_bytes
from snn.hardware.sampling import CpuCounters, Sampler
from snn.measurement import cell, progress
from snn.records import store
from snn.records.store import sealed
from snn.tables.origin import warnings as table

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
CPU = Device("cpu", "Abacus")
GIB = 1 << 30
EDGES = {"noisy": 0.05, "other_cores": 0.1, "stolen_cores": 0.2, "others_gpu_bytes": 1024}
EDGES |= {"drifted": 1.5, "drifted_least_us": 2.0}


def state_of(number=1, readings=(), seconds=(1.0, 1.0), probe=None, cell=None, neighbours=(), **host):
    """A round of a quiet machine with 10 CPUs, but for what is given."""
    unknown = dict.fromkeys(("other_cores", "stolen_cores"))
    machine = {"host": {"cpus": 10, **host}, "probe": probe or {"before": {}, "after": {}}}
    machine |= {"readings": [unknown | one for one in readings], "neighbours": list(neighbours)}
    runs = [{"seconds": one} for one in seconds]
    return {"round": number, "machine": machine, "runs": runs, "cell": {"training": {}} | (cell or {})}


# ---- readings


CHANGED = "GPU memory of other processes changed by"


@pytest.mark.parametrize(
    ("key", "edge", "beyond", "note"),
    [
        ("other_cores", [1.0], [1.25], "other processes used 1.25 of 10 CPUs"),
        ("other_cores", [None], [None, 9.0], "other processes used 9.00 of 10 CPUs"),
        ("other_cores", [1.0, None], [9.0, None], "other processes used 9.00 of 10 CPUs"),
        ("stolen_cores", [2.0], [2.25], "the hypervisor took 2.25 of 10 CPUs"),
        ("other_processes", [0], [1], "1 other processes on the GPU"),
        ("other_processes", [None], [3, 2], "3 other processes"),
        # The last reading is of a training that has freed what it held.
        ("memory_used_bytes", [4096, 5120, 5120], [4096, 5121, 4096], f"{CHANGED} 1.001 KiB"),
        ("memory_used_bytes", [4096, None, 0, 8192], [8192, 4096, 5000, 0], f"{CHANGED} 4 KiB"),
    ],
)
def test_a_machine_is_shared_beyond_each_threshold(key, edge, beyond, note):
    def state(values):
        return [state_of(readings=[{key: value} for value in values])]

    assert verdict(state(edge), EDGES) == ("quiet", "")
    word, said = verdict(state(beyond), EDGES)
    assert word == "shared" and said.startswith(note)


@pytest.mark.parametrize(
    ("strategy", "neighbours", "cores", "word"),
    [
        ("reference", [], 0.0, "quiet"),
        ("reference", ["GPU-2"], 0.0, "shared"),
        ("graph", ["GPU-2"], 0.0, "quiet"),
        ("graph", ["GPU-2"], 2.0, "quiet"),  # of 10, one of them the neighbour's
        ("graph", ["GPU-2"], 2.1, "shared"),
        ("graph", [], 2.0, "shared"),
    ],
)
def test_a_neighbour_matters_to_strategies_that_it_slows_down(strategy, neighbours, cores, word):
    cell = {"strategy": {"name": strategy}, "protocol": {}}
    state = state_of(readings=[{"other_cores": cores}], neighbours=neighbours, cell=cell)
    found, note = verdict([state], EDGES)
    assert found == word
    assert ("other cells ran on GPU-2" in note) == (strategy == "reference" and bool(neighbours))


@pytest.mark.parametrize(
    ("host", "note"),
    [
        ({"others_gpu_bytes": 1024}, ""),
        ({"others_gpu_bytes": None}, ""),
        ({"others_gpu_bytes": 2048}, "other processes held 2 KiB of GPU memory before the cell"),
        ({"cpus": None, "readings": [{"other_cores": 0.3}]}, "other processes used 0.30 of 1 CPUs"),
    ],
)
def test_a_machine_is_shared_by_what_its_host_says(host, note):
    assert verdict([state_of(**host)], EDGES) == ("shared" if note else "quiet", note)


def test_several_causes_are_named_gravest_first_each_round_with_its_number():
    both = [{"other_cores": 2.0, "other_processes": 1, "throttled": ["power"]}, {"throttled": ["cap"]}]
    word, note = verdict([state_of(readings=both, seconds=(1.0, 2.0))], EDGES)
    assert word == "shared, throttled, noisy"
    causes = ("other processes used 2.00 of 10 CPUs, 1 other processes on the GPU", "cap, power")
    assert note.split("; ") == [*causes, "coefficient of variation of the runs 47.1%"]
    loud = [{"other_processes": 1, "throttled": None}]
    said = "1 other processes on the GPU"
    found = verdict([state_of(1), state_of(2, loud), state_of(3, loud)], EDGES)
    assert found == ("shared", f"round 2: {said}; round 3: {said}")
    hot = QUIET | {"samples": samples(temperature_c=[60, 91])}
    records = [state_of(number) | {"machine": machine} for number, machine in ((1, QUIET), (2, hot))]
    assert verdict(records, THRESHOLDS) == ("hot", "round 2: 91 C, it slows down at 90 C, at 1 s")


def test_runs_of_all_rounds_vary_together():
    assert verdict([state_of(1, seconds=(1.0,)), state_of(2, seconds=(2.0,))], EDGES)[0] == "noisy"
    for few in ((1.0,), ()):
        assert verdict([state_of(seconds=few)], EDGES) == ("quiet", "")
    for factor, word in ((1 + 1e-9, "quiet"), (1 - 1e-9, "noisy")):
        edge = EDGES | {"noisy": 0.1 / math.sqrt(2) * factor}
        assert verdict([state_of(seconds=(0.95, 1.05))], edge)[0] == word


def test_a_cost_drifts_beyond_both_thresholds():
    before = {"copy_us": 10.0, "malloc_us": 2.0, "gone_us": 1.0}
    for after, said in (
        ({"copy_us": 15.0, "malloc_us": 4.0}, ""),
        ({"copy_us": 6.7, "malloc_us": 0.0}, ""),
        ({"copy_us": 15.5, "malloc_us": 4.0}, "copy cost +55%"),
        ({"copy_us": 6.5, "malloc_us": 4.5}, "copy cost -35%, malloc cost +125%"),
    ):
        assert drift(before, after, EDGES) == said
        assert bool(drift(after, before, EDGES)) == bool(said)
        probes = {"before": before, "after": after}
        assert verdict([state_of(probe=probes)], EDGES) == ("drifted" if said else "quiet", said)
    assert mean_costs([{}, {"copy_us": 1.0, "launch_us": 5.0}, {"copy_us": 3.0}]) == {"copy_us": 2.0}
    assert mean_costs([{}, {}]) == mean_costs([]) == {}


def test_what_was_not_measured_has_no_word_and_a_record_without_readings_is_unknown():
    unsupported = {"status": "unsupported"}
    assert verdict([unsupported, unsupported], EDGES) == ("", "")
    assert verdict([unsupported, state_of(2)], EDGES) == ("unknown", "the record holds no readings")
    assert verdict([{}], EDGES)[0] == "unknown"


# ---- samples


def samples(limits=None, timed=None, every=1, **columns):
    """Samples, ``every`` so many seconds a row; in timed runs unless ``timed`` says otherwise."""
    length = len(next(iter(columns.values())))
    times = {"t_s": [every * row for row in range(length)], "timed": timed or [1] * length}
    known = {"memory_bytes": 100 * GIB, "temperature_c": 90, "power_w": 700} | (limits or {})
    taken = {"taken": length, "samples_per_row": every, "cpu_seconds": 0.0}
    return taken | {"limits": known, "columns": times | columns}


def drop(at, *values, usual=90):
    """Twenty values, all as usual but for these."""
    return [*[usual] * at, *values, *[usual] * (20 - at - len(values))]


MEMORY, HEAT, BUSY, POWER = "memory_used_bytes", "temperature_c", "utilisation", "power_w"


WORDS = {MEMORY: "memory full", HEAT: "hot", BUSY: "idle drops", POWER: "irregular power"}


DROPS = ", ".join(f"0% busy, usually 90%, from {start} to {start + 2} s" for start in (2, 7, 12))


@pytest.mark.parametrize(
    ("column", "values", "more", "note"),
    [
        (MEMORY, [90 * GIB] * 3, {}, ""),
        (MEMORY, [0, 92 * GIB, 95 * GIB, 0], {}, "95% of the memory in use from 1 to 3 s"),
        (MEMORY, [99 * GIB], {"limits": {"memory_bytes": None}}, ""),
        (MEMORY, [None, 91 * GIB], {}, "91% of the memory in use at 1 s"),
        (HEAT, [60, 87, 60], {}, ""),
        (HEAT, [60, 89, 88, 60, 60], {}, "89 C, it slows down at 90 C, from 1 to 3 s"),
        (HEAT, [60, 88, 60], {"limits": {"temperature_c": None}}, "88 C from 1 to 2 s"),
        (BUSY, drop(20), {}, ""),
        (BUSY, drop(5, 40), {}, ""),  # of one second
        (BUSY, drop(5, 40, 10, 40), {}, "10% busy, usually 90%, from 4 to 7 s"),
        (BUSY, drop(0, 40, 10, 40), {}, "10% busy, usually 90%, from 0 to 2 s"),
        (BUSY, drop(5, 45, 45, 45), {}, ""),  # half as busy as usual, not less
        (BUSY, drop(5, 1, 1, 1, usual=9), {}, ""),  # hardly used at any time
        (BUSY, drop(5, 1, 1, 1, usual=10), {}, "1% busy, usually 10%, from 4 to 7 s"),  # used just enough
        (BUSY, drop(5, 5, 5, 5), {"timed": drop(5, 0, 0, 0, usual=1)}, ""),
        (BUSY, [90, 90, 0, 0], {}, ""),  # too few to say what is usual
        (BUSY, [90, 90, 90, 0, 0], {}, "0% busy, usually 90%, from 2 to 4 s"),
        (BUSY, [90, 90, 90, 0, 0] * 3, {}, DROPS),
        (BUSY, [90, 90, 90, 0, 0] * 8, {}, f"{DROPS}, and 5 more times"),
        # Of 8 samples each: the row from 16 to 23 s is of the time from 15 s on; the last row is of no time.
        (BUSY, [90, 90, 20, 90, 90, 90, 10], {"every": 8}, "20% busy, usually 90%, from 15 to 23 s"),
        (POWER, [400, 400, 100, 100], {}, ""),
        (POWER, drop(3, 520, 280, 520, usual=400), {}, ""),  # 30% beside what is usual, not more
        (POWER, drop(3, 600, 650, 600, usual=400), {}, "650 W, usually 400 W, from 2 to 5 s"),
        (POWER, drop(3, 100, 100, usual=400), {}, "100 W, usually 400 W, from 2 to 4 s"),
        # What is farthest, above or below, of the timed runs alone: before and between them the GPU waits.
        (POWER, drop(3, 540, 100, 540, usual=400), {}, "100 W, usually 400 W, from 2 to 5 s"),
        (POWER, [90] * 12 + [400] * 10, {"timed": [0] * 12 + [1] * 10}, ""),
    ],
)
def test_warnings_name_what_and_when(column, values, more, note):
    found = {"machine": {"samples": samples(**more, **{column: values})}}
    assert watched(found, THRESHOLDS) == ({WORDS[column]: note} if note else {})


def test_a_record_keeps_its_samples_and_an_old_one_has_none():
    found = reference()["machine"]["samples"]
    assert found["taken"] >= 1 and found["columns"]["t_s"][0] < 0.1
    old = without(reference(), ("machine", "samples"))
    assert "samples" not in store.checked(sealed(old), "old")["machine"] and watched(old, THRESHOLDS) == {}


def test_the_table_has_a_row_per_record_with_or_without_samples():
    new, way = reference(), ("machine", "samples")
    some = samples(
        temperature_c=[60, 91, 60], utilisation=[0, 80, 90], timed=[0, 1, 1], memory_used_bytes=[GIB] * 3
    )
    short = edited(new, ("provenance", "elapsed_seconds"), 0.0)
    records = {"new": new, "old": without(new, way), "hot": edited(new, way, some), "short": short}
    rows = table.build(records, THRESHOLDS).set_index("record")
    assert list(rows["warnings"]) == ["", "", "hot", ""]
    assert rows.loc["hot", "note"] == "91 C, it slows down at 90 C, from 1 to 2 s"
    of_hot = ("max_temperature_c", "median_utilisation", "max_memory_fraction")
    assert rows.loc["hot", list(of_hot)].tolist() == [91, 85, 0.01]  # the median is that of timed runs
    assert rows.loc["old", ["samples", "sampling"]].isna().all() and pd.isna(rows.loc["short", "sampling"])
    taken, elapsed = new["machine"]["samples"], new["provenance"]["elapsed_seconds"]
    assert rows.loc["new", "samples"] == taken["taken"]
    assert rows.loc["new", "sampling"] == taken["cpu_seconds"] / elapsed


def test_the_live_line_comes_where_no_other_came(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    printer = progress.Printer(reference()["cell"], 1, 256, 32, None)
    sample = {"t_s": 34.2, "memory_used_bytes": 13 * GIB, "utilisation": 62, "temperature_c": 71}
    sample |= {"power_w": 320.4, "sm_mhz": None, "throttled": ""}
    for since, line in (
        (0, ""),
        (10, "small reference, round 1: 34 s, 13 GiB of memory used (10%), 62% busy, 71 C, 320 W\n"),
        (0, ""),
    ):
        printer._last -= since
        printer.live(sample, {"memory_bytes": 130 * GIB})
        assert capsys.readouterr().err == line


def test_the_end_of_a_cell_prints_its_warnings(tmp_path, monkeypatch, capsys):
    from snn import __main__

    monkeypatch.setattr(sampling, "bytes_in_use", lambda: int(0.95 * devices.usable_bytes()))
    assert __main__.main(quick("network.hidden=[4]", f"output={tmp_path / 'cell.json'}")) == 0
    assert "snn: warning: 95% of the memory in use" in capsys.readouterr().err


# ---- what is read: CPUs in use by others, a GPU's state, and the thread that samples sensors


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
        while len(seen) < 5:
            time.sleep(0.01)
    end = time.perf_counter()
    found = sampler.samples([(start, end)])
    taken, columns = found["taken"], found["columns"]
    assert 5 <= taken <= (end - start) / 0.05 + 2 and taken == len(seen) == len(columns["t_s"])
    assert 0 < found["cpu_seconds"] < 0.2 * (end - start)
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
def test_a_gpu_has_a_state_and_every_column():
    device = gpus_here()[0]
    with Sampler(device, lambda *_: None, every=0.1) as sampler:
        time.sleep(0.5)
        state = sampling.gpu_state(device)
    assert state["sm_mhz"] > 0 and state["memory_used_bytes"] > 0 and isinstance(state["throttled"], list)
    found = sampler.samples([])
    assert set(sampling._OF_SAMPLE) <= set(found["columns"])
    assert found["limits"]["memory_bytes"] > GIB and found["limits"]["power_w"] > 0
