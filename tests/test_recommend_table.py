"""The ranked table of candidates: order, both ratios, who is called fastest, and what has no rank."""

import math

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.analysis import frame
from snn.config.groups import read_yaml
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.recommending import text
from snn.tables import recommend

GPU = Device("cuda", "NVIDIA H200")
THRESHOLDS = read_yaml(ROOT / "config/verdicts.yaml")


@pytest.fixture
def ranked(tmp_path):
    """The table where the strategies took these seconds, in two rounds of three runs."""

    def table(mse=None, **seconds):
        path = tmp_path / "grid.yaml"
        sweep = {"protocol.rounds": 2, "strategy": list(seconds)}
        path.write_text(yaml.safe_dump({"sweeps": {"recommend": sweep}}))
        cells = sweeps.read(path, GPU)["recommend"].named
        records = {}
        for name, cell in cells.items():
            strategy = cell["strategy"]["name"]
            for number in (1, 2):
                loss = (mse or {}).get(strategy, 41.0)
                of = seconds[strategy]
                ended = ("unsupported", "it needs a CUDA device") if of is None else None
                runs = [] if of is None else [of * (1 + 0.001 * (number + i)) for i in range(3)]
                records[f"{name} {number}"] = record(cell, runs, mse=loss, number=number, ended=ended)
        return recommend.build(frame.tabulate(records, THRESHOLDS), {}, THRESHOLDS)

    return table


def test_rows_are_in_the_order_of_time_with_both_ratios(ranked):
    table = ranked(reference=4.0, combined=1.0, graph=2.0)
    assert table["strategy"].tolist() == ["combined", "graph", "reference"]
    assert table["rank"].tolist() == [1, 2, 3]
    assert table["speedup"].tolist() == pytest.approx([4, 2, 1])
    assert table["verdict"].tolist() == ["faster", "faster", "reference"]
    assert table["behind"].tolist() == pytest.approx([1, 2, 4])
    assert table["against_fastest"].tolist() == ["fastest", "slower", "slower"]
    assert (table["rounds"] == 2).all() and (table["runs"] == 6).all()
    row = table.iloc[1]
    assert row["mean_ci_low"] < row["mean_s"] < row["mean_ci_high"]
    assert row["behind_ci_low"] <= 2 <= row["behind_ci_high"]


def test_nobody_is_the_fastest_by_a_lead_that_is_not_significant(ranked):
    table = ranked(reference=4.0, combined=1.0, graph=1.0001)
    assert table["against_fastest"].tolist() == ["shortest mean", "as fast", "slower"]


def test_what_diverged_or_is_unsupported_has_no_rank(ranked):
    table = ranked({"combined": math.nan}, reference=4.0, combined=1.0, graph=None)
    assert table["strategy"].tolist() == ["reference", "combined", "graph"]
    assert table["rank"].isna().tolist() == [False, True, True]
    assert table["against_fastest"].tolist()[1:] == ["", ""]
    assert table["status"].tolist() == ["ok", "diverged", "unsupported"]
    assert table["reason"].tolist()[2] == "it needs a CUDA device"


def test_the_table_that_is_printed_says_why_a_row_has_no_time(ranked):
    said = text.answered(ranked(reference=4.0, graph=None, pinned=None), pd.DataFrame()).splitlines()
    assert "Unsupported: graph, pinned: it needs a CUDA device." in said


def test_a_diverged_winner_is_never_recommended(ranked):
    table = ranked({"reference": math.nan, "combined": math.nan}, reference=4.0, combined=1.0)
    said = text.answered(table, pd.DataFrame())
    assert "No recommendation: no training ended well. diverged: combined, reference." in said
    assert "--learning-rate may help" in said


def test_the_table_that_is_printed_names_rounds_and_states(ranked):
    table = ranked(reference=4.0, combined=0.001).assign(machine="noisy", rounds=[1, 2])
    answer = pd.DataFrame([{"answer": "combined is the fastest.", "reason": "It copies less."}])
    lines = text.answered(table, answer).splitlines()
    assert lines[1:3] == ["combined is the fastest.", "It copies less."]
    assert "1 ms" in lines[5] and "4e+03" in lines[5]
    assert lines[-2].startswith("Measured in one round only") and "combined" in lines[-2]
    assert "noisy in 2 rows" in lines[-1]
