"""Tables: arithmetic on known records, the paper's values beside them, and what they refuse."""

import numpy as np
import pytest
import yaml
from conftest import ROOT
from records_of import record, write_all
from whole_grid import sweeps_of

from snn import datasets as prepared
from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.datasets import Table, described
from snn.datasets import load as load_table
from snn.figures import breakdown, draw
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.tables.attribution import PART, attribution
from snn.tables.paper import correctness, datasets
from snn.tables.sweep import sweep

SWEEPS = sweeps_of()
PAPER = ROOT / "config/paper"
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")


@pytest.fixture
def load(tmp_path):
    def loaded(name, seconds, **provenance):
        return frame.tabulate(
            frame.checked(write_all(tmp_path, SWEEPS[name].cells, seconds, **provenance)), THRESHOLDS
        )

    return loaded


@pytest.fixture
def dataset_size(load):
    return load("dataset_size", [[float(i), i + 2.0] for i in range(1, 16)])


def test_published_speedups_are_the_papers_times_divided():
    times, ratios = (read_yaml(PAPER / f"{name}.yaml") for name in ("training_time", "speedup"))
    for strategy, row in ratios.items():
        for dataset, ratio in row.items():
            assert ratio == pytest.approx(times["reference"][dataset] / times[strategy][dataset], abs=0.0101)
    for name in ("neurons", "depth"):
        for row in read_yaml(PAPER / f"{name}.yaml").values():
            assert row["speedup"] == pytest.approx(row["reference"] / row["combined"], abs=0.0101)


def test_attribution_sums_its_parts(dataset_size):
    table = attribution.build(dataset_size, {}, THRESHOLDS)
    assert table["attributed_s"].tolist() == pytest.approx([float(i) for i in range(1, 16)])
    assert table["allocation_s"].tolist() == pytest.approx([i / 2 for i in range(1, 16)])
    runs = [1.25, 0.8, 1.3, 0.75]  # of the sum of their parts
    dataset_size.loc[:3, "mean_s"] = table["attributed_s"][:4] * runs
    noted = attribution.build(dataset_size, {}, THRESHOLDS | {"parts_differ": 1.26})["note"]
    assert noted[:4].tolist() == [
        *("", ""),
        "the parts add up to 0.769 times the mean of the runs",
        "the parts add up to 1.33 times the mean of the runs",
    ]
    assert set(attribution.build(dataset_size, {}, THRESHOLDS)["note"][:2]) == {""}  # at the threshold
    dataset_size.loc[0, [name for name in dataset_size if name.startswith(PART)]] = None
    assert attribution.build(dataset_size, {}, THRESHOLDS)["note"][0] == ""  # no pass, so nothing adds up
    figure = draw("attribution", table, "Tesla T4")
    assert [axes.get_title() for axes in figure.axes] == ["small", "medium", "large"]
    filled = [box.get_fill() for box in figure.axes[0].patches]
    assert (sum(filled), len(filled)) == (
        5 * len(breakdown.PARTS),
        5 * len(breakdown.PARTS) + 5,
    )


def test_attribution_is_by_network_and_counts_the_calls(load):
    """Each network beside its own reference, with what its ledger counts."""
    cells = SWEEPS["neurons"].cells
    rows = load("neurons", [[float(2**i), 2.0**i] for i in range(len(cells))])
    table = attribution.build(rows, {}, THRESHOLDS).set_index(["strategy", "network"])
    for network in ("128", "256", "1024"):
        reference, combined = table.loc["reference", network], table.loc["combined", network]
        assert combined["speedup"] == reference["mean_s"] / combined["mean_s"]
        assert combined["predicted_speedup"] == reference["predicted_s"] / combined["predicted_s"]
        assert combined["mallocs"] == 1
    without = rows[(rows["strategy"] != "reference") | (rows["network"] != "128")].reset_index(drop=True)
    table = attribution.build(without, {}, THRESHOLDS).set_index(["strategy", "network"])
    assert table["speedup"].isna().tolist() == table["predicted_speedup"].isna().tolist()
    assert table.index[table["speedup"].isna()].tolist() == [("combined", "128")]
    figure = draw("attribution", table.reset_index(), "Tesla T4")
    assert [axes.get_title() for axes in figure.axes] == ["256", "1024", "128"]


