"""How `snn recommend` goes on: lengths of an earlier call, candidates that fail, two at once, full disks."""

import io
import sys
from types import SimpleNamespace

import pytest
import yaml
from recommend_calls import ASKED, ask, lengths, measure, paths, strategies, work_in

from snn import recommend
from snn.config.groups import read_yaml
from snn.errors import OutputError
from snn.grid import more_rounds
from snn.recommending import budget, candidates, elsewhere, workflow
from snn.recommending.budget import Pilot
from snn.recommending.workflow import WorkflowError

LONG = [*ASKED, "--budget", "10min"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder instead of the checkout's results, with five candidates; nothing is measured in it."""
    work_in(tmp_path, monkeypatch)
    pilot_takes(monkeypatch)
    choices = read_yaml(candidates.CHOICES)
    choices["candidates"]["cpu"]["few"] = [
        {"strategy": ["reference", "combined", "workspace", "resident", "blas"]}
    ]
    (tmp_path / "recommend.yaml").write_text(yaml.safe_dump(choices))
    monkeypatch.setattr(candidates, "CHOICES", tmp_path / "recommend.yaml")
    monkeypatch.setattr(elsewhere, "on_a_gpu", lambda *_: "")
    return tmp_path


@pytest.fixture
def grids(project, monkeypatch):
    """The grids that were measured, one after the other."""
    seen = []

    def run(grid):
        seen.append(grid)
        measure(grid, project)
        return 0.0

    monkeypatch.setattr(workflow, "measure", run)
    monkeypatch.setattr(workflow, "report", lambda grid, part: (project / workflow.PAGE).write_text("report"))
    return seen


def pilot_takes(monkeypatch, epoch=0.01, job=0.5, waited=0.0):
    monkeypatch.setattr(budget, "run_pilot", lambda cell, seconds: Pilot(epoch, job, 0.3, waited))


def fails(monkeypatch, grids, project, turns, of_jobs=True):
    """Let the strategies of each turn fail, those of the last one from then on."""

    def run(grid):
        grids.append(grid)
        failing = turns.pop(0) if len(turns) > 1 else turns[0]
        measure(grid, project, but=failing)
        if failing & strategies(grid):
            raise WorkflowError("the workflow failed", of_jobs)
        return 0.0

    monkeypatch.setattr(workflow, "measure", run)


@pytest.mark.parametrize(
    ("dataset", "epoch", "budget", "part"),
    [
        ("small", 0.01, "20s", "{0} of the 100 epochs"),
        ("medium", 2.0, "60s", "1 of the 100 epochs, on {1:,} of the 2,560 rows"),
    ],
)
def test_a_larger_budget_goes_on_with_the_runs_of_a_smaller_one(
    grids, capsys, monkeypatch, dataset, epoch, budget, part
):
    """Else nothing that was measured would be used again."""
    pilot_takes(monkeypatch, epoch)
    asked = ["--device", "cpu", "--dataset", dataset, "--output", "out"]
    assert recommend.main([*asked, "--budget", budget]) == 0
    (short,) = lengths(grids[-1])
    part = f"Each run trains {part.format(*short)}"
    assert f"{part}, so that the budget suffices." in capsys.readouterr().err
    assert recommend.main([*asked, "--budget", "10min"]) == 0
    assert lengths(grids[-1]) == {short}
    assert f"{part}, as when this was measured before." in capsys.readouterr().err


def test_another_training_has_a_length_of_its_own(grids):
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    assert recommend.main([*LONG, "training.epochs=90"]) == 0
    assert {length.epochs for length in lengths(grids[-1])} == {90}


@pytest.mark.parametrize(
    ("lost", "seconds"), [(slice(1), "20s"), (slice(1), "10min"), (slice(None), "10min")]
)
def test_what_was_interrupted_in_its_first_round_goes_on_if_it_has_a_record(
    grids, project, monkeypatch, lost, seconds
):
    """Also if the machine is a little slower by then."""
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    before = lengths(grids[-1])
    for path in paths(grids[-1])[lost]:
        (project / path).unlink()
    pilot_takes(monkeypatch, 0.012)
    assert recommend.main([*ASKED, "--budget", seconds]) == 0
    assert (lengths(grids[-1]) == before) == (lost.stop is not None)


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        (
            [{"workspace", "blas"}],
            ["Measuring workspace, blas failed (see above); the other candidates are compared"],
        ),
        (
            [{"workspace"}, set(), {"workspace", "blas"}],
            ["Measuring workspace failed", "Measuring blas failed"],
        ),
    ],
)
def test_a_candidate_that_fails_is_left_out_and_stays_out(grids, project, monkeypatch, capsys, turns, said):
    """Also if another fails later, and the runs keep the length that they had."""
    pilot_takes(monkeypatch, 2.0)
    fails(monkeypatch, grids, project, turns)
    assert recommend.main(LONG) == 0
    err = capsys.readouterr().err
    assert all(words in err for words in said)
    left = strategies(grids[-1])
    assert not {"blas", "workspace"} & left and {"reference", "resident", "combined"} <= left
    (length,) = set.union(*map(lengths, grids))
    assert length.epochs < 100


