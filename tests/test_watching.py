"""Samples of the machine, and what they warn of."""

import json

import pandas as pd
import pytest
from conftest import ROOT
from real_records import measured, reference
from records_of import QUIET

from snn.analysis import machine_state
from snn.analysis.machine_state import verdict, watched
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


def samples(limits=None, timed=None, **columns):
    """Samples of one second each; in timed runs unless ``timed`` says otherwise."""
    length = len(next(iter(columns.values())))
    times = {"t_s": list(range(length)), "timed": timed or [1] * length}
    known = {"memory_bytes": 100 * GIB, "temperature_c": 90, "power_w": 700} | (limits or {})
    return {
        "taken": length,
        "samples_per_row": 1,
        "cpu_seconds": 0.0,
        "limits": known,
        "columns": times | columns,
    }


def noted(**given):
    return watched({"machine": {"samples": samples(**given)}}, THRESHOLDS)


STEADY = [90] * 20


def with_drop(at, values, usual=90, length=20):
    return [*[usual] * at, *values, *[usual] * (length - at - len(values))]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"memory_used_bytes": [90 * GIB] * 3}, {}),
        (
            {"memory_used_bytes": [80 * GIB, 92 * GIB, 95 * GIB, 80 * GIB]},
            {"memory full": "95% of the memory in use from 1 to 3 s"},
        ),
        ({"memory_used_bytes": [99 * GIB], "limits": {"memory_bytes": None}}, {}),
        ({"memory_used_bytes": [None, 91 * GIB]}, {"memory full": "91% of the memory in use at 1 s"}),
        ({"temperature_c": [60, 87, 60]}, {}),
        (
            {"temperature_c": [60, 89, 88, 60, 60]},
            {"hot": "89 C, it slows down at 90 C, from 1 to 3 s"},
        ),
        ({"temperature_c": [60, 88, 60], "limits": {"temperature_c": None}}, {"hot": "88 C from 1 to 2 s"}),
        ({"utilisation": STEADY}, {}),
        ({"utilisation": with_drop(5, [40])}, {}),  # of one second
        (
            {"utilisation": with_drop(5, [40, 10, 40])},
            {"idle drops": "10% busy, usually 90%, from 4 to 7 s"},
        ),
        ({"utilisation": with_drop(0, [40, 10, 40])}, {"idle drops": "10% busy, usually 90%, from 0 to 2 s"}),
        ({"utilisation": with_drop(5, [45, 45, 45])}, {}),  # half as busy as usual, not less
        ({"utilisation": with_drop(5, [1, 1, 1], usual=9)}, {}),  # hardly used at any time
        (
            {"utilisation": with_drop(5, [1, 1, 1], usual=10)},  # used just enough
            {"idle drops": "1% busy, usually 10%, from 4 to 7 s"},
        ),
        ({"utilisation": with_drop(5, [5] * 3), "timed": with_drop(5, [0] * 3, usual=1)}, {}),
        ({"utilisation": [90, 90, 0, 0], "timed": [1] * 4}, {}),  # too few to say what is usual
        ({"power_w": [400, 400, 100, 100]}, {}),
        ({"utilisation": [90, 90, 90, 0, 0]}, {"idle drops": "0% busy, usually 90%, from 2 to 4 s"}),
        ({"power_w": with_drop(3, [520, 280, 520], usual=400)}, {}),  # 30% beside what is usual, not more
        (
            {"power_w": with_drop(3, [600, 650, 600], usual=400)},
            {"irregular power": "650 W, usually 400 W, from 2 to 5 s"},
        ),
        (
            {"power_w": with_drop(3, [100, 100], usual=400)},
            {"irregular power": "100 W, usually 400 W, from 2 to 4 s"},
        ),
        (
            {"power_w": with_drop(3, [540, 100, 540], usual=400)},  # what is farthest, above or below
            {"irregular power": "100 W, usually 400 W, from 2 to 5 s"},
        ),
        (
            {"utilisation": [90, 90, 90, 0, 0] * 3},
            {
                "idle drops": ", ".join(
                    f"0% busy, usually 90%, from {start} to {start + 2} s" for start in (2, 7, 12)
                )
            },
        ),
        (
            {"utilisation": [90, 90, 90, 0, 0] * 8},
            {
                "idle drops": ", ".join(
                    f"0% busy, usually 90%, from {start} to {start + 2} s" for start in (2, 7, 12)
                )
                + ", and 5 more times"
            },
        ),
    ],
)
def test_warnings_name_what_and_when(given, expected):
    assert noted(**given) == expected


def test_what_is_usual_is_so_in_the_timed_runs_alone():
    """Before and between them the GPU waits."""
    usual = machine_state.usual(samples(timed=[0] * 12 + [1] * 10, power_w=[90] * 12 + [400] * 10), "power_w")
    assert usual == 400


