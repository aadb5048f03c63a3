"""What is left, from what was measured."""

import json

import pytest
from conftest import ROOT

from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement import progress
from snn.measurement.protocol import Round
from snn.measurement.runs import Run

CELLS = sweeps.read(ROOT / "config/grid.yaml", Device("cuda", "NVIDIA H200"))["dataset_size"].cells

CELL = CELLS[0] | {"protocol": CELLS[0]["protocol"] | {"rounds": 3}}


@pytest.mark.parametrize(("run", "expected"), [(1, 10), (12, 120), (30, 120), (50, 150)])
def test_a_rounds_time_under_its_rules(run, expected):
    assert progress.round_seconds(Round(10, 3, 120), run) == expected
    assert progress.round_seconds(Round(10, 3, None), run) == 10 * run


def test_work_grows_with_the_data():
    small, large = (next(c for c in CELLS if c["dataset"]["name"] == name) for name in ("small", "large"))
    assert progress.work(large, 25600, 32) == pytest.approx(100 * progress.work(small, 256, 32))


def test_the_line_counts_cells_and_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "PLAN", tmp_path / "plan" / "plan.json")
    paths = [str(tmp_path / f"{i}.json") for i in range(3)]
    progress.write_plan(dict.fromkeys(paths, (CELL, 2)))
    plan = json.loads(progress.PLAN.read_text())
    assert list(plan["jobs"]) == paths
    (tmp_path / "0.json").write_text("{}")
    printer = progress.Printer(CELL, 1, 256, 32, paths[1])
    printer._last = -100.0
    printer([Run(1.0, 0.0), Run(2.0, 0.0)])
    # One run of this job and three of the one that is left, 1.5 s each.
    assert capsys.readouterr().err == (
        "job 2 of 3, small reference, round 1: run 2 of 3, 1.5 s per run, about 6 s left\n"
    )
    printer([Run(1.0, 0.0)] * 2)
    assert capsys.readouterr().err == ""  # less than two seconds later
    printer([Run(1.0, 0.0)] * 3)
    assert "run 3 of 3" in capsys.readouterr().err
