"""How `snn recommend` goes on: epochs of an earlier call, a candidate that fails, two at once."""

import io
import sys
from types import SimpleNamespace

import pytest
import yaml
from recommend_calls import ASKED, measure

from snn import recommend
from snn.errors import OutputError
from snn.grid import more_rounds
from snn.recommending import grid_file, measured, pilot, workflow
from snn.recommending.pilot import Pilot
from snn.recommending.settings import parsed

QUICK = Pilot(epoch=0.01, job=0.5, outside=0.3)
WAITED = Pilot(epoch=0.01, job=0.5, outside=0.3, waited=500.0)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder in place of the checkout's results; nothing is measured in it."""
    monkeypatch.chdir(tmp_path)
    for module in (grid_file, recommend, workflow, measured):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(pilot, "run", lambda cell, budget: QUICK)
    return tmp_path


@pytest.fixture
def grids(project, monkeypatch):
    """The grids that were measured, one after the other."""
    seen = []

    def run(grid, but=()):
        seen.append(grid)
        measure(grid, project, but=but)
        return 0.0

    monkeypatch.setattr(workflow, "measure", run)
    monkeypatch.setattr(workflow, "report", lambda grid, part: (project / workflow.PAGE).write_text("report"))
    return seen


def epochs(grid):
    return {cell["training"]["epochs"] for cell in grid.plan.cells.values()}


def test_a_larger_budget_goes_on_with_the_epochs_of_a_smaller_one(grids, capsys):
    """Else nothing that was measured would be used again."""
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    (few,) = epochs(grids[-1])
    assert few < 100 and f"Each run trains {few} of the 100 epochs, so that" in capsys.readouterr().err
    assert recommend.main([*ASKED, "--budget", "10min"]) == 0
    assert epochs(grids[-1]) == {few} and "as when this was measured before" in capsys.readouterr().err
    assert recommend.main([*ASKED, "--budget", "10min", "--epochs", "90"]) == 0  # another training
    assert epochs(grids[-1]) == {90}


def test_a_larger_budget_goes_on_with_the_rows_of_a_smaller_one(grids, capsys, monkeypatch):
    monkeypatch.setattr(pilot, "run", lambda cell, budget: Pilot(2.0, 0.5, 0.3))
    asked = ["--device", "cpu", "--dataset", "medium", "--output", "out"]
    assert recommend.main([*asked, "--budget", "60s"]) == 0
    (rows,) = {cell["dataset"]["rows"] for cell in grids[-1].plan.cells.values()}
    part = f"Each run trains 1 of the 100 epochs, on {rows:,} of the 2,560 rows"
    assert rows < 2560 and epochs(grids[-1]) == {1}
    assert f"{part}, so that the budget suffices." in capsys.readouterr().err
    assert recommend.main([*asked, "--budget", "10min"]) == 0
    assert {cell["dataset"]["rows"] for cell in grids[-1].plan.cells.values()} == {rows}
    assert f"{part}, as when this was measured before." in capsys.readouterr().err


def test_what_was_interrupted_in_its_first_round_goes_on(grids, project, monkeypatch):
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    (few,) = epochs(grids[-1])
    lost = measured.paths(grids[-1])[0]
    (project / lost).unlink()
    monkeypatch.setattr(pilot, "run", lambda cell, budget: Pilot(0.012, 0.5, 0.3))
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    assert epochs(grids[-1]) == {few}


def test_without_a_record_the_epochs_are_chosen_anew(grids, project):
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    for path in measured.paths(grids[-1]):
        (project / path).unlink()
    assert recommend.main([*ASKED, "--budget", "10min"]) == 0
    assert epochs(grids[-1]) == {100}


def test_a_candidate_that_fails_is_left_out(grids, project, monkeypatch, capsys):
    monkeypatch.setattr(workflow, "measure", _failing(grids, project, {"blas", "workspace"}))
    assert recommend.main([*ASKED, "--budget", "10min"]) == 0
    said = capsys.readouterr().err
    assert "Measuring workspace, blas failed (see above); the other candidates are compared without." in said
    names = {cell["strategy"]["name"] for cell in grids[-1].plan.cells.values()}
    assert not {"blas", "workspace"} & names and {"reference", "resident", "combined"} <= names


