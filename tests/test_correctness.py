"""The final errors beside the paper's: what each is compared with, by the draws of its weights."""

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.tables.paper import correctness

PAPER = ROOT / "config/paper"
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")


def errors(folder, draws, off=0.0):
    """Of a reference over ten draws and of ``streams`` over these, whose losses are ``off`` theirs."""
    protocol = {"protocol": "paper", "protocol.runs": 10, "protocol.rounds": 10}
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"mine": {"strategy": ["reference", "streams"], **protocol}}}))
    reference, streams = sweeps.read(path, Device("cuda", "NVIDIA H200"))["mine"].cells
    mean = 41.192574
    records = [record(reference, [1.0], mse=mean + 5.5 - draw, number=draw) for draw in range(1, 11)]
    records += [record(streams, [1.0], mse=mean + 5.5 - draw + off, number=draw) for draw in draws]
    loaded = frame.tabulate({str(i): one for i, one in enumerate(records)}, THRESHOLDS)
    return correctness.build(loaded, read_yaml(PAPER / "correctness.yaml"), THRESHOLDS).set_index("strategy")


def test_an_error_over_the_papers_draws_is_compared_with_the_papers(tmp_path):
    table = errors(tmp_path, range(1, 11), off=0.01)
    assert table["paper_mse"].tolist() == [41.192574, 41.192574] and table["reference_mse"].isna().all()
    assert table["agreement"].tolist() == ["agrees", "differs"]
    assert table["relative_difference"].tolist() == pytest.approx([0, 0.01 / 41.192574], abs=1e-12)
    assert set(table["note"]) == {""}


@pytest.mark.parametrize(
    ("draws", "named", "mean"), [((1, 2, 3, 4, 5, 6), "1 to 6", 2.0), ((1, 3, 4, 9), "1, 3 to 4, 9", 1.25)]
)
def test_an_error_over_other_draws_is_another_one_and_says_why(tmp_path, draws, named, mean):
    """Six draws have another mean than ten: it is compared with the reference's mean over the same six."""
    row = errors(tmp_path, draws).loc["streams"]
    assert (row["final_mse"], row["draws"]) == (pytest.approx(41.192574 + mean), named)
    assert pd.isna(row["paper_mse"]) and row["reference_mse"] == pytest.approx(41.192574 + mean)
    assert row["agreement"] == "agrees"
    assert row["note"] == (
        f"the mean over draws {named} of initial weights, not the paper's 1 to 10; "
        "compared with the reference over the same draws"
    )
    assert errors(tmp_path, draws, off=0.01).loc["streams", "agreement"] == "differs"


def test_a_draw_that_the_reference_lacks_leaves_no_verdict(tmp_path):
    row = errors(tmp_path, (1, 12)).loc["streams"]
    assert (row["draws"], row["agreement"]) == ("1, 12", "")
    assert row["note"].endswith("the reference was not trained from all of these")


def test_other_draws_are_compared_with_the_reference_of_the_papers_kernel(tmp_path):
    sweep = {"strategy": ["reference", "streams"], "kernel": ["tiled", "naive"], "protocol.rounds": 1}
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"mine": sweep}}))
    cells = sweeps.read(path, Device("cuda", "NVIDIA H200"))["mine"].cells
    records = {
        str(i): record(cell, [1.0] * 3, mse=40.0 if cell["kernel"]["name"] == "naive" else 39.0)
        for i, cell in enumerate(cells)
    }
    loaded = frame.tabulate(records, THRESHOLDS)
    table = correctness.build(loaded, read_yaml(PAPER / "correctness.yaml"), THRESHOLDS)
    assert table["kernel"].tolist() == ["tiled", "tiled", "naive", "naive"]
    assert table["reference_mse"].dropna().tolist() == [40.0] * 3  # and none of the reference itself
    assert table["agreement"].tolist() == ["differs", "differs", "", "agrees"]


def test_every_row_of_correctness_has_its_tolerance_and_its_word(tmp_path):
    products = [
        {"strategy": "resident", "network.init": "he_uniform"},
        {"strategy": ["reference", "pinned", "streams", "combined", "blas"], "protocol.runs": 10},
        {"strategy": "resident", "kernel": "tiled_fused"},
        {"strategy": "reference", "network.init": "he_uniform"},
    ]
    path = tmp_path / "grid.yaml"
    grid = {"defaults": {"protocol.rounds": 1}, "sweeps": {"mine": {"union": products}}}
    path.write_text(yaml.safe_dump(grid))
    found = sweeps.read(path, Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC"))["mine"]
    paper = read_yaml(PAPER / "correctness.yaml")
    published = paper["reference"]["mse"]
    near, middle, far = (published * (1 + share) for share in (5e-6, 5e-5, 5e-4))
    errors = [near, near, middle, near, far, middle, near, near]
    runs = [10, 10, 10, 9, 10, 10, 10, 10]
    records = {
        str(i): record(cell, [1.0] * count, mse=error)
        for i, (cell, error, count) in enumerate(zip(found.cells, errors, runs, strict=True))
    }
    table = correctness.build(frame.tabulate(records, THRESHOLDS), paper, THRESHOLDS)
    assert table["strategy"].tolist() == ["reference", "pinned", "streams", "combined", "blas", "resident"]
    assert table["tolerance"].tolist() == [1e-5] * 4 + [1e-4] * 2
    assert table["agreement"].tolist() == ["agrees", "differs", "agrees", "differs", "agrees", "agrees"]
    assert table["draws"].tolist() == ["1 to 10", "1 to 10", "1 to 9", *["1 to 10"] * 3]
    assert table["paper_mse"].isna().tolist() == [draws != "1 to 10" for draws in table["draws"]]
    assert table["reference_mse"].tolist()[2] == near
