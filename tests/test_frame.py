"""Rows of records: each column from values that are known."""

import numpy as np
import pandas as pd
import pytest
from real_records import edited, refusal, without
from records_of import PROVENANCE, QUIET, THRESHOLDS, record, source_hash, sweep_of
from whole_grid import HOST, sweeps_of

from snn.analysis import frame
from snn.analysis.frame import outcome
from snn.analysis.speedups import SPEEDUP, speedup
from snn.analysis.verdicts import NOT_COMPARABLE
from snn.grid import naming
from snn.records import store

GRID = sweeps_of(host=HOST)
CELL = GRID["dataset_size"].cells[0]


def rounds_of(cell, *seconds, **values):
    return {str(i): record(cell, times, number=i, **values) for i, times in enumerate(seconds, 1)}


def test_rounds_are_paired_by_their_numbers_in_whichever_order_they_are_read():
    """The tenth stands before the second in a folder's order, and a round may be missing between others."""
    slow = {2: 2.0, 10: 10.0}
    other = edited(CELL, ("network", "seed"), 99)
    records = {f"a{n}": record(CELL, [slow.get(n, 1.0)] * 2, number=n) for n in (1, 10, 2, 3)}
    records |= {f"b{n}": record(other, [2 * slow.get(n, 1.0)] * 2, number=n) for n in (10, 2, 4)}
    rows = frame.tabulate(records, THRESHOLDS)
    for rounds, found in zip(rows["rounds"], ((1, 2, 3, 10), (2, 4, 10)), strict=True):
        assert list(map(len, rounds)) == [2 * (n in found) for n in range(1, 11)]
    (found,) = speedup(rows[:1], rows[1:], THRESHOLDS).to_dict("records")
    assert [found[name] for name in SPEEDUP] == pytest.approx([0.5] * 3)
    apart = frame.tabulate({place: records[place] for place in ("a1", "b4")}, THRESHOLDS)
    (found,) = speedup(apart[:1], apart[1:], THRESHOLDS).to_dict("records")
    assert found["note"].startswith("there is no common round")


def test_texts_of_rounds_are_joined_once_each():
    first, second = (record(CELL, [1.0], number=number) for number in (1, 2))
    second = edited(second | {"stopped": "max_seconds", "plan": "grid"}, ("provenance", "driver"), "581")
    first = without(first, ("cell", "kernel", "work")) | {"stopped": "runs", "plan": None}
    row = frame.pool({"a": first, "b": second, "c": first}, THRESHOLDS)
    assert (row["stopped_by"], row["plan"], row["driver"]) == ("runs, max_seconds", "grid", "580.1, 581")
    assert row["kernel.work"] == "1-1"  # of a record from before there was a choice


@pytest.mark.parametrize(("name", "several"), [("data_parallel", True), ("resident", False)])
def test_the_class_says_what_the_traits_of_an_older_record_do_not(name, several):
    """A record of a class that is gone has none of the traits that were added after it."""
    (cell,) = sweep_of({"strategy": name}).cells
    new = record(cell, [1.0])
    old = without(new, ("traits", "several_devices"))
    gone = edited(old, ("cell", "strategy", "_target_"), "snn.strategies.resident.NoSuchClass")
    gone = edited(gone, ("cell", "strategy", "name"), "no_such_strategy")
    found = [frame.pool({"x": one}, THRESHOLDS)["several_devices"] for one in (new, old, gone)]
    assert found == [several, several, False]


@pytest.mark.parametrize(
    ("losses", "untrained", "loss", "status"),
    [
        *(([mse], before, mse, "ok") for mse, before in ((99, 10.0), (5e29, None), (5e29, 1e30), (0, 0.0))),
        ([41.0, 5e29], 10.0, 2.5e29, "diverged"),
        ([41.0, float("nan")], None, None, "diverged"),
    ],
)
def test_a_loss_far_above_that_of_the_untrained_network_is_of_a_training_that_diverged(
    losses, untrained, loss, status
):
    records = [record(CELL, [1.0], mse=mse, untrained=untrained, number=i) for i, mse in enumerate(losses, 1)]
    row = frame.pool(dict(enumerate(records)), THRESHOLDS)
    assert (row["final_loss"], row["status"], row["mean_s"]) == (loss, status, 1.0)
    assert bool(row["reason"]) == (status != "ok")