@pytest.mark.parametrize(
    ("elsewhere", "compared"),
    [((), True), ((4, 5), True), ((2,), False), ((1, 2, 3), False)],
    ids=["one GPU", "rounds without passes elsewhere", "a pass elsewhere", "all passes elsewhere"],
)
def test_predictions_are_divided_if_their_passes_ran_on_one_gpu(elsewhere, compared):
    cells = [cell for cell in SWEEPS["dataset_size"].cells if cell["dataset"]["name"] == "small"][:2]
    rows = {}
    for cell in cells:
        for number in range(1, 6):
            moved = cell["strategy"]["name"] != "reference" and number in elsewhere
            one = record(cell, [float(number)], number=number, device_uuid=f"GPU-{1 + moved}")
            rows[f"{cell['strategy']['name']}{number}"] = one if number <= 3 else one | {"explanation": None}
    table = attribution.build(frame.tabulate(rows, THRESHOLDS), {}, THRESHOLDS).set_index("strategy")
    assert table["predicted_speedup"]["reference"] == 1
    assert table["predicted_speedup"].notna().all() == compared


def test_a_reference_over_other_draws_is_not_compared_with_itself(dataset_size):
    small = dataset_size[dataset_size["dataset"] == "small"].reset_index(drop=True)
    table = correctness.build(small, read_yaml(PAPER / "correctness.yaml"), THRESHOLDS).set_index("strategy")
    assert table.loc["reference", "agreement"] == "" and set(table["agreement"][1:]) == {"agrees"}
    assert table.loc["reference", "note"].endswith("the reference that others are compared with")


def test_how_a_strategy_trained_that_chooses_is_told_beside_its_time(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"mine": {"strategy": ["reference", "persistent"]}}}))
    reference, persistent = sweeps.read(path, Device("cuda", "Tesla T4"))["mine"].cells
    records = {"a": record(reference, [2.0]), "b": record(persistent, [1.0])}
    assert "plan" not in sweep.build(frame.tabulate(records, THRESHOLDS), ["strategy"], THRESHOLDS)
    records["b"] |= {"plan": "graph: no cluster"}
    table = sweep.build(frame.tabulate(records, THRESHOLDS), ["strategy"], THRESHOLDS)
    assert table["plan"].tolist() == ["", "graph: no cluster"]
    assert table["mean_s"].tolist() == [2.0, 1.0]


def test_a_sweep_without_its_reference_has_no_speedup(tmp_path):
    path = tmp_path / "grid.yaml"
    path.write_text(
        yaml.safe_dump({"sweeps": {"tiles": {"strategy": "combined", "strategy.tile_rows": [32, 64]}}})
    )
    found = sweeps.read(path, Device("cuda", "NVIDIA H200"))["tiles"]
    table = sweep.build(
        frame.tabulate(frame.checked(write_all(tmp_path, found.cells, [[1.0], [2.0]])), THRESHOLDS),
        found.axes,
        THRESHOLDS,
    )
    assert "speedup" not in table
    assert table["strategy.tile_rows"].tolist() == [32, 64]


def trained_on(rows=300, batch_size=256, network=None, **settings):
    """A cell, as far as the table of data sets reads it, and what a record says of its data."""
    training = {"batch_size": batch_size, "epochs": 100} | settings
    dataset = {"name": "small", "rows": rows, "features": 4}
    return {"dataset": dataset, "training": training, "network": network or {"hidden": [256]}}, {
        "rows": rows,
        "features": 4,
    }


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
