"""How `snn recommend` goes on: lengths of an earlier call, candidates that fail, two at once, full disks."""

import io
import re
import sys
from types import SimpleNamespace

import pytest
import yaml
from recommend_calls import ASKED, ask, lengths, main, measure, paths, strategies, work_in
from records_of import GPU, HOST

from snn import recommend
from snn.config.groups import read_yaml
from snn.errors import MeasurementError, OutputError
from snn.grid import more_rounds
from snn.grid.sweeps import SHORTENED, check_keys
from snn.hardware import devices
from snn.recommending import budget, candidates, crossover, elsewhere, question, workflow
from snn.recommending.budget import Pilot
from snn.recommending.workflow import WorkflowError

LONG = [*ASKED, "--budget", "10min"]
FULL = WorkflowError("the disk is full")


class Runs:
    """Instead of a pilot and of the workflow: writes the records of each ``grid`` that is measured.

    ``failing`` are the strategies that fail in each turn, in the last and later ones the same; ``error`` is
    raised if one of them is measured, and ``of_report`` when the report is made.
    """

    def __init__(self, folder):
        self.folder, self.grids, self.clock = folder, [], 0.0
        self.pilot, self.waits = {"epoch": 0.01, "job": 0.5}, 0.0
        self.failing, self.error, self.of_report = [set()], WorkflowError("a job failed", True), None

    def run_pilot(self, cell, seconds):
        self.clock += self.waits
        return Pilot(**self.pilot, outside=0.3, waited=self.waits)

    def measure(self, grid):
        self.clock += self.waits
        failing = self.failing.pop(0) if len(self.failing) > 1 else self.failing[0]
        if failing == "all":
            raise self.error
        self.grids.append(grid)
        measure(grid, self.folder, but=failing)
        if failing & strategies(grid):
            raise self.error
        return self.waits

    def report(self, grid, part, following):
        (self.folder / workflow.PAGE).write_text("cut o" if self.of_report else "report")
        if self.of_report:
            raise self.of_report


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs in a folder instead of the checkout's results, of five candidates."""
    work_in(tmp_path, monkeypatch)
    found = Runs(tmp_path)
    choices = read_yaml(candidates.CHOICES)
    few = ["reference", "combined", "workspace", "resident", "blas"]
    choices["candidates"]["cpu"]["few"] = [{"strategy": few}]
    (tmp_path / "recommend.yaml").write_text(yaml.safe_dump(choices))
    monkeypatch.setattr(candidates, "CHOICES", tmp_path / "recommend.yaml")
    monkeypatch.setattr(elsewhere, "on_a_gpu", lambda *_: "")
    monkeypatch.setattr(budget, "run_pilot", found.run_pilot)
    monkeypatch.setattr(workflow, "measure", found.measure)
    monkeypatch.setattr(workflow, "report", found.report)
    return found


# ---- lengths


@pytest.mark.parametrize(
    ("dataset", "epoch", "part"),
    [
        ("small", 0.01, "{0} of the 100 epochs"),
        ("medium", 2.0, "1 of the 100 epochs, on {1:,} of the 2,560 rows"),
    ],
)
def test_a_larger_budget_goes_on_with_the_runs_of_a_smaller_one(runs, capsys, dataset, epoch, part):
    """Else nothing that was measured would be used again."""
    runs.pilot["epoch"] = epoch
    found = []
    for time, why in (("60s" if epoch > 1 else "20s", "budget suffices"), ("10min", "was measured before")):
        assert main(["--device", "cpu", "--dataset", dataset, "--output", "out", "--budget", time]) == 0
        found += lengths(runs.grids[-1])
        said = capsys.readouterr().err
        assert f"Each run trains {part.format(*found[0])}" in said and why in said
    assert found[0] == found[1]


def test_what_was_interrupted_in_its_first_round_goes_on_if_it_has_a_record(runs):
    """Also if the machine is a little slower by then; another training has a length of its own."""
    assert main([*ASKED, "--budget", "20s"]) == 0
    before, first = lengths(runs.grids[-1]), paths(runs.grids[-1])
    runs.pilot["epoch"] = 0.012
    for seconds in ("20s", "10min"):
        (runs.folder / first[0]).unlink()
        assert main([*ASKED, "--budget", seconds]) == 0
        assert lengths(runs.grids[-1]) == before
    assert main([*LONG, "training.epochs=90"]) == 0
    assert {length.epochs for length in lengths(runs.grids[-1])} == {90}
    for path in {*first, *(path for grid in runs.grids for path in paths(grid))}:
        (runs.folder / path).unlink(missing_ok=True)
    assert main(LONG) == 0
    assert lengths(runs.grids[-1]) != before