def test_a_candidate_that_failed_stays_out_when_another_fails_later(grids, project, monkeypatch, capsys):
    """And the runs keep the epochs that they had."""
    failing = [{"workspace"}, set(), {"workspace", "blas"}]

    def run(grid):
        grids.append(grid)
        now = failing.pop(0) if failing else {"workspace", "blas"}
        measure(grid, project, but=now)
        if now & {cell["strategy"]["name"] for cell in grid.plan.cells.values()}:
            raise workflow.WorkflowError("the workflow failed", of_jobs=True)
        return 0.0

    monkeypatch.setattr(pilot, "run", lambda cell, budget: Pilot(2.0, 0.5, 0.3))
    monkeypatch.setattr(workflow, "measure", run)
    assert recommend.main([*ASKED, "--budget", "10min"]) == 0
    said = capsys.readouterr().err
    assert "Measuring workspace failed" in said and "Measuring blas failed" in said
    names = {cell["strategy"]["name"] for cell in grids[-1].plan.cells.values()}
    assert not {"blas", "workspace"} & names and "reference" in names
    (few,) = set.union(*map(epochs, grids))
    assert few < 100


def test_rounds_that_an_earlier_call_had_time_for_are_not_all_measured(grids, project):
    assert recommend.main([*ASKED, "--budget", "10min"]) == 0
    grid = grids[-1]
    (name, *_), had = grid.plan.cells, len(measured.paths(grid))
    more_rounds.add(dict.fromkeys(grid.plan.cells, 30), project / more_rounds.FILE)
    assert len(measured.paths(grid)) == 30 * len(grid.plan.cells)
    measured.limit_rounds(grid)
    assert len(measured.paths(grid)) == had and not measured.missing(grid)
    first = next(path for path in measured.paths(grid) if name in str(path))
    (project / first).unlink()
    measured.limit_rounds(grid)
    assert [path for path in measured.paths(grid) if name in str(path)] == [first]
    assert measured.missing(grid) == [name]


