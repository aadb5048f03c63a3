"""The state of the machine: which words its readings and samples earn, in tables and in lines."""

import math
import statistics

import pandas as pd
import pytest
from conftest import ROOT
from real_records import edited, measured, quick, reference, without
from records_of import QUIET

from snn.analysis import machine_state
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


def of_memory(*nbytes):
    return [{"memory_used_bytes": one} for one in nbytes]


@pytest.mark.parametrize(
    ("edge", "beyond", "note"),
    [
        ([{"other_cores": 1.0}], [{"other_cores": 1.25}], "other processes used 1.25 of 10 CPUs"),
        ([{"other_cores": None}], [{}, {"other_cores": 9.0}], "other processes used 9.00 of 10 CPUs"),
        ([{"other_cores": 1.0}, {}], [{"other_cores": 9.0}, {}], "other processes used 9.00 of 10 CPUs"),
        ([{"stolen_cores": 2.0}], [{"stolen_cores": 2.25}], "the hypervisor took 2.25 of 10 CPUs"),
        ([{"other_processes": 0}], [{"other_processes": 1}], "1 other processes on the GPU"),
        ([{"other_processes": None}], [{"other_processes": n} for n in (3, 2)], "3 other processes"),
        # The last reading is of a training that has freed what it held.
        (of_memory(4096, 5120, 5120), of_memory(4096, 5121, 4096), f"{CHANGED} 1.001 KiB"),
        (of_memory(4096, None, 0, 8192), of_memory(8192, 4096, 5000, 0), f"{CHANGED} 4 KiB"),
    ],
)
def test_a_machine_is_shared_beyond_each_threshold(edge, beyond, note):
    assert verdict([state_of(readings=edge)], EDGES) == ("quiet", "")
    word, said = verdict([state_of(readings=beyond)], EDGES)
    assert word == "shared" and said.startswith(note)


@pytest.mark.parametrize(
    ("host", "note"),
    [
        ({"others_gpu_bytes": 1024}, ""),
        ({"others_gpu_bytes": None}, ""),
        ({"others_gpu_bytes": 2048}, "other processes held 2 KiB of GPU memory before the cell"),
        ({"cpus": None, "readings": [{"other_cores": 0.3}]}, "other processes used 0.30 of 1 CPUs"),
    ],
)
def test_so_it_is_by_what_the_host_says(host, note):
    assert verdict([state_of(**host)], EDGES) == ("shared" if note else "quiet", note)


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


def test_several_causes_are_named_gravest_first_each_round_with_its_number():
    both = [{"other_cores": 2.0, "other_processes": 1, "throttled": ["power"]}, {"throttled": ["cap"]}]
    assert verdict([state_of(readings=both, seconds=(1.0, 2.0))], EDGES) == (
        "shared, throttled, noisy",
        "other processes used 2.00 of 10 CPUs, 1 other processes on the GPU; cap, power; "
        "coefficient of variation of the runs 47.1%",
    )
    loud = [{"other_processes": 1, "throttled": None}]
    assert verdict([state_of(1), state_of(2, loud), state_of(3, loud)], EDGES) == (
        "shared",
        "round 2: 1 other processes on the GPU; round 3: 1 other processes on the GPU",
    )


def test_runs_of_all_rounds_vary_together():
    assert verdict([state_of(1, seconds=(1.0,)), state_of(2, seconds=(2.0,))], EDGES)[0] == "noisy"
    for few in ((1.0,), ()):
        assert verdict([state_of(seconds=few)], EDGES) == ("quiet", "")
    edge = EDGES | {"noisy": statistics.stdev((1.0, 2.0)) / 1.5}
    assert verdict([state_of(seconds=(1.0, 2.0))], edge)[0] == "quiet"
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


def test_of_costs_that_only_some_probes_found_there_is_no_mean():
    assert mean_costs([{}, {"copy_us": 1.0, "launch_us": 5.0}, {"copy_us": 3.0}]) == {"copy_us": 2.0}
    assert mean_costs([{}, {}]) == mean_costs([]) == {}


def test_what_was_not_measured_has_no_word_and_a_record_without_readings_is_unknown():
    unsupported = {"status": "unsupported"}
    assert verdict([unsupported, unsupported], EDGES) == ("", "")
    assert verdict([unsupported, state_of(2)], EDGES) == ("unknown", "the record holds no readings")
    assert verdict([{}], EDGES)[0] == "unknown"


# ---- samples


def samples(limits=None, timed=None, **columns):
    """Samples of one second each; in timed runs unless ``timed`` says otherwise."""
    length = len(next(iter(columns.values())))
    times = {"t_s": list(range(length)), "timed": timed or [1] * length}
    known = {"memory_bytes": 100 * GIB, "temperature_c": 90, "power_w": 700} | (limits or {})
    taken = {"taken": length, "samples_per_row": 1, "cpu_seconds": 0.0}
    return taken | {"limits": known, "columns": times | columns}


def warned(found):
    return watched({"machine": {"samples": found}}, THRESHOLDS)