def test_rounds_that_an_earlier_call_had_time_for_are_not_all_measured(runs):
    assert main(LONG) == 0
    grid = runs.grids[-1]
    (name, *_), had = grid.plan.cells, len(paths(grid))
    more_rounds.add(dict.fromkeys(grid.plan.cells, 30), runs.folder / more_rounds.FILE)
    assert len(paths(grid)) == 30 * len(grid.plan.cells)
    grid.limit_rounds()
    assert len(paths(grid)) == had and not grid.missing()
    first = next(iter(grid.present()[name]))
    (runs.folder / first).unlink()
    grid.limit_rounds()
    assert [*grid.present()[name]] == [first] and grid.missing() == [name]


def test_what_is_waited_for_other_measurements_is_not_of_the_budget(runs, monkeypatch):
    """Else the time left would be taken for too short for a second round."""
    monkeypatch.setattr(recommend, "time", SimpleNamespace(monotonic=lambda: runs.clock))
    runs.waits = 500.0
    assert main([*ASKED, "--budget", "100s"]) == 0
    assert len(runs.grids) > 1


# ---- frameworks, and the host of a GPU


@pytest.fixture
def gpu(runs, monkeypatch):
    """This machine has a GPU, two CPUs and PyTorch."""
    monkeypatch.setattr(devices, "choices", lambda backend, name=None: [HOST if backend == "cpu" else GPU])
    monkeypatch.setattr(candidates, "usable_processors", lambda: 2)
    for module in (candidates, question):
        monkeypatch.setattr(module, "find_spec", lambda name: name == "torch" or None)
    return runs


def test_on_a_gpu_the_hosts_cpu_and_frameworks_are_candidates(gpu, capsys):
    assert main(["--dataset", "small", "--output", "out", "--baseline", "torch_loader"]) == 0
    cells = list(gpu.grids[-1].plan.cells.values())
    assert cells[0].strategy == "torch_loader"
    by_name = {cell.strategy: cell for cell in cells}
    assert {"reference", "torch_eager", "torch_graph", "torch_compile", "blas"} < {*by_name}
    assert [cell["strategy"]["threads"] for cell in cells if cell.strategy == "blas"] == [1]
    assert by_name["blas"]["device"]["name"] == HOST.name and by_name["torch_eager"].device.backend == "cuda"
    out = capsys.readouterr().out
    assert "vs torch_loader" in out and "Not measured, as Python cannot import jax: `pip install" in out


def test_a_baseline_that_cannot_be_imported_is_an_error(gpu, capsys):
    assert main(["--dataset", "small", "--baseline", "jax_scan"]) == 2
    assert "jax: `pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        (["--hidden", "8,8", "--crossover", "width"], [16, 32, 64, 128, 256, 512, 1024]),
        (["--crossover", "batch"], [16, 32, 64, 128, 256]),  # as many rows
    ],
)
def test_a_crossover_measures_both_devices_at_each_number(gpu, capsys, arguments, numbers):
    assert main(["--dataset", "small", "--output", "out", *arguments]) == 0
    cells = gpu.grids[-1].plan.cells.values()
    varied = [(cell["network"]["hidden"], cell.batch_size)[arguments[-1] == "batch"] for cell in cells]
    assert (
        varied[::3]
        == varied[1::3]
        == varied[2::3]
        == ([[n, n] for n in numbers] if "width" in arguments else numbers)
    )
    assert [cell.device.backend for cell in cells] == ["cuda", "cuda", "cpu"] * len(numbers)
    assert {path.name for path in (gpu.folder / "out").iterdir()} == {*crossover.OUTPUTS}
    assert "faster up to a" in capsys.readouterr().out


def test_a_crossover_that_takes_the_cpu_too_long_is_an_error(gpu, capsys):
    gpu.pilot["epoch"] = 9.0
    assert main(["--dataset", "small", "--output", "out", "--crossover", "batch"]) == 2
    assert "fewer rows" in capsys.readouterr().err and not gpu.grids


