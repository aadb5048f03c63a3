"""Rows of records, their baselines and speedups: each column from values that are known."""

import math
from statistics import fmean, stdev

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from real_records import edited, without
from records_of import PROVENANCE, record, source_hash

from snn.analysis import baseline, frame
from snn.analysis.comparability import reason
from snn.analysis.intervals import Ratio, ratio
from snn.analysis.speedups import SPEEDUP, joint, over_baselines, over_reference, speedup, warning
from snn.analysis.status import outcome
from snn.analysis.verdicts import NOT_COMPARABLE
from snn.config.groups import read_yaml
from snn.errors import RecordError
from snn.grid import naming, sweeps
from snn.hardware.devices import Device
from snn.records import store

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
GRID = sweeps.read(ROOT / "config/grid.yaml", Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC"))
CELL = GRID["dataset_size"].cells[0]


def changed(value, *changes):
    for way, new in changes:
        value = edited(value, tuple(way.split("/")), new)
    return value


# ---- one row per cell


def rounds_of(cell, *seconds, **values):
    return {str(i): record(cell, times, number=i, **values) for i, times in enumerate(seconds, 1)}


def test_the_runs_of_all_rounds_are_pooled():
    row = frame.pool(rounds_of(CELL, [1.0, 2.0], [4.0], mse=3.0), THRESHOLDS)
    expected = {
        "cell": naming.name_of(CELL),
        "strategy": "reference",
        "on_host": False,
        "runtime": "",
        "dataset": CELL["dataset"]["name"],
        "kernel": "naive",
        "precision": "fp32",
        "hidden": CELL["network"]["hidden"],
        "kernel.block": "16-16",
        "kernel.work": "1-1",
        "mean_s": fmean([1, 2, 4]),
        "std_s": stdev([1, 2, 4]),
        "runs": 3,
        "members": 1,
        "launch_s": fmean([1, 2, 4]),
        "member_losses": [],
        "rounds": [[1.0, 2.0], [4.0]],
        "final_loss": 3.0,
        "status": "ok",
        "reason": "",
        "plan": "",
        "device": "NVIDIA H200",
        "backend": "cuda",
        "device_uuid": "GPU-1",
        "driver": "580.1",
        "commit": "c0ffee",
        "started": PROVENANCE["started"],
        "probe": {"malloc_us": 50.0, "copy_us": 13.0},
        "ledger.mallocs": 1,
        "part.allocation": pytest.approx(1.25),
        "part.host_arithmetic": pytest.approx(1.25),
        "predicted_calls_s": pytest.approx(1.25),
        "memory.max_used_fraction": 0.25,
        "memory.warnings": "",
        "memory.weights_bytes": 0,
    }
    assert {key: row[key] for key in expected} == expected


def test_rounds_are_paired_by_their_numbers_in_whichever_order_they_are_read():
    """The tenth stands before the second in a folder's order, and a round may be missing between others."""
    slow = {2: 2.0, 10: 10.0}
    other = changed(CELL, ("network/seed", 99))
    records = {f"a{n}": record(CELL, [slow.get(n, 1.0)] * 2, number=n) for n in (1, 10, 2, 3)}
    records |= {f"b{n}": record(other, [2 * slow.get(n, 1.0)] * 2, number=n) for n in (10, 2, 4)}
    rows = frame.tabulate(records, THRESHOLDS)
    assert [list(map(len, rounds)) for rounds in rows["rounds"]] == [
        [2 * (n in found) for n in range(1, 11)] for found in ((1, 2, 3, 10), (2, 4, 10))
    ]
    (found,) = speedup(rows[:1], rows[1:], THRESHOLDS).to_dict("records")
    assert [found[name] for name in SPEEDUP] == pytest.approx([0.5] * 3)
    apart = frame.tabulate({place: records[place] for place in ("a1", "b4")}, THRESHOLDS)
    (found,) = speedup(apart[:1], apart[1:], THRESHOLDS).to_dict("records")
    assert found["note"] == "there is no round in which both have a time"


def test_a_single_run_has_no_deviation_and_no_run_no_mean():
    one = frame.pool(rounds_of(CELL, [2.0]), THRESHOLDS)
    assert (one["mean_s"], one["std_s"], one["runs"]) == (2.0, None, 1)
    assert frame.pool(rounds_of(CELL, [2.0], [4.0]), THRESHOLDS)["std_s"] == stdev([2, 4])
    ended = rounds_of(CELL, [1.0], ended=("out_of_memory", "full"))
    ended["2"] = record(CELL, [1.0], number=2, ended=("out_of_memory", "full"), started="later")
    none = frame.pool(ended, THRESHOLDS)
    assert none["started"] == PROVENANCE["started"]
    assert (none["mean_s"], none["std_s"], none["launch_s"], none["runs"]) == (None, None, None, 0)
    assert (none["final_loss"], none["trace"], none["status"], none["reason"]) == (
        *(None, None),
        *("out_of_memory", "full"),
    )
    assert not [key for key in none if key.startswith(("part.", "memory.", "ledger."))]


def test_what_a_round_lacks_another_gives():
    ended = record(CELL, [1.0], number=1, ended=("out_of_memory", "full"))
    later = record(CELL, [2.0, 4.0], number=2)
    row = frame.pool({"a": ended, "b": later}, THRESHOLDS)
    assert (row["rounds"], row["mean_s"], row["status"], row["reason"]) == (
        *([[], [2.0, 4.0]], 3.0),
        *("out_of_memory", "full"),
    )
    assert row["ledger.mallocs"] == 1 and row["part.allocation"] == 1.0


def test_a_kernel_from_before_there_was_a_choice_has_one_product_a_thread():
    one = record(CELL, [1.0])
    earlier = without(one, ("cell", "kernel", "work"))
    assert frame.pool({"a": earlier}, THRESHOLDS)["kernel.work"] == "1-1"


def test_texts_of_rounds_are_joined_once_each():
    first, second = (record(CELL, [1.0], number=number) for number in (1, 2))
    second = changed(second, ("stopped", "max_seconds"), ("plan", "grid"), ("provenance/driver", "581"))
    for key in ("stopped", "plan"):
        first |= {key: {"stopped": "runs", "plan": None}[key]}
    row = frame.pool({"a": first, "b": second, "c": first}, THRESHOLDS)
    assert (row["stopped_by"], row["plan"], row["driver"]) == ("runs, max_seconds", "grid", "580.1, 581")


def test_a_loss_that_was_lost_leaves_no_mean():
    lost = record(CELL, [1.0], mse=float("nan"), number=2)
    row = frame.pool({"a": record(CELL, [1.0]), "b": lost}, THRESHOLDS)
    assert (row["final_loss"], row["status"]) == (None, "diverged")


def test_the_probe_is_the_mean_over_rounds_and_costs_are_medians():
    several = rounds_of(CELL, [1.0], [2.0], [9.0])
    several["1"] = changed(
        several["1"], ("machine/probe/before", {"copy_us": 4.0}), ("machine/probe/after", {})
    )
    row = frame.pool(several, THRESHOLDS)
    assert row["probe"] == {"copy_us": pytest.approx((4 + 4 * 13) / 5)}
    assert (row["part.allocation"], row["predicted_calls_s"]) == (1.0, 1.0)
    parts = several["3"]["explanation"]["attribution"]["seconds"]
    new = changed(several["3"], ("explanation/attribution/seconds", parts | {"later": 1.0}))
    assert "part.later" not in frame.pool(several | {"3": new}, THRESHOLDS)
    nothing = changed(several["1"], ("machine/probe/before", {}))
    assert frame.pool({"a": nothing}, THRESHOLDS)["probe"] == {}


def test_a_launch_of_several_members_is_shared_by_them():
    (cell,) = (one for one in GRID["learning_rates"].cells[:1])
    seconds = ([4.0], [6.0, 5.0])
    both = {str(i): record(cell, times, number=i) for i, times in enumerate(seconds, 1)}
    for one in both.values():
        for run in one["runs"]:
            run["member_mse"] = [2.0 * run["seconds"], None if run["seconds"] == 6.0 else 1.0]
    row = frame.pool(both, THRESHOLDS)
    assert (row["members"], row["mean_s"], row["launch_s"]) == (2, 2.5, 5.0)
    assert row["rounds"] == [[2.0], [3.0, 2.5]]
    assert [one["final_loss"] for one in row["member_losses"]] == [10.0, None]
    assert [one["start"] for one in row["member_losses"]] == [1, 2]
    assert row["part.allocation"] == pytest.approx((4 / 2 + 6 / 2) / 2 / 2)
    assert row["predicted_calls_s"] == pytest.approx((4 / 2 + 6 / 2) / 2 / 2)


def test_the_memory_of_a_row_is_that_of_its_round():
    device = {"peak_bytes": 9, "peak_by_kind": {"data": 5, "weights": 4}, "reserved_bytes": 16}
    device |= {"largest_free_bytes": 6, "fragmentation": 0.5}
    memory = {"device": device, "page_locked": {"peak_bytes": 3}, "least_free_bytes": 1, "total_bytes": 8}
    one = record(CELL, [1.0]) | {"memory": memory | {"warnings": ["a", "b"]}}
    row = frame.pool({"a": one}, THRESHOLDS)
    assert {key: value for key, value in row.items() if key.startswith("memory.")} == {
        "memory.peak_bytes": 9,
        "memory.data_bytes": 5,
        "memory.weights_bytes": 4,
        "memory.activations_bytes": 0,
        "memory.gradients_bytes": 0,
        "memory.workspace_bytes": 0,
        "memory.reserved_bytes": 16,
        "memory.largest_free_bytes": 6,
        "memory.fragmentation": 0.5,
        "memory.pinned_bytes": 3,
        "memory.max_used_fraction": 0.875,
        "memory.warnings": "a; b",
    }


# ---- frames


def test_rounds_of_a_cell_are_one_row_in_the_order_of_the_records():
    other = CELL | {"training": CELL["training"] | {"epochs": 7}}
    records = {
        "a": record(other, [1.0]),
        **rounds_of(CELL, [2.0], [4.0]),
        "b": record(other, [3.0], number=2),
    }
    records["b"]["cell"] = dict(reversed(records["b"]["cell"].items()))
    found = frame.tabulate(records, THRESHOLDS)
    assert found["training.epochs"].tolist() == [7, CELL["training"]["epochs"]]
    assert found["mean_s"].tolist() == [2.0, 3.0]
    assert found["mean_s"].dtype == found["std_s"].dtype == found["final_loss"].dtype == "float64"


@pytest.mark.parametrize(
    ("values", "gaps"),
    [
        ([1, None], True),
        ([1, 2], False),
        ([None, None], False),
        ([1.0, None], False),
        ([True, None], False),
        (["x", None], False),
        ([1, True, None], False),
    ],
)
def test_integers_with_gaps_stay_integers(values, gaps):
    assert frame._integers_with_gaps(values) == gaps


def test_a_table_has_integers_where_a_cell_lacks_a_setting():
    cells = {one["strategy"]["name"]: one for one in GRID["strategies"].cells}
    found = frame.tabulate(
        {name: record(cells[name], [1.0]) for name in ("reference", "combined")}, THRESHOLDS
    )
    assert found["strategy.streams"].dtype == "Int64"
    assert found["strategy.streams"].tolist() == [pd.NA, 3]


def two(**provenance):
    return {"a": record(CELL, [1.0]), "b": record(CELL, [1.0], number=2, **provenance)}


OTHER_CPU = PROVENANCE["host"] | {"cpu": "another"}


@pytest.mark.parametrize(
    ("provenance", "device"),
    [
        ({"device": "Tesla T4"}, "Tesla T4 GPU-1"),
        ({"device": "Tesla T4", "device_uuid": "GPU-2"}, "Tesla T4 GPU-2"),
        ({"device_uuid": "GPU-2", "host": OTHER_CPU}, "NVIDIA H200 GPU-2"),
    ],
)
def test_times_of_two_devices_do_not_go_into_one_table(provenance, device):
    with pytest.raises(RecordError) as refused:
        frame.tabulate(two(**provenance), THRESHOLDS)
    assert str(refused.value) == (
        f"b was measured on {device}, but a on NVIDIA H200 GPU-1: times of two devices do not "
        "go into one table; run the older cells again with --force"
    )


def test_equal_gpus_stand_together_and_times_are_divided_within_each():
    other = changed(CELL, ("network/seed", 99))
    gpus = {"a": ["GPU-1", "GPU-2", "GPU-1"], "b": ["GPU-1", "GPU-1", "GPU-1"]}
    seconds = {"a": [1.0, 9.0, 1.0], "b": [2.0, 1.0, 2.0]}

    def rows():
        records = {
            f"{name}{number}": record(cell, [seconds[name][number - 1]] * 2, number=number, device_uuid=gpu)
            for name, cell in (("a", CELL), ("b", other))
            for number, gpu in enumerate(gpus[name], 1)
        }
        return frame.tabulate(records, THRESHOLDS)

    assert rows()["device_uuid"].tolist() == ["GPU-1, GPU-2", "GPU-1"]
    assert not reason(*rows().to_dict("records"), THRESHOLDS)
    (found,) = speedup(rows()[:1], rows()[1:], THRESHOLDS).to_dict("records")
    assert found["speedup"] == pytest.approx(0.5)  # without the second round
    gpus["a"] = ["GPU-2"] * 3
    (found,) = speedup(rows()[:1], rows()[1:], THRESHOLDS).to_dict("records")
    assert (found["verdict"], found["note"]) == (NOT_COMPARABLE, "different devices: GPU-2 and GPU-1")
    assert math.isnan(found["speedup"])


@pytest.mark.parametrize("key", ["system", "cpu", "cpus"])
def test_a_gpu_stands_beside_its_own_host_alone(key):
    on_host = next(one for one in GRID["cpu"].cells if one["strategy"]["name"] == "sequential")
    records = {"a": record(CELL, [1.0]), "b": record(on_host, [1.0])}
    assert len(frame.tabulate(records, THRESHOLDS)) == 2
    other = PROVENANCE["host"] | {key: "another"}
    records["b"] = record(on_host, [1.0], host=other)
    with pytest.raises(RecordError) as refused:
        frame.tabulate(records, THRESHOLDS)
    assert str(refused.value).startswith(
        "a was measured on NVIDIA H200 GPU-1, but b on AMD EPYC of another host: times of two devices"
    )


def test_one_data_set_has_one_content():
    records = two()
    records["b"] = changed(records["b"], ("data/sha256", "1" * 64))
    with pytest.raises(RecordError) as refused:
        frame.tabulate(records, THRESHOLDS)
    assert str(refused.value) == (
        f"b was trained on other data than a, though dataset={CELL['dataset']['name']} has the same "
        f"keys in both: SHA-256 {'1' * 64} and {'0' * 64}; run the older cell again with --force"
    )
    shuffled = dict(reversed(records["b"]["cell"]["dataset"].items()))
    with pytest.raises(RecordError, match="other data"):
        frame.tabulate(records | {"b": changed(records["b"], ("cell/dataset", shuffled))}, THRESHOLDS)
    del records["b"]["data"]
    frame.tabulate(records, THRESHOLDS)


def test_a_record_stands_at_the_path_of_its_cell_and_round(tmp_path):
    one, wanted = record(CELL, [1.0]), source_hash(CELL)
    path = tmp_path / naming.record_path(naming.name_of(CELL), 1)
    store.write(path, one)
    assert frame.checked({str(path): wanted}) == {str(path): one}
    assert frame.load({str(path): wanted}, THRESHOLDS)["mean_s"].tolist() == [1.0]
    with pytest.raises(RecordError) as refused:
        frame.checked({str(path): "other"})
    assert str(refused.value) == (
        f"{path}: measured with other sources ({wanted}) than the current ones (other){store.again(path)}"
    )
    second = tmp_path / naming.record_path(naming.name_of(CELL), 2)
    store.write(second, one)
    with pytest.raises(RecordError) as refused:
        frame.checked({str(second): wanted})
    name = naming.record_path(naming.name_of(CELL), 1)
    assert str(refused.value) == f"{second}: the record of another cell or round, {name}{store.again(second)}"
    store.write(second, record(CELL, [1.0], number=2, driver="2", blas_threads=9))
    with pytest.raises(RecordError, match="different BLAS threads"):
        frame.checked({str(path): wanted, str(second): wanted})


# ---- speedups


def row(*rounds, **values):
    usual = {"strategy": "pinned", "rounds": list(rounds), "runs": sum(map(len, rounds)), "status": "ok"}
    usual |= {
        "device": "x",
        "device_uuid": "y",
        "driver": "1",
        "blas_threads": 1,
        "probe": {},
        "machine": "quiet",
    }
    times = [one for some in rounds for one in some]
    return usual | {"mean_s": fmean(times) if times else None} | values


def table_of(*rows):
    return pd.DataFrame(list(rows), index=[10 * i for i, _ in enumerate(rows)])


def test_a_speedup_is_the_ratio_with_its_interval_word_and_note():
    base, other = row([4.0, 4.1], [4.0], [4.2]), row([2.0], [2.1], [2.0])
    found = speedup(table_of(base), table_of(other), THRESHOLDS).iloc[0]
    expected = ratio(base["rounds"], other["rounds"])
    assert (found["speedup"], found["speedup_ci_low"], found["speedup_ci_high"]) == expected[:3]
    assert (found["verdict"], found["note"], found["machine"]) == ("faster", "", "quiet")
    same = speedup(table_of(base), table_of(base), THRESHOLDS).iloc[0]
    assert (same["speedup"], same["verdict"]) == (1.0, "same")


def test_what_may_not_be_divided_is_not():
    found = speedup(table_of(row([1.0])), table_of(row([1.0], device="z", machine="noisy")), THRESHOLDS).iloc[
        0
    ]
    assert found[["speedup", "speedup_ci_low", "speedup_ci_high"]].isna().all()
    assert (found["verdict"], found["note"]) == ("not comparable", "different devices: x and z")
    assert found["machine"] == "noisy"


@pytest.mark.parametrize(
    ("found", "note"),
    [
        (Ratio(np.nan, np.nan, np.nan, 0, np.nan), "there is no round in which both have a time"),
        (
            Ratio(1.0, 0.9, 1.1, 1, np.nan),
            "one round: how much rounds differ is unknown; snn more-rounds",
        ),
        (
            Ratio(1.0, 0.8, 1.3, 2, 0.1),
            "wide interval, above a factor of 1.5; snn more-rounds adds rounds",
        ),
        (Ratio(1.0, 0.8, 1.2, 2, 0.1), ""),
    ],
)
def test_a_warning_says_what_is_missing(found, note):
    said = warning(found, THRESHOLDS)
    assert said.startswith(note) and bool(said) == bool(note)


def test_rows_are_compared_with_their_reference():
    rows = table_of(
        row([2.0], strategy="reference", dataset="a"),
        row([1.0], dataset="a", machine="noisy"),
        row([3.0], dataset="b"),
        row([9.0], strategy="reference", dataset="b", machine="shared, noisy"),
        row(dataset="b", status="unsupported"),
    )
    found = over_reference(rows, ["dataset"], THRESHOLDS)
    assert found.index.tolist() == rows.index.tolist()
    assert found["speedup"].tolist() == pytest.approx([1.0, 2.0, 3.0, 1.0, np.nan], nan_ok=True)
    assert found["verdict"].tolist() == ["reference", "not significant", "not significant", "reference", ""]
    assert found["note"].tolist()[::3] == ["", ""] and found["note"].tolist()[4] == ""
    assert found["machine"].tolist() == ["quiet", "noisy", "shared, noisy", "shared, noisy", "quiet"]


def test_a_row_may_have_no_baseline_or_be_one():
    rows = table_of(row([2.0]), row([1.0], machine="noisy"), row([5.0]), row())
    found = over_baselines(rows, [0, 0, -1, -1], THRESHOLDS)
    assert found["speedup"].tolist() == pytest.approx([1.0, 2.0, np.nan, np.nan], nan_ok=True)
    assert found["speedup_ci_low"].tolist() == pytest.approx([1.0] + [np.nan] * 3, nan_ok=True)
    assert found["verdict"].tolist() == ["baseline", "not significant", "", ""]
    assert found["note"].tolist()[0] == "" and found["note"].tolist()[2:] == ["", ""]
    assert found["machine"].tolist() == ["quiet", "noisy", "quiet", "quiet"]
    alone = over_baselines(rows, [-1] * 4, THRESHOLDS)
    assert alone.columns.tolist() == found.columns.tolist()
    assert alone["speedup"].isna().all() and set(alone["verdict"]) == {""}
    nothing = over_baselines(table_of(row(), row([1.0])), [0, 0], THRESHOLDS)
    assert nothing["verdict"].tolist() == ["", "not comparable"]
    assert nothing["note"].tolist() == ["", "pinned has no time: ok"]


def test_joint_words_are_each_said_once():
    columns = (pd.Series(["quiet", "noisy, shared", ""]), pd.Series(["quiet", "shared, drifted", ""]))
    assert joint("quiet", *columns) == ["quiet", "noisy, shared, drifted", "quiet"]


# ---- what may be compared


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"device": "z"}, "different devices: x and z"),
        ({"device_uuid": "z"}, "different devices: y and z"),
        ({"driver": "2"}, "different drivers: 1 and 2"),
        ({"blas_threads": 2}, "different numbers of BLAS threads: 1 and 2"),
        ({"blas_threads": None}, "different numbers of BLAS threads: 1 and None"),
        ({"runs": 0, "status": "diverged"}, "pinned has no time: diverged"),
        (
            {"probe": {"copy_us": 20.0, "launch_us": 5.0}},
            "the probe's costs drifted between the two: copy cost +100%",
        ),
        (
            {"probe": {"copy_us": 10.0, "launch_us": 9.0}},
            "the probe's costs drifted between the two: launch cost +80%",
        ),
        ({"probe": {"copy_us": 10.0, "launch_us": 9.0}, "kernel": "tiled"}, ""),
        ({"probe": {"copy_us": 10.0, "launch_us": 9.0}, "kernel.block": "8-8"}, ""),
        ({"probe": {"copy_us": 10.0, "launch_us": 9.0}, "kernel.work": "8-8"}, ""),
        ({"probe": {"copy_us": 10.0, "launch_us": 9.0}, "precision": "bf16"}, ""),
        ({"probe": {"copy_us": 10.0, "launch_us": 9.0}, "runtime": "torch 2"}, ""),
        (
            {"probe": {"copy_us": 20.0}, "runtime": "torch 2"},
            "the probe's costs drifted between the two: copy cost",
        ),
    ],
)
def test_why_two_times_may_not_be_divided(changes, said):
    a = row([1.0], probe={"copy_us": 10.0, "launch_us": 5.0}, kernel="naive", precision="fp32")
    b = a | changes
    assert reason(a, b, THRESHOLDS).startswith(said) and bool(reason(a, b, THRESHOLDS)) == bool(said)
    if "probe" not in changes or not said:
        assert bool(reason(b, a, THRESHOLDS)) == bool(said)


