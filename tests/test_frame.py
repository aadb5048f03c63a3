"""Rows of records: each column from values that are known."""

from statistics import fmean, stdev

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from real_records import edited, without
from records_of import PROVENANCE, record
from whole_grid import HOST, sweeps_of

from snn.analysis import frame
from snn.analysis.frame import outcome
from snn.analysis.speedups import SPEEDUP, speedup
from snn.config.groups import read_yaml
from snn.grid import naming

THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")
GRID = sweeps_of(host=HOST)
CELL = GRID["dataset_size"].cells[0]


def changed(value, *changes):
    for way, new in changes:
        value = edited(value, tuple(way.split("/")), new)
    return value


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
        "mean_s": fmean([1.5, 4]),
        "std_s": stdev([1, 2, 4]),
        "runs": 3,
        "members": 1,
        "launch_s": fmean([1.5, 4]),
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


@pytest.mark.parametrize(("mse", "untrained"), [(99.0, 10.0), (5e29, None), (5e29, 1e30), (0.0, 0.0)])
def test_a_loss_that_is_not_far_above_that_of_the_untrained_network_is_ok(mse, untrained):
    row = frame.pool({"a": record(CELL, [1.0], mse=mse, untrained=untrained)}, THRESHOLDS)
    assert (row["final_loss"], row["status"], row["reason"]) == (mse, "ok", "")


def test_a_finite_loss_far_above_that_of_the_untrained_network_is_of_a_training_that_diverged():
    first, second = (
        record(CELL, [1.0], mse=mse, untrained=10.0, number=number) for number, mse in ((1, 41.0), (2, 5e29))
    )
    row = frame.pool({"a": first, "b": second}, THRESHOLDS)
    assert (row["status"], row["mean_s"], row["final_loss"]) == ("diverged", 1.0, 2.5e29)
    assert row["reason"] == "the loss is up to 5e+29 after the training, and 10 before it, in 1 of 1 runs"


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
    assert (row["members"], row["mean_s"], row["launch_s"]) == (2, 2.375, 4.75)
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