def test_what_is_waited_for_other_measurements_is_not_of_the_budget(grids, project, monkeypatch):
    """Else the time left would be taken for too short for a second round."""
    clock = [0.0]
    monkeypatch.setattr(recommend, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(pilot, "run", lambda cell, budget: clock.append(clock.pop() + 500) or WAITED)

    def run(grid):
        clock[0] += 500
        grids.append(grid)
        measure(grid, project)
        return 500.0

    monkeypatch.setattr(workflow, "measure", run)
    assert recommend.main([*ASKED, "--budget", "100s"]) == 0
    assert len(grids) > 1


@pytest.mark.parametrize(("failing", "of_jobs"), [({"reference"}, True), ({"blas"}, False)])
def test_without_the_reference_or_a_failed_job_the_error_stands(
    failing, of_jobs, grids, project, monkeypatch, capsys
):
    monkeypatch.setattr(workflow, "measure", _failing(grids, project, failing, of_jobs))
    assert recommend.main([*ASKED, "--budget", "10min"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "snn: the workflow failed"


def _failing(grids, project, failing, of_jobs=True):
    def run(grid):
        grids.append(grid)
        measure(grid, project, but=failing)
        if failing & {cell["strategy"]["name"] for cell in grid.plan.cells.values()}:
            raise workflow.WorkflowError("the workflow failed", of_jobs)
        return 0.0

    return run


def test_two_at_once_do_not_mix_their_tables(grids, capsys):
    with workflow.held():
        assert recommend.main(ASKED) == 2
    assert "another snn recommend is at work in" in capsys.readouterr().err
    assert not grids
    assert recommend.main([*ASKED, "--budget", "10min"]) == 0


def test_tables_of_another_grid_are_not_taken_for_its_own(project, monkeypatch):
    """Snakemake without its notes keeps a table that is there, and does not look for the records below it."""
    for path in (workflow.TABLE, workflow.ANSWER):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("of another grid")
    asked = []
    monkeypatch.setattr(workflow, "_snakemake", lambda grid, arguments: asked.extend(arguments))
    grid = grid_file.write(parsed(ASKED), "cpu")
    workflow.measure(grid)
    assert not (project / workflow.TABLE).exists() and not (project / workflow.ANSWER).exists()
    assert set(measured.paths(grid)) <= set(asked) and len(measured.paths(grid)) == len(grid.plan.cells)


def test_an_output_that_cannot_be_written_at_the_end_is_an_error(grids, project, monkeypatch, capsys):
    def report(grid, part):
        (project / workflow.PAGE).write_text("report")
        (project / "out/ranking.csv").mkdir()

    monkeypatch.setattr(workflow, "report", report)
    assert recommend.main([*ASKED, "--budget", "10min"]) == 2
    assert f"snn: {project}/out/ranking.csv: cannot be written" in capsys.readouterr().err.splitlines()[-1]


def _first_pass_alone(grids, project):
    """A workflow that measures a round of all candidates, and then finds the disk full."""

    def run(grid):
        if grids:
            raise workflow.WorkflowError("the disk is full")
        grids.append(grid)
        measure(grid, project)
        return 0.0

    return run


def _tables_alone(grids, project):
    """A workflow that measures, and cannot write the tables."""

    def run(grid):
        measure(grid, project)
        raise workflow.WorkflowError("the disk is full", of_jobs=True)

    return run


@pytest.mark.parametrize("failing", [_first_pass_alone, _tables_alone])
def test_a_workflow_that_fails_prints_the_ranking_of_what_was_measured(
    grids, project, monkeypatch, capsys, failing
):
    monkeypatch.setattr(workflow, "measure", failing(grids, project))
    assert recommend.main([*ASKED, "--budget", "10min"]) == 2
    out, err = capsys.readouterr()
    assert "rank" in out and "reference" in out and "resident" in out
    assert err.splitlines()[-1] == "snn: the disk is full"


def test_a_workflow_that_fails_before_anything_is_measured_prints_no_ranking(grids, monkeypatch, capsys):
    def run(grid):
        raise workflow.WorkflowError("the disk is full")

    monkeypatch.setattr(workflow, "measure", run)
    assert recommend.main([*ASKED, "--budget", "10min"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("error", [OutputError("the disk is full"), workflow.WorkflowError("status 1")])
def test_a_report_that_fails_leaves_the_ranking_printed(grids, monkeypatch, capsys, error):
    def report(grid, part):
        raise error

    monkeypatch.setattr(workflow, "report", report)
    assert recommend.main([*ASKED, "--budget", "10min"]) == 2
    out, err = capsys.readouterr()
    assert "rank" in out and "resident" in out
    assert err.splitlines()[-1] == f"snn: {error}"


def test_a_reader_that_has_gone_does_not_cost_the_report(grids, project, monkeypatch):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):  # snn.command makes a status of it
        recommend.main([*ASKED, "--budget", "10min"])
    assert {path.name for path in (project / "out").iterdir()} == {"report.html", "ranking.csv", "grid.yaml"}


def test_that_the_answer_to_another_question_is_replaced_is_said_before(grids, project, capsys):
    """Not of the same question with more time, or after a file that is none of ours."""
    words = "snn: note: out has the answer to another question, which this one will replace"

    def said(*arguments):
        assert recommend.main([*ASKED, *arguments]) == 0
        return capsys.readouterr().err.count(words)

    assert [said("--budget", "20s"), said("--budget", "10min"), said("--all")] == [0, 0, 0]
    assert [said("--hidden", "8"), said("--hidden", "8"), said()] == [1, 0, 1]
    for content in ("sweeps: 1", "[", "{}", "sweeps: {a: 1}", "[" * 10_000, "#" * (1 << 21)):
        (project / "out/grid.yaml").write_text(content)
        assert said() == 1, content[:20]


def test_the_candidates_that_are_left_out_keep_the_others_cells(project):
    grid = grid_file.write(parsed(ASKED), "cpu")
    out = [name for name, cell in grid.plan.cells.items() if cell["strategy"]["name"] == "blas"]
    fewer = grid_file.write(parsed(ASKED), "cpu", without=out)
    assert list(fewer.plan.cells) == [name for name in grid.plan.cells if name not in out]
    assert fewer.path != grid.path
    again = yaml.safe_load((project / fewer.path).read_text())["sweeps"]["recommend"]
    assert {"strategy": ["blas"]} not in again["union"]


def test_a_report_that_cannot_be_made_leaves_the_one_before(grids, project, monkeypatch):
    """Snakemake writes into a file of the project; the user's is replaced when it is whole."""
    assert recommend.main(ASKED) == 0
    before = (project / "out/report.html").read_text()

    def report(grid, part):
        (project / workflow.PAGE).write_text("cut o")
        raise workflow.WorkflowError("no space left")

    monkeypatch.setattr(workflow, "report", report)
    assert recommend.main(ASKED) == 2
    assert (project / "out/report.html").read_text() == before == "report"


def test_an_output_that_is_a_link_stays_one(grids, project):
    (project / "out").mkdir()
    (project / "real.csv").write_text("earlier")
    (project / "out/ranking.csv").symlink_to(project / "real.csv")
    assert recommend.main(ASKED) == 0
    assert (project / "out/ranking.csv").is_symlink()
    assert (project / "real.csv").read_bytes() == (project / workflow.TABLE).read_bytes()


@pytest.mark.parametrize("there", [False, True])
def test_a_budget_that_is_refused_leaves_no_folder_but_the_users_own(there, project, monkeypatch, capsys):
    monkeypatch.setattr(pilot, "run", lambda cell, budget: Pilot(epoch=90.0, job=5.0, outside=0.3))
    if there:
        (project / "a").mkdir()
    assert recommend.main([*ASKED[:-1], "a/b/c", "--budget", "20s"]) == 2
    assert "give --budget" in capsys.readouterr().err
    assert (project / "a").exists() == there and not (project / "a/b").exists()