def test_processors_have_neither_uuid_nor_threads():
    one = row([1.0], device_uuid=None, blas_threads=float("nan"))
    assert reason(one, one | {"device_uuid": float("nan"), "blas_threads": None}, THRESHOLDS) == ""


# ---- baselines


def choice(strategy="reference", kernel="naive", precision="fp32", on_host=False, **further):
    usual = {
        "dataset": "small",
        "network": "64",
        "strategy": strategy,
        "kernel": kernel,
        "precision": precision,
    }
    return usual | {"on_host": on_host} | further


@pytest.mark.parametrize(
    ("rows", "axes", "numbers", "names"),
    [
        ([choice(), choice("pinned")], ["strategy"], [0, 0], ["reference"] * 2),
        ([choice("pinned"), choice()], ["strategy"], [1, 1], ["reference"] * 2),
        ([choice("pinned")], ["strategy"], [-1], [""]),
        ([choice("pinned"), choice("streams")], ["strategy"], [-1, -1], [""] * 2),
        ([choice("pinned"), choice("pinned", "tiled")], ["kernel"], [0, 0], ["kernel naive"] * 2),
        (
            [choice("pinned", precision="bf16"), choice("pinned")],
            ["precision"],
            [1, 1],
            ["precision fp32"] * 2,
        ),
        (
            [
                choice("sequential", on_host=True),
                choice("reference", on_host=True),
                choice("blas", on_host=True),
            ],
            ["strategy"],
            [0, 0, 0],
            ["sequential"] * 3,
        ),
        ([choice("sequential"), choice("reference")], ["strategy"], [1, 1], ["reference"] * 2),
        ([choice(dataset="large"), choice("pinned")], ["strategy", "dataset"], [-1, -1], [""] * 2),
        ([choice(network="8"), choice("pinned")], ["strategy", "network"], [-1, -1], [""] * 2),
        (
            [choice(**{"training.epochs": 1}), choice("pinned", **{"training.epochs": 2})],
            ["strategy", "training.epochs"],
            [-1, -1],
            [""] * 2,
        ),
        (
            [choice(), choice("pinned", "tiled"), choice("pinned"), choice(kernel="tiled")],
            ["strategy", "kernel"],
            [0] * 4,
            ["reference, kernel naive"] * 4,
        ),
        (
            [choice("combined", **{"strategy.tile_rows": n}) for n in (32, 128)],
            ["strategy.tile_rows"],
            [1, 1],
            ["tile rows 128"] * 2,
        ),
        (
            [choice("mine", **{"strategy.tile_rows": n}) for n in (32, None)],
            ["strategy.tile_rows"],
            [1, 1],
            [""] * 2,
        ),
        ([choice("pinned"), choice("pinned")], ["strategy"], [-1, -1], [""] * 2),
        ([choice("pinned", "tiled"), choice("streams")], ["strategy", "kernel"], [-1, -1], [""] * 2),
        (
            [choice("pinned", **{"kernel.block": size}) for size in ("8-8", "16-16")],
            ["kernel.block"],
            [1, 1],
            ["block 16-16"] * 2,
        ),
        ([choice("pinned"), choice(dataset="large")], ["strategy", "dataset"], [-1, -1], [""] * 2),
        (
            [choice(kernel="tiled"), choice("pinned", "tiled"), choice("streams")],
            ["strategy", "kernel"],
            [0, 0, -1],
            ["reference", "reference", ""],
        ),
        (
            [choice(dataset="large"), choice("pinned"), choice()],
            ["strategy", "dataset"],
            [-1, 2, 2],
            ["", "reference", "reference"],
        ),
        (
            [choice(one, kernel) for one in ("pinned", "streams") for kernel in ("naive", "tiled")],
            ["strategy", "kernel"],
            [0, 0, 2, 2],
            ["kernel naive"] * 4,
        ),
        (
            [choice(**{"strategy.tile_rows": None}), choice("streams", **{"strategy.tile_rows": 7})],
            ["strategy", "strategy.tile_rows"],
            [0, 0],
            ["reference"] * 2,
        ),
    ],
)
def test_baselines_and_their_names(rows, axes, numbers, names):
    assert baseline.baselines(pd.DataFrame(rows), axes) == (numbers, names)


# ---- how a measurement ended


def test_the_outcome_has_a_plan_and_a_reason_where_there_is_one():
    rows = pd.DataFrame(
        {"status": ["ok", "diverged"], "plan": "", "reason": ["x", "y"], "mean_s": [1.0, 2.0]}
    )
    assert outcome(rows).to_dict("list") == {"status": ["ok", "diverged"]}
    planned = rows.assign(plan=["", "grid"], mean_s=[1.0, np.nan])
    assert outcome(planned).to_dict("list") == {
        "status": ["ok", "diverged"],
        "plan": ["", "grid"],
        "reason": ["", "y"],
    }
