"""Tables of the paper and of the time's parts: arithmetic on known records, and the paper's values."""

import numpy as np
import pytest
from records_of import THRESHOLDS, frame_of, record, write_all
from whole_grid import sweeps_of

from snn import datasets as prepared
from snn.analysis import frame
from snn.config.groups import CONFIG, read_yaml
from snn.datasets import Table, described
from snn.datasets import load as load_table
from snn.figures import breakdown, draw
from snn.grid import sweeps
from snn.tables.attribution import PART, attribution
from snn.tables.paper import datasets

SWEEPS = sweeps_of()
PAPER = CONFIG / "paper"


def test_published_speedups_are_the_papers_times_divided():
    times, ratios = (read_yaml(PAPER / f"{name}.yaml") for name in ("training_time", "speedup"))
    for strategy, row in ratios.items():
        for dataset, ratio in row.items():
            assert ratio == pytest.approx(times["reference"][dataset] / times[strategy][dataset], abs=0.0101)
    for name in ("neurons", "depth"):
        for row in read_yaml(PAPER / f"{name}.yaml").values():
            assert row["speedup"] == pytest.approx(row["reference"] / row["combined"], abs=0.0101)


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


def trained_on(rows=300, batch_size=256, network=None, **settings):
    """A cell, as far as the table of data sets reads it, and what a record says of its data."""
    training = {"batch_size": batch_size, "epochs": 100} | settings
    data = {"rows": rows, "features": 4}
    cell = {"dataset": {"name": "small", **data}, "training": training}
    return cell | {"network": network or {"hidden": [256]}}, data


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
