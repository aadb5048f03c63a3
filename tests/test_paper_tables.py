"""Tables of the paper and of the time's parts: arithmetic on known records, reasons, and published values."""

import numpy as np
import pandas as pd
import pytest
from records_of import THRESHOLDS, frame_of, frame_of_cells, record, sweep_of, write_all
from whole_grid import H200, HOST, sweeps_of

from snn import datasets as prepared
from snn.analysis import frame
from snn.config.groups import CONFIG, read_yaml
from snn.datasets import Table, described
from snn.datasets import load as load_table
from snn.figures import breakdown, draw
from snn.grid import sweeps
from snn.tables.attribution import PART, attribution, reason
from snn.tables.paper import correctness, datasets, training_time

SWEEPS = sweeps_of()
PAPER = CONFIG / "paper"


def test_parts_that_do_not_add_up_to_the_runs_are_noted(tmp_path):
    times = [[float(i), i + 2.0] for i in range(1, 16)]
    rows = frame.tabulate(frame.checked(write_all(tmp_path, SWEEPS["dataset_size"].cells, times)), THRESHOLDS)
    table = attribution.build(rows, {}, THRESHOLDS)
    rows.loc[:3, "mean_s"] = table["attributed_s"][:4] * [1.25, 0.8, 1.3, 0.75]  # of the sum of their parts
    noted = attribution.build(rows, {}, THRESHOLDS | {"parts_differ": 1.26})["note"][:4].tolist()
    assert noted[:2] == ["", ""] and "0.769 times" in noted[2] and "1.33 times" in noted[3]
    assert set(attribution.build(rows, {}, THRESHOLDS)["note"][:2]) == {""}  # at the threshold
    rows.loc[0, [name for name in rows if name.startswith(PART)]] = None
    assert attribution.build(rows, {}, THRESHOLDS)["note"][0] == ""  # no pass, so nothing adds up
    figure = draw("attribution", table, "Tesla T4")
    filled = [box.get_fill() for box in figure.axes[0].patches]
    assert (sum(filled), len(filled)) == (5 * len(breakdown.PARTS), 5 * len(breakdown.PARTS) + 5)
    others = rows[(rows["strategy"] != "reference") | (rows["dataset"] != "medium")].reset_index(drop=True)
    table = attribution.build(others, {}, THRESHOLDS)
    assert set(table.loc[table["speedup"].isna(), "dataset"]) == {"medium"}
    titles = [axes.get_title() for axes in draw("attribution", table, "Tesla T4").axes]
    assert titles == ["small", "medium", "large"]


@pytest.mark.parametrize(
    ("elsewhere", "compared"),
    [((), True), ((4, 5), True), ((2,), False), ((1, 2, 3), False)],
    ids=["one GPU", "rounds without passes elsewhere", "a pass elsewhere", "all passes elsewhere"],
)
def test_predictions_are_divided_if_their_passes_ran_on_one_gpu(elsewhere, compared):
    records = []
    for cell in [cell for cell in SWEEPS["dataset_size"].cells if cell.dataset == "small"][:2]:
        for number in range(1, 6):
            moved = cell.strategy != "reference" and number in elsewhere
            one = record(cell, [float(number)], number=number, device_uuid=f"GPU-{1 + moved}")
            records.append(one if number <= 3 else one | {"explanation": None})
    table = attribution.build(frame_of(*records), {}, THRESHOLDS).set_index("strategy")
    assert table["predicted_speedup"]["reference"] == 1
    assert table["predicted_speedup"].notna().all() == compared
    assert (table["prediction"] == "").tolist() == [True, not compared]


@pytest.mark.parametrize(
    ("seconds", "bound", "word"),
    [
        ([2.0, 2.0], 1.25, "agrees"),  # as fast as predicted
        ([2.4, 2.4], 1.25, "agrees"),
        ([2.4, 2.4], 1.15, "differs"),
        ([1.6, 1.6], 1.25, "agrees"),
        ([1.5, 1.5], 1.25, "differs"),
        ([1.0, 3.0], 1.25, "inconclusive"),
    ],
)
def test_a_prediction_agrees_within_the_bound_that_is_stated(seconds, bound, word):
    """Equal costs predict a speedup of 1; the reference takes 2 s in both rounds."""
    cells = [cell for cell in SWEEPS["dataset_size"].cells if cell.dataset == "small"][:2]
    records = [
        record(cell, [time], number=number)
        for cell, times in zip(cells, ([2.0, 2.0], seconds), strict=True)
        for number, time in enumerate(times, 1)
    ]
    records = [one | {"explanation": records[0]["explanation"]} for one in records]
    table = attribution.build(frame_of(*records), {}, THRESHOLDS | {"predicts": bound})
    assert table["predicted_speedup"].tolist() == [1.0, 1.0]
    assert table["prediction"].tolist() == ["", word]