@pytest.mark.parametrize(("failing", "of_jobs"), [({"reference"}, True), ({"blas"}, False)])
def test_without_the_reference_or_a_failed_job_the_error_stands(
    failing, of_jobs, grids, project, monkeypatch, capsys
):
    fails(monkeypatch, grids, project, [failing], of_jobs)
    assert recommend.main(LONG) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "snn: the workflow failed"


def test_rounds_that_an_earlier_call_had_time_for_are_not_all_measured(grids, project):
    assert recommend.main(LONG) == 0
    grid = grids[-1]
    (name, *_), had = grid.plan.cells, len(paths(grid))
    more_rounds.add(dict.fromkeys(grid.plan.cells, 30), project / more_rounds.FILE)
    assert len(paths(grid)) == 30 * len(grid.plan.cells)
    grid.limit_rounds()
    assert len(paths(grid)) == had and not grid.missing()
    first = next(iter(grid.present()[name]))
    (project / first).unlink()
    grid.limit_rounds()
    assert [*grid.present()[name]] == [first] and grid.missing() == [name]


def test_what_is_waited_for_other_measurements_is_not_of_the_budget(grids, project, monkeypatch):
    """Else the time left would be taken for too short for a second round."""
    clock = [0.0]

    def wait():
        clock[0] += 500

    def run(grid):
        wait()
        grids.append(grid)
        measure(grid, project)
        return 500.0

    monkeypatch.setattr(recommend, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(budget, "run_pilot", lambda *_: wait() or Pilot(0.01, 0.5, 0.3, 500.0))
    monkeypatch.setattr(workflow, "measure", run)
    assert recommend.main([*ASKED, "--budget", "100s"]) == 0
    assert len(grids) > 1


def test_two_at_once_do_not_mix_their_tables(grids, capsys):
    with workflow.held():
        assert recommend.main(ASKED) == 2
    assert "another snn recommend is at work in" in capsys.readouterr().err
    assert not grids
    assert recommend.main(LONG) == 0


def test_tables_of_another_grid_are_not_taken_for_its_own(project, monkeypatch):
    """Snakemake without its notes keeps a table that is there, and does not look for the records below it."""
    made = (workflow.TABLE, workflow.ANSWER, workflow.FIGURE)
    for path in made:
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("of another grid")
    asked = []

    def run(grid, arguments, *config):
        assert not any((project / path).exists() for path in made)
        asked.append({*arguments})

    monkeypatch.setattr(workflow, "_snakemake", run)
    workflow.report(candidates.write(ask(ASKED), "cpu"), "")
    assert len(asked) == 2 and all(targets >= {*made} for targets in asked)


def test_a_second_pass_that_fails_prints_the_ranking_of_the_first(grids, project, monkeypatch, capsys):
    def run(grid):
        if grids:
            raise WorkflowError("the disk is full")
        grids.append(grid)
        measure(grid, project)
        return 0.0

    monkeypatch.setattr(workflow, "measure", run)
    check_error(capsys, has_ranking=True)


@pytest.mark.parametrize("measured", [True, False])
def test_tables_that_cannot_be_written_do_not_cost_the_ranking(grids, project, monkeypatch, capsys, measured):
    def run(grid):
        if measured:
            measure(grid, project)
        raise WorkflowError("the disk is full", of_jobs=measured)

    monkeypatch.setattr(workflow, "measure", run)
    check_error(capsys, has_ranking=measured)


@pytest.mark.parametrize("error", [OutputError("the disk is full"), WorkflowError("the disk is full")])
def test_a_report_that_fails_leaves_the_ranking_printed_and_the_report_before(
    grids, project, monkeypatch, capsys, error
):
    """Snakemake writes into a file of the project; the user's is replaced when it is whole."""
    assert recommend.main(LONG) == 0

    def report(grid, part):
        (project / workflow.PAGE).write_text("cut o")
        raise error

    monkeypatch.setattr(workflow, "report", report)
    capsys.readouterr()
    check_error(capsys, has_ranking=True)
    assert (project / "out/report.html").read_text() == "report"


def check_error(capsys, has_ranking):
    assert recommend.main(LONG) == 2
    out, err = capsys.readouterr()
    assert [word in out for word in ("rank", "reference", "resident")] == [has_ranking] * 3
    assert err.splitlines()[-1] == "snn: the disk is full"


def test_an_output_that_cannot_be_written_at_the_end_is_an_error(grids, project, monkeypatch, capsys):
    def report(grid, part):
        (project / workflow.PAGE).write_text("report")
        (project / "out/ranking.csv").mkdir()

    monkeypatch.setattr(workflow, "report", report)
    assert recommend.main(LONG) == 2
    assert f"snn: {project}/out/ranking.csv: cannot be written" in capsys.readouterr().err.splitlines()[-1]


def test_a_reader_that_has_gone_does_not_cost_the_report(grids, project, monkeypatch):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):  # snn.command makes a status of it
        recommend.main(LONG)
    assert {path.name for path in (project / "out").iterdir()} == {"report.html", "ranking.csv", "grid.yaml"}