@pytest.mark.parametrize(
    ("job", "seconds", "numbers", "epochs"),
    [
        (0.5, 300, [16, 32, 64, 128, 256], 32),  # 0.5 s of 0.01 s each
        (0.5, 60, [16, 32, 64, 128, 256], 8),
        (0.5, 45, [16, 32, 64, 128, 256], 4),
        (2.0, 95, [16, 64, 256], 16),
        (2.0, 60, [16, 256], 16),
    ],
)
def test_a_crossover_keeps_to_its_budget(gpu, capsys, job, seconds, numbers, epochs):
    """By shorter runs, and then by fewer batch sizes; three candidates, and three rounds of three runs."""
    gpu.pilot["job"] = job
    asked = ["--dataset", "small", "--output", "out", "--crossover", "batch"]
    assert main([*asked, "--budget", f"{seconds}s"]) == 0
    cells = gpu.grids[-1].plan.cells.values()
    assert list(dict.fromkeys(cell.batch_size for cell in cells)) == numbers
    assert {cell.epochs for cell in cells} == {epochs}
    assert 3 * len(cells) * (job + 5 * epochs * 0.01) <= seconds
    left_out = sorted({16, 32, 64, 128, 256} - set(numbers))
    said = f"Left out, since the budget is {seconds} s: {', '.join(map(str, left_out))}."
    assert (said in capsys.readouterr().out) == bool(left_out)


def test_a_crossover_goes_on_if_the_gpus_pilot_cannot_train(gpu, monkeypatch):
    """A strategy that does not support the network is one of the table's candidates all the same."""
    tried = []

    def pilot(cell, seconds):
        tried.append((cell.device.backend, cell.strategy))
        if tried[-1] == ("cuda", "persistent"):
            raise MeasurementError("the reference: unsupported: no such layer")
        return gpu.run_pilot(cell, seconds)

    monkeypatch.setattr(budget, "run_pilot", pilot)
    assert main(["--dataset", "small", "--output", "out", "--crossover", "batch"]) == 0
    assert tried == [("cpu", "blas"), ("cuda", "persistent"), ("cuda", "graph")]


def test_a_crossover_refuses_a_budget_that_cannot_hold(gpu, capsys):
    gpu.pilot["job"] = 20.0
    asked = ["--dataset", "small", "--output", "out", "--crossover", "batch", "--budget"]
    assert main([*asked, "60s"]) == 2
    said = capsys.readouterr().err
    assert not gpu.grids
    suffices = re.search(r"give --budget (\d+)s", said)[1]
    assert main([*asked, f"{suffices}s"]) == 0