@pytest.mark.parametrize(("device", "of_large"), [(H200, 100), (HOST, 50)])
def test_the_papers_times_are_beside_runs_of_as_many_epochs(device, of_large):
    """On a CPU a run on ``large`` is shorter, and the table says so."""
    cells = [cell for cell in sweeps_of(device)["dataset_size"].cells if cell.strategy == "combined"]
    assert {cell.dataset: cell.epochs for cell in cells} == {"small": 100, "medium": 100, "large": of_large}
    rows = frame_of(*(record(cell, [2.0, 2.1]) for cell in cells))
    paper = read_yaml(PAPER / "training_time.yaml")
    table = training_time.build(rows, paper, THRESHOLDS).set_index("dataset")
    assert ("training.epochs" in table) == (of_large != 100)
    expected = paper["combined"] | ({} if of_large == 100 else {"large": None})
    assert {name: None if np.isnan(one) else one for name, one in table["paper_s"].items()} == expected
    shown = attribution.build(rows, {}, THRESHOLDS)
    assert ("training.epochs" in shown) == (of_large != 100)


def trained_on(rows=300, batch_size=256, network=None, **settings):
    """A cell, as far as the table of data sets reads it, and what a record says of its data."""
    data = {"rows": rows, "features": 4}
    cell = {"dataset": {"name": "small", **data}, "network": network or {"hidden": [256]}}
    return cell | {"training": {"batch_size": batch_size, "epochs": 100} | settings}, data


@pytest.mark.parametrize(
    ("change", "batches", "operations"),
    [
        ({}, 2, 1000),
        ({"drop_last": True}, 1, 500),
        ({"network": {"hidden": [8, 8]}}, 2, None),
        ({"network": {"layers": ["linear 1"]}}, 2, None),
    ],
    ids=["the paper's", "whole batches", "two hidden layers", "layers"],
)
def test_data_sets(change, batches, operations):
    """Products are those of one hidden layer: of another network there is no such number, nor the paper's."""
    table = datasets.build([trained_on(**change)], read_yaml(PAPER / "datasets.yaml"), "C", "cpu")
    row = table.astype(object).where(table.notna(), None).iloc[0]
    assert (row["samples"], row["features"], row["batches"]) == (300, 4, batches)
    assert (row["operations"], row["paper_operations"]) == (operations, operations and 500)


def test_a_data_set_has_a_row_for_each_way_of_batching_it():
    cells = [trained_on(**one)[0] for one in ({}, {"learning_rate": 1.0}, {"batch_size": 64}, {"epochs": 2})]
    deep = trained_on(network={"hidden": [8, 8]})[0]
    assert sweeps.trainings([deep, *cells]) == [cells[1], cells[2], cells[3]]
    assert sweeps.trainings([deep]) == [deep]


def test_a_prepared_table_gives_the_row_that_a_record_of_it_gives(tmp_path):
    """datasets.csv of a workflow is made of the prepared tables, that of an archive of the records."""
    cell = SWEEPS["dataset_size"].cells[0]
    small = cell["dataset"] | {"rows": 300, "features": 4, "test_rows": 20}
    table = Table(np.zeros((320, 5), dtype=np.float32))
    prepared.write(tmp_path / "t.npy", table, small)
    read_again = load_table(tmp_path / "t.npy", small)
    assert described(read_again, small) == described(table, small)
    found = datasets.build([(cell | {"dataset": small}, described(read_again, small))], {}, "C", "cpu")
    assert found.loc[0, ["samples", "test_samples", "features"]].tolist() == [300, 20, 4]


# ---- the final errors beside the paper's, by the draws of their weights

ERRORS = read_yaml(PAPER / "correctness.yaml")
MEAN = ERRORS["reference"]["mse"]


def errors(draws, off=0.0):
    """Of a reference over ten draws and of ``streams`` over these, whose losses are ``off`` theirs."""
    protocol = {"protocol": "paper", "protocol.runs": 10, "protocol.rounds": 10}
    cells = [
        {"strategy": ["reference", "streams"]},
        {"strategy": "streams", "network.init": "he_uniform"},  # another training, which is left out
    ]
    reference, streams, other = sweep_of([one | protocol for one in cells]).cells
    records = [record(reference, [1.0], mse=MEAN + 5.5 - draw, number=draw) for draw in range(1, 11)]
    records += [record(streams, [1.0], mse=MEAN + 5.5 - draw + off, number=draw) for draw in draws]
    table = correctness.build(frame_of(*records, record(other, [1.0])), ERRORS, THRESHOLDS)
    return table.set_index("strategy")


