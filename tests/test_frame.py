"""Rows of records: each column from values that are known."""

from statistics import fmean, stdev

import numpy as np
import pandas as pd
import pytest
from real_records import edited, without
from records_of import PROVENANCE, THRESHOLDS, record
from whole_grid import HOST, sweeps_of

from snn.analysis import frame
from snn.analysis.frame import outcome
from snn.analysis.speedups import SPEEDUP, speedup

GRID = sweeps_of(host=HOST)
CELL = GRID["dataset_size"].cells[0]


def changed(value, *changes):
    for way, new in changes:
        value = edited(value, tuple(way.split("/")), new)
    return value


def rounds_of(cell, *seconds, **values):
    return {str(i): record(cell, times, number=i, **values) for i, times in enumerate(seconds, 1)}


def test_the_runs_of_all_rounds_are_pooled():
    """The archived tables have the other columns."""
    row = frame.pool(rounds_of(CELL, [1.0, 2.0], [4.0], mse=3.0), THRESHOLDS)
    expected = {
        "mean_s": fmean([1.5, 4]),
        "std_s": stdev([1, 2, 4]),
        "runs": 3,
        "rounds": [[1.0, 2.0], [4.0]],
    }
    expected |= {"cell": CELL.name, "hidden": CELL["network"]["hidden"], "kernel.block": "16-16"}
    expected |= {"members": 1, "launch_s": fmean([1.5, 4]), "member_losses": [], "final_loss": 3.0}
    expected |= {"probe": {"malloc_us": 50.0, "copy_us": 13.0}, "predicted_calls_s": pytest.approx(1.25)}
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
    ended = {"ended": ("out_of_memory", "full")}
    first, second = record(CELL, [], foretold=1.0, **ended), record(CELL, [2.0, 4.0], number=2)
    later = record(CELL, [], foretold=1.0, number=2, started="later", **ended)
    none = frame.pool({"a": first, "b": later}, THRESHOLDS)
    wanted = dict.fromkeys(("mean_s", "std_s", "launch_s", "final_loss", "trace")) | {"runs": 0}
    wanted |= {"status": "out_of_memory", "reason": "full", "started": PROVENANCE["started"]}
    assert {key: none[key] for key in wanted} == wanted
    assert not [key for key in none if key.startswith(("part.", "memory.", "ledger."))]
    row = frame.pool({"a": first, "b": second}, THRESHOLDS)  # what a round lacks another gives
    wanted = {"rounds": [[], [2.0, 4.0]], "mean_s": 3.0, "status": "out_of_memory", "reason": "full"}
    wanted |= {"ledger.mallocs": 1, "part.allocation": 1.0}
    assert {key: row[key] for key in wanted} == wanted


def test_texts_of_rounds_are_joined_once_each():
    first, second = (record(CELL, [1.0], number=number) for number in (1, 2))
    second = changed(second, ("stopped", "max_seconds"), ("plan", "grid"), ("provenance/driver", "581"))
    first = without(first, ("cell", "kernel", "work")) | {"stopped": "runs", "plan": None}
    row = frame.pool({"a": first, "b": second, "c": first}, THRESHOLDS)
    assert (row["stopped_by"], row["plan"], row["driver"]) == ("runs, max_seconds", "grid", "580.1, 581")
    assert row["kernel.work"] == "1-1"  # of a record from before there was a choice


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
    ("values", "is_integer"),
    [
        ([1, None], True),
        ([None, None], False),
        ([1.0, None], False),
        ([True, None], False),
        (["x", None], False),
    ],
)
def test_integers_with_gaps_stay_integers(values, is_integer):
    found = frame.frame_of([{"a": value} for value in values])["a"]
    assert (found.dtype == "Int64") == is_integer
    assert [None if pd.isna(value) else value for value in found] == values


def test_the_outcome_has_a_plan_and_a_reason_where_there_is_one():
    rows = pd.DataFrame({"status": ["ok", "no"], "plan": "", "reason": ["x", "y"], "mean_s": [1.0, 2.0]})
    assert outcome(rows).to_dict("list") == {"status": ["ok", "no"]}
    planned = {"status": ["ok", "no"], "plan": ["", "grid"], "reason": ["", "y"]}
    assert outcome(rows.assign(plan=["", "grid"], mean_s=[1.0, np.nan])).to_dict("list") == planned