def test_the_probe_is_the_mean_over_rounds_and_costs_are_medians():
    several = rounds_of(CELL, [1.0], [2.0], [9.0])
    several["1"] = edited(several["1"], ("machine", "probe"), {"before": {"copy_us": 4.0}, "after": {}})
    row = frame.pool(several, THRESHOLDS)
    assert row["probe"] == {"copy_us": pytest.approx((4 + 4 * 13) / 5)}
    assert (row["part.allocation"], row["predicted_calls_s"]) == (1.0, 1.0)
    new = edited(several["3"], ("explanation", "attribution", "seconds", "later"), 1.0)
    assert "part.later" not in frame.pool(several | {"3": new}, THRESHOLDS)
    nothing = edited(several["1"], ("machine", "probe", "before"), {})
    assert frame.pool({"a": nothing}, THRESHOLDS)["probe"] == {}


def test_memory_in_use_is_what_samples_and_readings_add_to_the_first_sample():
    def held(of_samples, *of_readings):
        read = [{**QUIET["readings"][0], "memory_used_bytes": one} for one in of_readings]
        rest = {name: [0] * len(of_samples) for name in ("t_s", "timed")}
        columns = {"memory_used_bytes": of_samples, "throttled": [""] * len(of_samples), **rest}
        return QUIET | {"readings": read, "samples": {"columns": columns, "limits": {}, "samples_per_row": 1}}

    machines = [QUIET, held([5, None, 9], 7), held([None, 6], 8), held([], 9)]
    rounds = {str(i): record(CELL, [1.0], machine=one, number=i) for i, one in enumerate(machines, 1)}
    (row,) = frame.tabulate(rounds, THRESHOLDS).to_dict("records")
    assert row["in_use"] == [(5, 9), (6, 8)]


def test_a_single_run_has_no_deviation_and_what_a_round_lacks_another_gives():
    one = frame.pool(rounds_of(CELL, [2.0]), THRESHOLDS)
    assert (one["mean_s"], one["std_s"], one["runs"]) == (2.0, None, 1)
    ended = {"ended": ("out_of_memory", "full"), "foretold": 1.0}
    first, second = record(CELL, [], **ended), record(CELL, [2.0, 4.0], number=2)
    later = record(CELL, [], number=2, started="2026-02-11T10:01:00+00:00", **ended)
    ending = {"status": "out_of_memory", "reason": "full", "started": PROVENANCE["started"]}
    untimed = dict.fromkeys(("mean_s", "std_s", "launch_s", "final_loss", "trace")) | {"runs": 0}
    timed = {"rounds": [[], [2.0, 4.0]], "mean_s": 3.0, "ledger.mallocs": 1, "part.allocation": 1.0}
    for other, wanted in ((later, untimed), (second, timed)):
        row = frame.pool({"a": first, "b": other}, THRESHOLDS)
        assert {key: row[key] for key in wanted | ending} == wanted | ending


def test_a_launch_of_several_members_is_shared_by_them():
    both = rounds_of(GRID["learning_rates"].cells[0], [4.0], [6.0, 5.0])
    for run in (run for one in both.values() for run in one["runs"]):
        run["member_mse"] = [2.0 * run["seconds"], None if run["seconds"] == 6.0 else 1.0]
    row = frame.pool(both, THRESHOLDS)
    wanted = {"members": 2, "mean_s": 2.375, "launch_s": 4.75, "rounds": [[2.0], [3.0, 2.5]]}
    wanted |= dict.fromkeys(("part.allocation", "predicted_calls_s"), 1.25)
    assert {key: row[key] for key in wanted} == wanted
    assert [(one["start"], one["final_loss"]) for one in row["member_losses"]] == [(1, 10.0), (2, None)]


# ---- what may stand in one table: records of one device, one data set, each at its own path


def refusal_of(**provenance):
    """What is said of two rounds of a cell, the second of which has this provenance."""
    records = {"a": record(CELL, [1.0]), "b": record(CELL, [1.0], number=2, **provenance)}
    return refusal(frame.tabulate, records, THRESHOLDS)


@pytest.mark.parametrize(
    ("provenance", "device"),
    [
        ({"device": "Tesla T4", "device_uuid": "GPU-2"}, "Tesla T4 GPU-2"),
        ({"device_uuid": "GPU-2", "host": PROVENANCE["host"] | {"cpu": "another"}}, "NVIDIA H200 GPU-2"),
        ({"device_uuid": None}, "NVIDIA H200"),
    ],
)
def test_times_of_two_devices_do_not_go_into_one_table(provenance, device):
    said = f"b was measured on {device}, but a on NVIDIA H200 GPU-1: times of two devices do not go into one"
    assert refusal_of(**provenance).startswith(said)


