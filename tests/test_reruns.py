"""What runs again after an edit, and what does not: records, tables, pages; and what is checked of them."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest
import yaml
from project import CELLS_OF_TINY, ON_HOST, ROUNDS, TINY
from snakemake.persistence.file import FilePersistence

from snn.records.store import sealed


def test_nothing_runs_again(made):
    assert "Nothing to be done" in made.snakemake("--dry-run")


def measuring(jobs):
    """The jobs of a run that are no tables, pages or figures."""
    return {job for job in jobs if job.startswith(("train", "measure", "prepare"))}


def test_touching_any_file_and_editing_a_kernel_re_runs_nothing_on_the_cpu(project):
    edit(project.folder / "kernels/naive.cu")
    time.sleep(0.01)
    for path in project.folder.rglob("*"):
        if path.is_file() and ".snakemake" not in path.parts:
            path.touch()
    assert "Nothing to be done" in project.snakemake()
    # Of a larger result, as here of all, the time stamp decides, and tables and figures alone are made again.
    for path in (*project.records(), *project.folder.glob("results/datasets/*.npy")):
        path.touch()
    jobs = project.jobs("--dry-run", "--max-checksum-file-size", "0")
    assert "build_speedup" in jobs and not measuring(jobs)


def test_one_more_neuron_count_runs_two_cells_and_its_table(project):
    before = {path: path.stat().st_mtime_ns for path in project.records()}
    grid = yaml.safe_load((project.folder / "config/grid.yaml").read_text())
    grid["sweeps"]["neurons"]["network.hidden"].append([8])
    project.write_grid(grid)
    assert project.jobs("results/tables/neurons.csv") == {"train": 2 * ROUNDS, "build_neurons": 1}
    assert project.table("neurons")["neurons"].tolist() == [4, 256, 8]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def edit(path):
    """Add a comment that says nothing; let a source look older than all that was made of it."""
    mark = {".cu": "// edited\n", ".css": "/* edited */\n"}.get(path.suffix, "# edited\n")
    with path.open("a") as file:
        file.write(mark)
    if path.suffix == ".py":
        os.utime(path, (0, 0))


EDITS = {
    "config/verdicts.yaml": "build_speedup build_sweep build_overview plot_ranking ...",
    "config/paper/speedup.yaml": "build_speedup",
    "snn/tables/cpu.py": "build_cpu plot_cpu",
    "workflow/scripts/build_page.py": "build_gpu build_device_limits build_datasets build_configuration",
    "snn/report/page.css": "build_speedup build_sweep build_overview build_gpu build_device_limits "
    "build_datasets build_configuration build_peers ...",
}
"""By the file that is edited, the rules that run again; with dots, others do, too."""


def test_an_edit_of_what_measures_nothing_makes_these_tables_and_figures_again(project):
    for edited, (*rules, last) in ((edited, rules.split()) for edited, rules in EDITS.items()):
        path = project.folder / edited
        content, stamp = path.read_bytes(), path.stat().st_mtime_ns
        edit(path)
        jobs = project.jobs("--dry-run")
        assert not measuring(jobs), edited
        assert {*rules} <= jobs.keys() if last == "..." else jobs == dict.fromkeys([*rules, last], 1), edited
        path.write_bytes(content)
        os.utime(path, ns=(stamp, stamp))
    assert "Nothing to be done" in project.snakemake("--dry-run")


def test_an_edited_choice_re_runs_its_cells_and_their_tables_only(project):
    path = project.folder / "config/strategy/streams.yaml"
    path.write_text(path.read_text().replace("streams: 3", "streams: 2"))
    jobs = project.jobs("--dry-run")
    assert jobs["train"] == ROUNDS
    assert {"build_speedup", "build_overview", "plot_attribution"} <= jobs.keys()
    assert not jobs.keys() & {"build_neurons", "build_depth", "build_cpu", "measure_limits"}


def test_an_edited_strategy_re_runs_the_cells_of_its_family_only(project):
    edit(project.folder / "snn/strategies/cpu.py")
    made = "build_correctness build_cpu build_overview build_sweep plot_cpu plot_ranking plot_sweep"
    assert project.jobs("--dry-run") == {"train": ROUNDS, **dict.fromkeys(made.split(), 1)}
    # What was trained anew is taken by a table as the work of the edited file.
    assert project.jobs("results/tables/cpu.csv") == {"train": ROUNDS, "build_cpu": 1}


@pytest.mark.gpu
def test_an_edited_kernel_re_runs_the_cells_of_the_gpu_only(project):
    ours = ROUNDS * (CELLS_OF_TINY - ON_HOST)
    assert project.jobs("--config", "device=cuda")["train"] == ours
    assert set(project.table("speedup")["backend"]) == {"cuda"}
    assert "Nothing to be done" in project.snakemake("--dry-run", "--config", "device=cuda")
    edit(project.folder / "kernels/naive.cu")
    assert project.jobs("--dry-run", "--config", "device=cuda")["train"] == ours
    # Back on the CPU its records are still good: only the tables, which are now of the GPU, are made again.
    assert "train" not in project.jobs("--config", "device=cpu")


def test_a_table_refuses_the_record_of_other_sources(project):
    path = next(path for path in project.records() if "streams" in path.name)
    record = json.loads(path.read_text())
    record["provenance"]["source_hash"] = "0" * 16
    path.write_text(json.dumps(record))
    printed = project.snakemake("results/tables/speedup.csv", fails=True)
    again = f"--force {path.relative_to(project.folder)}"
    assert "it was changed after it was written" in printed and again in printed
    path.write_text(json.dumps(sealed(record)))
    printed = project.snakemake("results/tables/speedup.csv", fails=True)
    assert "measured with other sources (0000000000000000)" in printed and again in printed


def test_what_a_kill_left_unnoted_is_kept_if_it_says_what_it_was_made_of(project):
    """Snakemake marks what a job is to write, and takes the mark away when it has noted how that was made."""
    notes = FilePersistence(nolock=True, path=project.folder / ".snakemake")

    def mark(*patterns):
        paths = [path for one in patterns for path in (project.folder / "results").glob(one)]
        for path in filter(Path.is_file, paths):
            notes._mark_incomplete(path.relative_to(project.folder).as_posix(), None)
        return len(paths)

    assert mark("cells/**/*", "datasets/*") > ROUNDS * CELLS_OF_TINY
    assert "Nothing to be done" in project.snakemake("--dry-run")
    assert not [path for path in Path(notes._incomplete_path).rglob("*") if path.is_file()]
    assert mark("tables/speedup.*", "figures/attribution.*", "limits/*", "traces/*") == 6
    jobs = project.jobs("--dry-run")
    assert {"build_speedup", "plot_attribution", "measure_limits", "export_trace"} <= jobs.keys()
    assert not {"train", "prepare_dataset", "build_overview"} & jobs.keys()


def test_a_damaged_data_set_is_made_again_before_a_cell_is_trained_on_it(project):
    (path,) = project.folder.glob("results/datasets/*.npy")
    whole, stamp = path.read_bytes(), path.stat().st_mtime_ns
    path.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    os.utime(path, ns=(stamp, stamp))
    assert "Nothing to be done" in project.snakemake("--dry-run")
    next(each for each in project.records() if "streams" in each.name).unlink()
    jobs = {"prepare_dataset": 1, "train": 1, "build_sweep": 1}
    assert project.jobs("results/tables/dataset_size.csv") == jobs
    assert path.read_bytes() == whole


def test_without_snakemakes_notes_records_are_judged_by_their_sources_and_tables_by_time_stamps(project):
    shutil.rmtree(project.folder / ".snakemake")
    edit(project.folder / "snn/tables/paper.py")
    assert "Nothing to be done" in project.snakemake("--dry-run")
    record = next(path for path in project.records() if "streams" in path.name)
    record.touch()
    assert project.jobs("--dry-run", "results/tables/speedup.csv") == {"build_speedup": 1}
    edit(project.folder / "snn/strategies/cpu.py")
    assert project.jobs("--dry-run")["train"] == ROUNDS


def test_what_is_damaged_or_missing_is_made_again(project):
    """A table, a page of one and a figure; of another table, whose page is missing, both."""
    damaged = {"tables/speedup.csv": "build_speedup", "tables/cpu.html": "build_cpu"}
    damaged["figures/ranking.svg"] = "plot_ranking"
    paths = [project.folder / "results" / name for name in (*damaged, "tables/neurons.html")]
    before = [path.read_bytes() for path in paths]
    for path, content in zip(paths[:-1], before, strict=False):
        stamp = path.stat().st_mtime_ns
        path.write_bytes(content[:-100])
        os.utime(path, ns=(stamp, stamp))
    paths[-1].unlink()
    jobs = project.jobs(*(f"results/{name}" for name in damaged), "results/tables/neurons.csv")
    assert jobs == dict.fromkeys([*damaged.values(), "build_neurons"], 1)
    assert [path.read_bytes() for path in paths] == before


def test_limits_of_other_sources_are_in_no_table(project):
    (path,) = project.folder.glob("results/limits/*.json")
    limits = json.loads(path.read_text())
    limits["provenance"]["source_hash"] = "0" * 16
    path.write_text(json.dumps(sealed(limits)))
    printed = project.snakemake(
        *("--keep-going", "results/tables/device_limits.csv", "results/tables/peers.csv"), fails=True
    )
    assert printed.count("measured with other sources (0000000000000000)") == 2


def test_an_edit_of_what_measures_limits_makes_every_table_of_them_again(project):
    edit(project.folder / "snn/backends/cpu/limits.py")
    jobs = project.jobs("--dry-run", "results/tables/device_limits.csv", "results/tables/peers.csv")
    assert {"measure_limits", "build_device_limits", "build_peers"} <= jobs.keys()


def test_the_largest_batch_of_all_cells_is_asked_of_a_data_set_before_any_training(project):
    shutil.rmtree(project.folder / "results/cells")
    rows = "".join(f"{i},{i % 7},{i % 3}\n" for i in range(20))
    (project.folder / "mine.csv").write_text("a,b,y\n" + rows)
    sweep = {"dataset": "csv", "dataset.path": "mine.csv", "dataset.target": "y", "strategy": "reference"}
    project.write_grid(TINY | {"sweeps": {"mine": sweep | {"training.batch_size": [8, 21]}}})
    printed = project.snakemake("--keep-going", "results/tables/mine.csv", fails=True)
    assert "training.batch_size is 21" in printed
    assert project.records() == {}