def test_a_crossover_ends_after_the_rounds_that_it_has_time_for(gpu, capsys, monkeypatch):
    """If jobs take longer than the pilots promise: a round takes 50 s of the budget of 120 s."""
    clock = [0.0]
    monkeypatch.setattr(recommend, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(crossover, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def measure_slowly(grid):
        clock[0] += 50
        return gpu.measure(grid)

    monkeypatch.setattr(workflow, "measure", measure_slowly)
    asked = ["--dataset", "small", "--output", "out", "--crossover", "batch"]
    assert main([*asked, "--budget", "120s"]) == 0
    assert "Measured 2 of 3 rounds" in capsys.readouterr().out
    assert main([*asked, "--budget", "120s"]) == 0
    assert "Measured" not in capsys.readouterr().out and len(paths(gpu.grids[-1])) == 3 * 15


def test_a_crossover_without_a_gpu_has_nothing_to_compare(runs, capsys):
    assert main([*ASKED, "--crossover", "width"]) == 2
    assert "nothing to compare" in capsys.readouterr().err and not runs.grids


# ---- failures


@pytest.mark.parametrize(
    ("turns", "said"),
    [
        ([{"workspace", "blas"}], ["Measuring workspace, blas failed (see above)"]),
        ([{"workspace"}, set(), {"workspace", "blas"}], ["workspace failed", "Measuring blas failed"]),
    ],
)
def test_a_candidate_that_fails_is_left_out_and_stays_out(runs, capsys, turns, said):
    """Also if another fails later, and the runs keep the length that they had."""
    runs.pilot["epoch"], runs.failing = 2.0, turns
    assert main(LONG) == 0
    err = capsys.readouterr().err
    assert all(words in err for words in said)
    assert strategies(runs.grids[-1]) == {"reference", "resident", "combined"}
    assert runs.grids[-1].plan.cells.items() <= runs.grids[0].plan.cells.items()
    (length,) = set.union(*map(lengths, runs.grids))
    assert length.epochs < 100


JOB = WorkflowError("a job failed", True)


@pytest.mark.parametrize(
    ("failing", "error", "of_report", "has_ranking"),
    [
        ([{"reference"}], JOB, None, False),  # nothing to compare with
        ([{"blas"}], WorkflowError("the workflow failed"), None, True),  # not of a job
        ([set(), "all"], FULL, None, True),  # a second pass
        (["all"], FULL, None, False),
        *(([set()], None, error, True) for error in (OutputError("the disk is full"), FULL)),
    ],
)
def test_an_error_comes_after_the_ranking_of_what_was_measured(
    runs, capsys, failing, error, of_report, has_ranking
):
    """A report before stays: Snakemake writes into a file of the project; the user's is replaced whole."""
    runs.failing, runs.error, runs.of_report = failing, error, of_report
    (runs.folder / "out").mkdir()
    (runs.folder / "out/report.html").write_text("earlier")
    assert main(LONG) == 2
    out, err = capsys.readouterr()
    assert [word in out for word in ("rank", "resident")] == [has_ranking] * 2
    assert err.splitlines()[-1] == f"snn: {error or of_report}"
    assert (runs.folder / "out/report.html").read_text() == "earlier"


def test_two_at_once_do_not_mix_their_tables(runs, capsys):
    with workflow.held():
        assert main(ASKED) == 2
    assert "another snn recommend is at work in" in capsys.readouterr().err
    assert not runs.grids
    assert main(LONG) == 0


@pytest.mark.parametrize("part", ["", "1 of the 100 epochs, on 2,560 of the 60,000 rows"])
def test_the_report_is_of_this_grid_and_told_what_part_was_measured(tmp_path, monkeypatch, part):
    """Snakemake without its notes keeps a table that is there, and does not look for the records below it."""
    work_in(tmp_path, monkeypatch)
    made = (workflow.TABLE, workflow.ANSWER, workflow.FIGURE)
    for path in made:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("of another grid")
    asked = []

    def run(grid, arguments, *config):
        assert not any((tmp_path / path).exists() for path in made)
        asked.append(({*arguments}, config))

    monkeypatch.setattr(workflow, "_snakemake", run)
    workflow.report(candidates.write(ask(ASKED), "cpu"), part)
    (targets, of_figure), (of_page, config) = asked
    assert {*made} <= targets & of_page and "--report" in of_page and of_figure == ()
    assert config == ((f"{SHORTENED}={part}",) if part else ())
    check_keys({one.partition("=")[0]: part for one in config})


# ---- the output


def test_an_output_that_cannot_be_written_at_the_end_is_an_error(runs, monkeypatch, capsys):
    def report(grid, part, following):
        runs.report(grid, part, following)
        (runs.folder / "out/ranking.csv").mkdir()

    monkeypatch.setattr(workflow, "report", report)
    assert main(LONG) == 2
    assert f"snn: {runs.folder}/out/ranking.csv: cannot be written" in capsys.readouterr().err


def test_a_reader_that_has_gone_does_not_cost_the_report(runs, monkeypatch):
    class Gone(io.StringIO):
        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError):  # snn.command makes a status of it
        main(LONG)
    assert {path.name for path in (runs.folder / "out").iterdir()} == {*recommend._OUTPUTS}


def test_that_the_answer_to_another_question_is_replaced_is_said_before(runs, capsys):
    """Not of the same question with more time or candidates, or after a file that is none of ours."""
    assert main([*ASKED, "--budget", "20s"]) == 0
    earlier = runs.folder / "out/grid.yaml"

    def is_other(*arguments):
        return candidates.asks_otherwise(ask([*ASKED, *arguments]), earlier)

    assert not any([is_other(), is_other("--all"), is_other("--budget", "10min")])
    assert is_other("--hidden", "8")
    assert "replace" not in capsys.readouterr().err
    assert main([*ASKED, "--hidden", "8"]) == 0
    said = capsys.readouterr().err
    assert "snn: note: out has the answer to another question" in said and "--output FOLDER" in said
    assert is_other() and not is_other("--hidden", "8")
    for content in ("sweeps: 1", "[", "{}", "sweeps: {a: 1}", "[" * 10_000, "#" * (1 << 21)):
        earlier.write_text(content)
        assert is_other(), content[:20]


def test_an_output_that_is_a_link_stays_one(runs):
    (runs.folder / "out").mkdir()
    (runs.folder / "real.csv").write_text("earlier")
    (runs.folder / "out/ranking.csv").symlink_to(runs.folder / "real.csv")
    assert main(ASKED) == 0
    assert (runs.folder / "out/ranking.csv").is_symlink()
    assert (runs.folder / "real.csv").read_bytes() == (runs.folder / workflow.TABLE).read_bytes()


@pytest.mark.parametrize("there", [False, True])
def test_a_budget_that_is_too_short_leaves_no_folder_but_the_users_own(there, runs, capsys):
    runs.pilot = {"epoch": 90.0, "job": 5.0}
    if there:
        (runs.folder / "a").mkdir()
    assert main([*ASKED[:-1], "a/b/c", "--budget", "20s"]) == 2
    assert "give --budget" in capsys.readouterr().err
    assert (runs.folder / "a").exists() == there and not (runs.folder / "a/b").exists()