def test_a_row_of_several_samples_lasts_as_long_as_they_did():
    """Of 8 samples each: the row from 16 to 23 s is of the time from 15 s on."""
    low = samples(utilisation=[90, 90, 20, 90, 90, 90, 10])
    low["columns"]["t_s"], low["samples_per_row"] = [8 * row for row in range(7)], 8
    assert watched({"machine": {"samples": low}}, THRESHOLDS) == {
        "idle drops": "20% busy, usually 90%, from 15 to 23 s"  # when the last one ended is unknown
    }


def test_a_machines_state_has_the_warnings_beside_its_words():
    hot = QUIET | {"samples": samples(temperature_c=[60, 91])}
    records = [
        {"round": number, "machine": machine, "runs": [{"seconds": 1.0}] * 2}
        for number, machine in ((1, QUIET), (2, hot))
    ]
    assert verdict(records, THRESHOLDS) == ("hot", "round 2: 91 C, it slows down at 90 C, at 1 s")
    assert verdict(records[:1], THRESHOLDS) == ("quiet", "")


# ---- records, tables and lines


def test_a_record_keeps_its_samples_and_an_old_one_has_none():
    record = reference()
    found = record["machine"]["samples"]
    assert found["taken"] >= 1 and found["columns"]["t_s"][0] < 0.1
    old = json.loads(json.dumps(record))
    del old["machine"]["samples"], old["digest"]
    assert "samples" not in store.checked(sealed(old), "old")["machine"]


def test_the_table_has_a_row_per_record_with_or_without_samples():
    new, old = reference(), json.loads(json.dumps(reference()))
    del old["machine"]["samples"]
    hot = json.loads(json.dumps(reference()))
    hot["machine"]["samples"] = samples(
        temperature_c=[60, 91, 60], utilisation=[0, 80, 90], timed=[0, 1, 1], memory_used_bytes=[GIB] * 3
    )
    short = json.loads(json.dumps(reference()))
    short["provenance"]["elapsed_seconds"] = 0.0
    rows = table.build({"new": new, "old": old, "hot": hot, "short": short}, THRESHOLDS).set_index("record")
    assert list(rows["warnings"]) == ["", "", "hot", ""]
    assert rows.loc["hot", "note"] == "91 C, it slows down at 90 C, from 1 to 2 s"
    assert rows.loc["hot", "max_temperature_c"] == 91
    assert rows.loc["hot", "median_utilisation"] == 85  # in timed runs
    assert rows.loc["hot", "max_memory_fraction"] == 0.01
    assert rows.loc["old", ["samples", "sampling"]].isna().all() and pd.isna(rows.loc["short", "sampling"])
    taken, elapsed = new["machine"]["samples"], new["provenance"]["elapsed_seconds"]
    assert rows.loc["new", "samples"] == taken["taken"]
    assert rows.loc["new", "sampling"] == taken["cpu_seconds"] / elapsed


def test_the_live_line_comes_where_no_other_came(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    printer = progress.Printer(reference()["cell"], 1, 256, 32, None)
    sample = {
        "t_s": 34.2,
        "memory_used_bytes": 13 * GIB,
        "utilisation": 62,
        "temperature_c": 71,
        "power_w": 320.4,
        "sm_mhz": None,
        "throttled": "",
    }
    printer.live(sample, {"memory_bytes": 130 * GIB})
    assert capsys.readouterr().err == ""
    printer._last -= 10
    printer.live(sample, {"memory_bytes": 130 * GIB})
    assert capsys.readouterr().err == (
        "small reference, round 1: 34 s, 13 GiB of memory used (10%), 62% busy, 71 C, 320 W\n"
    )
    printer.live(sample, {"memory_bytes": 130 * GIB})
    assert capsys.readouterr().err == ""


def test_the_end_of_a_cell_prints_its_warnings(tmp_path, monkeypatch, capsys):
    from snn import __main__

    monkeypatch.setattr(sampling, "bytes_in_use", lambda: int(0.95 * devices.usable_bytes()))
    quick = ["device=cpu", "training.epochs=1", "protocol.runs=1", "protocol.warmup_seconds=0"]
    assert __main__.main([*quick, f"output={tmp_path / 'cell.json'}"]) == 0
    assert "snn: warning: 95% of the memory in use" in capsys.readouterr().err


def test_short_cells_have_no_false_alarms():
    for strategy in ("reference", "combined"):
        record = measured(f"strategy={strategy}", "network.hidden=[8]", "training.epochs=30")
        assert set(watched(record, THRESHOLDS)) <= {"memory full", "hot"}