def drop(at, *values, usual=90):
    """Twenty values, all as usual but for these."""
    return [*[usual] * at, *values, *[usual] * (20 - at - len(values))]


FULL, POWER = "memory full", "irregular power"
DROPS = ", ".join(f"0% busy, usually 90%, from {start} to {start + 2} s" for start in (2, 7, 12))


@pytest.mark.parametrize(
    ("given", "word", "note"),
    [
        ({"memory_used_bytes": [90 * GIB] * 3}, "memory full", ""),
        ({"memory_used_bytes": [0, 92 * GIB, 95 * GIB, 0]}, FULL, "95% of the memory in use from 1 to 3 s"),
        ({"memory_used_bytes": [99 * GIB], "limits": {"memory_bytes": None}}, "memory full", ""),
        ({"memory_used_bytes": [None, 91 * GIB]}, "memory full", "91% of the memory in use at 1 s"),
        ({"temperature_c": [60, 87, 60]}, "hot", ""),
        ({"temperature_c": [60, 89, 88, 60, 60]}, "hot", "89 C, it slows down at 90 C, from 1 to 3 s"),
        ({"temperature_c": [60, 88, 60], "limits": {"temperature_c": None}}, "hot", "88 C from 1 to 2 s"),
        ({"utilisation": drop(20)}, "idle drops", ""),
        ({"utilisation": drop(5, 40)}, "idle drops", ""),  # of one second
        ({"utilisation": drop(5, 40, 10, 40)}, "idle drops", "10% busy, usually 90%, from 4 to 7 s"),
        ({"utilisation": drop(0, 40, 10, 40)}, "idle drops", "10% busy, usually 90%, from 0 to 2 s"),
        ({"utilisation": drop(5, 45, 45, 45)}, "idle drops", ""),  # half as busy as usual, not less
        ({"utilisation": drop(5, 1, 1, 1, usual=9)}, "idle drops", ""),  # hardly used at any time
        # Used just enough.
        ({"utilisation": drop(5, 1, 1, 1, usual=10)}, "idle drops", "1% busy, usually 10%, from 4 to 7 s"),
        ({"utilisation": drop(5, 5, 5, 5), "timed": drop(5, 0, 0, 0, usual=1)}, "idle drops", ""),
        ({"utilisation": [90, 90, 0, 0]}, "idle drops", ""),  # too few to say what is usual
        ({"utilisation": [90, 90, 90, 0, 0]}, "idle drops", "0% busy, usually 90%, from 2 to 4 s"),
        ({"utilisation": [90, 90, 90, 0, 0] * 3}, "idle drops", DROPS),
        ({"utilisation": [90, 90, 90, 0, 0] * 8}, "idle drops", f"{DROPS}, and 5 more times"),
        ({"power_w": [400, 400, 100, 100]}, "irregular power", ""),
        # 30% beside what is usual, not more.
        ({"power_w": drop(3, 520, 280, 520, usual=400)}, "irregular power", ""),
        ({"power_w": drop(3, 600, 650, 600, usual=400)}, POWER, "650 W, usually 400 W, from 2 to 5 s"),
        ({"power_w": drop(3, 100, 100, usual=400)}, "irregular power", "100 W, usually 400 W, from 2 to 4 s"),
        # What is farthest, above or below.
        ({"power_w": drop(3, 540, 100, 540, usual=400)}, POWER, "100 W, usually 400 W, from 2 to 5 s"),
    ],
)
def test_warnings_name_what_and_when(given, word, note):
    assert warned(samples(**given)) == ({word: note} if note else {})


def test_what_is_usual_is_so_in_the_timed_runs_alone():
    """Before and between them the GPU waits."""
    found = samples(timed=[0] * 12 + [1] * 10, power_w=[90] * 12 + [400] * 10)
    assert machine_state.usual(found, "power_w") == 400


def test_a_row_of_several_samples_lasts_as_long_as_they_did():
    """Of 8 samples each: the row from 16 to 23 s is of the time from 15 s on."""
    low = samples(utilisation=[90, 90, 20, 90, 90, 90, 10])
    low["columns"]["t_s"], low["samples_per_row"] = [8 * row for row in range(7)], 8
    assert warned(low) == {"idle drops": "20% busy, usually 90%, from 15 to 23 s"}  # not the last's


def test_a_machines_state_has_the_warnings_beside_its_words():
    hot = QUIET | {"samples": samples(temperature_c=[60, 91])}
    records = [state_of(number) | {"machine": machine} for number, machine in ((1, QUIET), (2, hot))]
    assert verdict(records, THRESHOLDS) == ("hot", "round 2: 91 C, it slows down at 90 C, at 1 s")
    assert verdict(records[:1], THRESHOLDS) == ("quiet", "")


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


def test_short_cells_have_no_false_alarms():
    for strategy in ("reference", "combined"):
        record = measured(f"strategy={strategy}", "network.hidden=[8]", "training.epochs=30")
        assert set(watched(record, THRESHOLDS)) <= {"memory full", "hot"}