def test_that_the_answer_to_another_question_is_replaced_is_said_before(grids, project, capsys):
    """Not of the same question with more time or candidates, or after a file that is none of ours."""
    assert recommend.main([*ASKED, "--budget", "20s"]) == 0
    earlier = project / "out/grid.yaml"

    def is_other(*arguments):
        return candidates.asks_otherwise(ask([*ASKED, *arguments]), earlier)

    assert not any([is_other(), is_other("--all"), is_other("--budget", "10min")])
    assert is_other("--hidden", "8") and is_other("training.epochs=7") is False
    assert "replace" not in capsys.readouterr().err
    assert recommend.main([*ASKED, "--hidden", "8"]) == 0
    said = capsys.readouterr().err
    assert "snn: note: out has the answer to another question" in said and "--output FOLDER" in said
    assert is_other() and not is_other("--hidden", "8")
    for content in ("sweeps: 1", "[", "{}", "sweeps: {a: 1}", "[" * 10_000, "#" * (1 << 21)):
        earlier.write_text(content)
        assert is_other(), content[:20]


def test_the_candidates_that_are_left_out_keep_the_others_cells(project):
    grid = candidates.write(ask(ASKED), "cpu")
    out = [name for name, cell in grid.plan.cells.items() if cell["strategy"]["name"] == "blas"]
    fewer = candidates.write(ask(ASKED), "cpu", without=out)
    assert list(fewer.plan.cells) == [name for name in grid.plan.cells if name not in out]
    assert fewer.path != grid.path
    again = yaml.safe_load((project / fewer.path).read_text())["sweeps"]["recommend"]
    assert {"strategy": ["blas"]} not in again["union"]


def test_an_output_that_is_a_link_stays_one(grids, project):
    (project / "out").mkdir()
    (project / "real.csv").write_text("earlier")
    (project / "out/ranking.csv").symlink_to(project / "real.csv")
    assert recommend.main(ASKED) == 0
    assert (project / "out/ranking.csv").is_symlink()
    assert (project / "real.csv").read_bytes() == (project / workflow.TABLE).read_bytes()


@pytest.mark.parametrize("there", [False, True])
def test_a_budget_that_is_refused_leaves_no_folder_but_the_users_own(there, project, monkeypatch, capsys):
    pilot_takes(monkeypatch, epoch=90.0, job=5.0)
    if there:
        (project / "a").mkdir()
    assert recommend.main([*ASKED[:-1], "a/b/c", "--budget", "20s"]) == 2
    assert "give --budget" in capsys.readouterr().err
    assert (project / "a").exists() == there and not (project / "a/b").exists()