@pytest.mark.parametrize(
    ("draws", "named", "mean"),
    [((1, 2, 3, 4, 5, 6), "1 to 6", 2.0), ((1, 3, 4, 9), "1, 3 to 4, 9", 1.25), ((12,), "12", None)],
)
def test_an_error_over_other_draws_is_compared_with_the_references_over_the_same(draws, named, mean):
    row, off = errors(draws).loc["streams"], errors(draws, off=0.01).loc["streams"]
    assert row["draws"] == named and pd.isna(row["paper_mse"])
    if mean is None:
        assert row["agreement"] == "" and row["note"].endswith("reference was trained from none of these")
        return
    assert row["final_mse"] == row["reference_mse"] == pytest.approx(MEAN + mean)
    assert (row["agreement"], off["agreement"]) == ("agrees", "differs") and f"draws {named} " in row["note"]


def test_an_error_agrees_draw_by_draw_and_not_in_the_mean_alone():
    """Two draws that are as much above the reference's as below it have its mean."""
    cells = sweep_of({"strategy": ["reference", "streams"], "protocol.runs": 10, "protocol.rounds": 10}).cells
    for off, word in ((0.01, "differs"), (1e-5, "agrees")):
        records = [
            record(cell, [1.0], mse=MEAN + (i * off * (-1) ** number), number=number)
            for i, cell in enumerate(cells)
            for number in range(1, 11)
        ]
        found = correctness.build(frame_of(*records), ERRORS, THRESHOLDS).loc[1]
        assert found["relative_difference"] < 1e-9 and found["agreement"] == word
        assert found["largest_draw_difference"] == pytest.approx(off / MEAN)


def test_of_more_draws_than_the_references_those_that_both_have_are_compared():
    row = errors((1, 12)).loc["streams"]
    assert row["agreement"] == "agrees" and row["note"].endswith("reference over draws 1")


def test_a_loss_that_is_not_finite_differs_from_one_that_is():
    cells = sweep_of({"strategy": ["reference", "streams"], "protocol.runs": 2, "protocol.rounds": 1}).cells
    a, b = record(cells[0], [1.0, 1.0], mse=MEAN), record(cells[1], [1.0, 1.0], mse=MEAN)
    b["runs"][1]["final_loss"] = None
    assert correctness.build(frame_of(a, b), ERRORS, THRESHOLDS)["agreement"].tolist() == ["", "differs"]


def test_other_draws_are_compared_with_the_reference_of_the_papers_kernel():
    cells = sweep_of({"strategy": ["reference", "streams"], "kernel": ["tiled", "naive"]}).cells
    losses = [40.0 if cell["kernel"]["name"] == "naive" else 39.0 for cell in cells]
    table = correctness.build(frame_of_cells(cells, [[1.0] * 3] * 4, mse=losses), ERRORS, THRESHOLDS)
    assert table["kernel"].tolist() == ["tiled", "tiled", "naive", "naive"]
    assert table["reference_mse"].dropna().tolist() == [40.0] * 3  # and none of the reference itself
    assert table["agreement"].tolist() == ["differs", "differs", "", "agrees"]
    assert table["note"][2].endswith("the reference that others are compared with")


# ---- why a winner is faster, in sentences

ALLOCATION, WAITS = f"{PART}allocation", f"{PART}kernels"


LESS = "It spends about 1 s less on device allocation and free"


BY_PASSES = ", by instrumented passes, which differ by more than the runs."


@pytest.mark.parametrize(
    ("reference", "winner", "start", "end"),
    [
        ({}, {"kernel": "one_layer"}, "It uses the kernel one_layer instead of naive.", ""),
        ({}, {"kernel": ""}, "Neither ", ""),  # none of ours
        ({ALLOCATION: 3.0, WAITS: 1.0}, {ALLOCATION: 2.0, WAITS: 1.5}, LESS, ""),
        # Of another moment of the machine: what is less in them and what is more add up to the other sign.
        ({ALLOCATION: 3.0, WAITS: 1.0}, {ALLOCATION: 2.0, WAITS: 3.0}, "Neither ", ""),
        # The allocations of a pass cost 1 s less; between the runs there are 2 s, or only 0.3.
        ({ALLOCATION: 3.0}, {ALLOCATION: 2.0}, LESS, ""),
        ({ALLOCATION: 3.0, "mean_s": 2.3}, {ALLOCATION: 2.0}, LESS, BY_PASSES),
    ],
)
def test_why_a_winner_is_faster(reference, winner, start, end):
    rows = {"kernel": "naive", "mean_s": 4.0} | reference, {"kernel": "naive", "mean_s": 2.0} | winner
    slow, fast = (pd.Series(row | {"strategy": str(i), "cell": str(i)}) for i, row in enumerate(rows))
    found = reason(fast, slow)
    assert found.startswith(start) and found.endswith(end or ".") and (BY_PASSES in found) == bool(end)
