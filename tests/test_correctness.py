"""The final errors beside the paper's: what each is compared with, by the draws of its weights."""

import pandas as pd
import pytest
from records_of import THRESHOLDS, frame_of, frame_of_cells, record, sweep_of

from snn.config.groups import CONFIG, read_yaml
from snn.tables.paper import correctness

PAPER = read_yaml(CONFIG / "paper/correctness.yaml")
MEAN = PAPER["reference"]["mse"]


def errors(draws, off=0.0):
    """Of a reference over ten draws and of ``streams`` over these, whose losses are ``off`` theirs."""
    protocol = {"protocol": "paper", "protocol.runs": 10, "protocol.rounds": 10}
    reference, streams = sweep_of({"strategy": ["reference", "streams"], **protocol}).cells
    records = [record(reference, [1.0], mse=MEAN + 5.5 - draw, number=draw) for draw in range(1, 11)]
    records += [record(streams, [1.0], mse=MEAN + 5.5 - draw + off, number=draw) for draw in draws]
    return correctness.build(frame_of(*records), PAPER, THRESHOLDS).set_index("strategy")


@pytest.mark.parametrize(
    ("draws", "named", "mean"),
    [((1, 2, 3, 4, 5, 6), "1 to 6", 2.0), ((1, 3, 4, 9), "1, 3 to 4, 9", 1.25), ((1, 12), "1, 12", None)],
)
def test_an_error_over_other_draws_is_compared_with_the_references_over_the_same(draws, named, mean):
    row, off = errors(draws).loc["streams"], errors(draws, off=0.01).loc["streams"]
    assert row["draws"] == named and pd.isna(row["paper_mse"])
    if mean is None:
        assert row["agreement"] == "" and row["note"].endswith("reference was not trained from all of these")
        return
    assert row["final_mse"] == row["reference_mse"] == pytest.approx(MEAN + mean)
    assert (row["agreement"], off["agreement"]) == ("agrees", "differs") and f"draws {named} " in row["note"]


def test_other_draws_are_compared_with_the_reference_of_the_papers_kernel():
    cells = sweep_of({"strategy": ["reference", "streams"], "kernel": ["tiled", "naive"]}).cells
    losses = [40.0 if cell["kernel"]["name"] == "naive" else 39.0 for cell in cells]
    table = correctness.build(frame_of_cells(cells, [[1.0] * 3] * 4, mse=losses), PAPER, THRESHOLDS)
    assert table["kernel"].tolist() == ["tiled", "tiled", "naive", "naive"]
    assert table["reference_mse"].dropna().tolist() == [40.0] * 3  # and none of the reference itself
    assert table["agreement"].tolist() == ["differs", "differs", "", "agrees"]
    assert table["note"][2].endswith("the reference that others are compared with")


def test_every_row_of_correctness_has_its_tolerance_and_its_word():
    products = [
        {"strategy": "resident", "network.init": "he_uniform"},
        {"strategy": ["reference", "pinned", "streams", "combined", "blas"], "protocol.runs": 10},
        {"strategy": "resident", "kernel": "tiled_fused"},
        {"strategy": "reference", "network.init": "he_uniform"},
    ]
    near, middle, far = (MEAN * (1 + share) for share in (5e-6, 5e-5, 5e-4))
    losses = [near, near, middle, near, far, middle, near, near]
    seconds = [[1.0] * count for count in (10, 10, 10, 9, 10, 10, 10, 10)]
    rows = frame_of_cells(sweep_of(products).cells, seconds, mse=losses)
    table = correctness.build(rows, PAPER, THRESHOLDS)
    assert table["strategy"].tolist() == ["reference", "pinned", "streams", "combined", "blas", "resident"]
    assert table["tolerance"].tolist() == [1e-5] * 4 + [1e-4] * 2
    assert table["agreement"].tolist() == ["agrees", "differs", "agrees", "differs", "agrees", "agrees"]
    assert table["draws"].tolist() == ["1 to 10", "1 to 10", "1 to 9", *["1 to 10"] * 3]
    assert table["paper_mse"].isna().tolist() == [draws != "1 to 10" for draws in table["draws"]]
    assert table["reference_mse"].tolist()[2] == near