@pytest.mark.parametrize("key", ["system", "cpu", "cpus"])
def test_a_gpu_stands_beside_its_own_host_alone(key):
    on_host = next(one for one in GRID["cpu"].cells if one["strategy"]["name"] == "sequential")
    records = {"a": record(CELL, [1.0]), "b": record(on_host, [1.0])}
    assert len(frame.tabulate(records, THRESHOLDS)) == 2
    records["b"] = record(on_host, [1.0], host=PROVENANCE["host"] | {key: "another"})
    said = refusal(frame.tabulate, records, THRESHOLDS)
    assert said.startswith("a was measured on NVIDIA H200 GPU-1, but b on AMD EPYC of another")


@pytest.mark.parametrize(
    ("gpus", "speedup_of"),
    [(["GPU-1", "GPU-2", "GPU-1"], 0.5), (["GPU-2"] * 3, None)],
    ids=["two rounds on one GPU", "none"],
)
def test_equal_gpus_stand_together_and_times_are_divided_within_each(gpus, speedup_of):
    other = edited(CELL, ("network", "seed"), 99)
    records = {}
    for number, (gpu, a, b) in enumerate(zip(gpus, (1.0, 9.0, 1.0), (2.0, 1.0, 2.0), strict=True), 1):
        records[f"a{number}"] = record(CELL, [a] * 2, number=number, device_uuid=gpu)
        records[f"b{number}"] = record(other, [b] * 2, number=number)
    rows = frame.tabulate(records, THRESHOLDS)
    assert rows["device_uuid"].tolist() == [", ".join(dict.fromkeys(gpus)), "GPU-1"]
    (found,) = speedup(rows[:1], rows[1:], THRESHOLDS).to_dict("records")
    if speedup_of:
        assert found["speedup"] == pytest.approx(speedup_of)  # without the second round
    else:
        assert (found["verdict"], found["note"]) == (NOT_COMPARABLE, "different devices: GPU-2 and GPU-1")


def test_one_data_set_has_one_content():
    first, second = (record(CELL, [1.0], number=number) for number in (1, 2))
    of_another = edited(second, ("data", "sha256"), "1" * 64)
    shuffled = dict(reversed(second["cell"]["dataset"].items()))
    for other in (of_another, edited(of_another, ("cell", "dataset"), shuffled)):
        said = refusal(frame.tabulate, {"a": first, "b": other}, THRESHOLDS)
        assert said.startswith("b was trained on other data than a") and f"{'1' * 64} and {'0' * 64}" in said
    frame.tabulate({"a": first, "b": without(second, ("data",))}, THRESHOLDS)


def test_a_record_stands_at_the_path_of_its_cell_and_round(tmp_path):
    one, wanted = record(CELL, [1.0]), source_hash(CELL)
    name = naming.record_path(CELL.name, 1)
    path, second = tmp_path / name, tmp_path / naming.record_path(CELL.name, 2)
    store.write(path, one)
    assert frame.checked({str(path): wanted}) == {str(path): one}
    said = refusal(frame.checked, {str(path): "other"})
    assert f"measured with other sources ({wanted}) than the current ones" in said
    store.write(second, one)
    said = refusal(frame.checked, {str(second): wanted})
    assert said == f"{second}: the record of another cell or round, {name}{store.again(second)}"
    store.write(second, record(CELL, [1.0], number=2, driver="2", blas_threads=9))
    assert "different BLAS threads" in refusal(frame.checked, {str(path): wanted, str(second): wanted})


# ---- how rows ended


def test_the_outcome_has_a_plan_and_a_reason_where_there_is_one():
    rows = pd.DataFrame({"status": ["ok", "no"], "plan": "", "reason": ["x", "y"], "mean_s": [1.0, 2.0]})
    assert outcome(rows).to_dict("list") == {"status": ["ok", "no"]}
    planned = {"status": ["ok", "no"], "plan": ["", "grid"], "reason": ["", "y"]}
    assert outcome(rows.assign(plan=["", "grid"], mean_s=[1.0, np.nan])).to_dict("list") == planned
