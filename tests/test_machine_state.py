"""The state of the machine: which words its readings and samples earn, in tables and in lines."""

import math

import pandas as pd
import pytest
from conftest import ROOT
from real_records import edited, quick, reference, without
from records_of import QUIET

from snn.analysis.machine_state import drift, mean_costs, verdict, watched
from snn.config.groups import read_yaml
from snn.hardware import devices, sampling
from snn.hardware.devices import Device
from snn.measurement import progress
from snn.records import store
from snn.records.store import sealed
from snn.tables.origin import warnings as table

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
CPU = Device("cpu", "Abacus")
GIB = 1 << 30
EDGES = {"noisy": 0.05, "other_cores": 0.1, "stolen_cores": 0.2, "others_gpu_bytes": 1024}
EDGES |= {"drifted": 0.5, "drifted_least_us": 2.0}


def state_of(number=1, readings=(), seconds=(1.0, 1.0), probe=None, cell=None, neighbours=(), **host):
    """A round of a quiet machine with 10 CPUs, but for what is given."""
    unknown = dict.fromkeys(("other_cores", "stolen_cores"))
    machine = {"host": {"cpus": 10, **host}, "probe": probe or {"before": {}, "after": {}}}
    machine |= {"readings": [unknown | one for one in readings], "neighbours": list(neighbours)}
    runs = [{"seconds": one} for one in seconds]
    return {"round": number, "machine": machine, "runs": runs, "cell": cell}


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
        ({"copy_us": 5.0, "malloc_us": 0.0}, ""),
        ({"copy_us": 15.5, "malloc_us": 4.0}, "copy cost +55%"),
        ({"copy_us": 4.5, "malloc_us": 4.5}, "copy cost -55%, malloc cost +125%"),
    ):
        assert drift(before, after, EDGES) == said
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
