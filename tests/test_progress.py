"""What is left, from what was measured."""

import os

import pytest
from whole_grid import sweeps_of

from snn.measurement import progress
from snn.measurement.protocol import Round
from snn.measurement.runs import Run

CELLS = sweeps_of()["dataset_size"].cells


@pytest.fixture(autouse=True)
def of_the_test(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


CELL = CELLS[0] | {"protocol": CELLS[0]["protocol"] | {"rounds": 3}}


@pytest.mark.parametrize(("run", "expected"), [(1, 10), (12, 120), (30, 120), (50, 150)])
def test_a_rounds_time_under_its_rules(run, expected):
    assert progress.round_seconds(Round(10, 3, 120), run) == expected
    assert progress.round_seconds(Round(10, 3, None), run) == 10 * run


def output(number):
    return f"results/cells/h200/small/256/reference-{number}-round2.json"


def test_the_line_counts_cells_and_runs(tmp_path, capsys):
    progress.write_plan([(CELL, 2)] * 3)
    progress.note_done(CELL, 2, tmp_path / output(0))
    progress.note_done(CELL, 2, tmp_path / "elsewhere.json")  # of no workflow
    progress.note_done(CELL, 3, tmp_path / output(0))  # not of this one
    printer = progress.Printer(CELL, 2, 256, 32, output(1))
    printer._last = -100.0
    printer([Run(1.0, 0.0), Run(2.0, 0.0)])
    # One run of this job and three of the one that is left, 1.5 s each.
    said = "job 2 of 3, small reference, round 2: run 2 of 3, 1.5 s per run, about 6 s left\n"
    assert capsys.readouterr().err == said
    printer([Run(1.0, 0.0)] * 2)
    assert capsys.readouterr().err == ""  # less than two seconds later
    progress.note_done(CELL, 2, tmp_path / output(2))
    printer([Run(1.0, 0.0)] * 3)
    assert capsys.readouterr().err.startswith("job 3 of 3, small reference, round 2: run 3 of 3")
    progress.write_plan([(CELL, 2)])  # of a workflow that is started again
    progress.Printer(CELL, 2, 256, 32, output(2))([Run(1.0, 0.0)] * 3)
    assert capsys.readouterr().err.startswith("job 1 of 1, ")


def test_other_work_is_guessed_from_this_one(capsys):
    large = next(cell for cell in CELLS if cell["dataset"]["name"] == "large")
    large = large | {"protocol": CELL["protocol"]}
    progress.write_plan([(CELL, 1), (large, 1), (large, 2)])
    progress.Printer(CELL, 1, 256, 32, output(1))([Run(0.01, 0.0)] * 3)
    assert ", about 6 s left" in capsys.readouterr().err  # of 100 times as many rows: two of 3 runs of 1 s


@pytest.mark.parametrize(("seconds", "left"), [(89.0, "89 s"), (90.0, "2 min"), (3600.0, "60 min")])
def test_what_takes_long_is_in_minutes(capsys, seconds, left):
    cell = CELL | {"protocol": CELL["protocol"] | {"max_seconds": None}}
    progress.write_plan([(cell, 2)])
    printer = progress.Printer(cell, 2, 256, 32, output(1))
    printer._last = -100.0
    printer([Run(seconds, 0.0)] * 2)  # of three
    assert f", about {left} left\n" in capsys.readouterr().err


@pytest.mark.parametrize("given", [None, "cell.json"])
def test_a_job_that_no_workflow_planned_counts_none(capsys, given):
    progress.write_plan([(CELL, 1)] * 3)
    progress.Printer(CELL, 1, 256, 32, given)([Run(1.0, 0.0)] * 3)
    assert capsys.readouterr().err.startswith("small reference, round 1: run 3 of 3, ")


def test_a_plan_of_very_many_cells_is_small():
    seeds = (CELL | {"network": CELL["network"] | {"seed": seed}} for seed in range(5000))
    progress.write_plan((cell, 1) for cell in seeds)
    assert progress.PLAN.stat().st_size < 2000


def test_a_record_of_this_workflow_is_not_older_than_its_plan(tmp_path):
    record = tmp_path / "record.json"
    record.touch()
    assert not progress.made_since_start(record)  # of no workflow
    progress.write_plan([(CELL, 2)])
    os.utime(record, ns=(0, progress.PLAN.stat().st_mtime_ns - 1))
    assert not progress.made_since_start(record)
    os.utime(record, ns=(0, progress.PLAN.stat().st_mtime_ns))
    assert progress.made_since_start(record)
    assert not progress.made_since_start(tmp_path / "missing.json")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_long_run_says_on_a_terminal_how_far_it_is(is_terminal, monkeypatch, capsys):
    printer = progress.Printer(CELL, 2, 256, 32, None)
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: is_terminal)
    now = progress.time.monotonic()
    for at, done, seconds in ((1.9, 10, 9.0), (2.1, 20, 1.9), (2.2, 412.5, 10.0), (3.9, 500, 11.7)):
        monkeypatch.setattr(progress.time, "monotonic", lambda at=at: now + at)
        printer.of_run(done, 1000, seconds)
    line = "small reference, round 2: run 1 of 3, 412 of 1000 epochs (41%), about 14 s left of it\n"
    assert capsys.readouterr().err == (line if is_terminal else "")
    monkeypatch.setattr(progress.time, "monotonic", lambda: now + 4.3)
    printer.of_run(600, 1000, 12.1)
    assert (", 600 of 1000 epochs (60%)" in capsys.readouterr().err) == is_terminal
