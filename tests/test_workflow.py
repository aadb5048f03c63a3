"""The pipeline end to end on a tiny grid: what runs, is refused, published, and added to it."""

import itertools
import json
import re
import shutil
import subprocess
import sys
from datetime import datetime

import howto_code
import pytest
import yaml
from conftest import ROOT
from project import CELLS_OF_TINY, ROUNDS, TINY, UNSUPPORTED, embedded
from records_of import limits_of

from snn.grid.catalogue import FIGURES, TABLES
from snn.hardware import devices
from snn.records import archive, store
from snn.records.store import sealed
from snn.tables.columns import PATH, describe

HERE = re.escape(devices.find("cpu").name)


def test_every_cell_runs_once_and_every_table_and_figure_is_there(made):
    assert len(made.records()) == ROUNDS * CELLS_OF_TINY
    assert made.printed.count("(Rule: train)") == ROUNDS * CELLS_OF_TINY
    tables = {path.stem for path in made.folder.glob("results/tables/*.csv")}
    of_form = {name for name, table in TABLES.items() if table.sweep in TINY["sweeps"]}
    always = {"recommendation", "overview", "configuration", "provenance", "warnings", "gpu", "datasets"}
    assert tables == {*of_form, *always, "device_limits", *TINY["sweeps"]} and len(tables) > 20
    for name in tables:
        table = made.table(name)
        assert len(table) and set(table["backend"]) == {"cpu"} and table["device"].notna().all()
        assert (made.folder / f"results/tables/{name}.html").exists()
        assert not [column for column in table if not describe(name, column)], f"{name}: add to {PATH}"
    drawn = [name for name, figure in FIGURES.items() if figure.table in tables]
    assert {path.name for path in made.folder.glob("results/figures/*")} == {
        f"{name}.{ending}"
        for name in (*drawn, "dataset_size", "tiles", "strategies")
        for ending in ("svg", "png")
    }
    for name in ("correctness", "training_time", "speedup", "neurons", "depth", "tiles"):
        words = {word for cell in made.table(name)["machine"].dropna() for word in cell.split(", ")}
        assert words <= {"quiet", "noisy", "shared", "drifted"}
    verdicts = {"reference", "faster", "slower", "same", "not significant"}
    assert set(made.table("speedup")["verdict"]) <= verdicts
    assert list(made.table("speedup").columns[:4]) == ["strategy", "dataset", "speedup", "paper_speedup"]
    traced = json.loads((made.folder / "results/traces/timeline.json").read_text())["traceEvents"]
    assert {event["pid"] for event in traced} == {1, 2, 3, 4, 5}
    for name, key in (("neurons", "neurons"), ("depth", "network")):
        assert {key, "reference_s", "combined_s", "speedup"} <= set(made.table(name))


def test_progress_names_cells_and_runs(made):
    of = f"of {ROUNDS * CELLS_OF_TINY}"
    assert re.search(
        rf"job \d+ {of}, small \w+, round 2: run 2 of 2, .* s per run, about .* left", made.printed
    )


def test_every_cells_first_round_is_made_before_any_second(made):
    rounds = re.findall(r"^Job \d+: train .*, round (\d)$", made.printed, re.MULTILINE)
    assert rounds == sorted(rounds) and len(rounds) == ROUNDS * CELLS_OF_TINY


def test_jobs_are_chosen_when_one_ends_and_not_by_the_clock(made):
    assert 0 < made.printed.count("Ready jobs: ") <= made.printed.count("Finished jobid") + 1


def test_cells_never_ran_side_by_side(made):
    """Four cores were given. The time stamps have a resolution of one second."""
    spans = []
    for record in made.records().values():
        start = datetime.fromisoformat(record["provenance"]["started"]).timestamp()
        spans.append((start, start + record["provenance"]["elapsed_seconds"]))
    spans.sort()
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert start > end - 1
    assert sum(end - start for start, end in spans) <= spans[-1][1] - spans[0][0] + 1


def test_snakemakes_cores_are_not_the_threads_of_a_cell(made):
    assert {record["provenance"]["blas_threads"] for record in made.records().values()} == {1}


def test_what_a_cpu_cannot_do_has_a_row_that_says_why(made):
    """A strategy, and a peer that need not be installed either."""
    table = made.table("strategies").set_index("strategy")
    assert table["status"].to_dict() == {"reference": "ok", UNSUPPORTED: "unsupported", "blas": "ok"}
    why = "CUDA graphs need a CUDA device"
    assert table.loc[UNSUPPORTED, "reason"] == why
    assert UNSUPPORTED not in set(made.table("recommendation")["strategy"])
    peers = made.table("peers").set_index("strategy")
    assert peers["status"].to_dict() == {"reference": "ok", "torch_graph": "unsupported"}
    assert peers["reason"]["torch_graph"].startswith(("torch cannot be imported", why))
    assert peers["step_us"]["reference"] > 0
    assert why in (made.folder / "results/tables/opening.html").read_text()


def test_a_table_runs_its_own_cells_and_no_others(project):
    shutil.rmtree(project.folder / "results")
    assert project.jobs("--dry-run", "results/tables/neurons.csv")["train"] == 4 * ROUNDS
    assert project.jobs("--dry-run", "results/tables/correctness.csv")["train"] == 7 * ROUNDS
    assert "train" not in project.jobs("--dry-run", "results/tables/gpu.csv")


def test_a_record_of_another_device_is_refused_and_kept(project):
    records = project.records().items()
    path, record = next(one for one in records if "/pinned-" in str(one[0]))  # of a table with others
    record["provenance"]["device_uuid"] = "GPU-9"
    path.write_text(json.dumps(sealed(record)))
    printed = project.snakemake(fails=True)
    assert f"{record['provenance']['device']} GPU-9" in printed, printed
    assert "do not go into one table" in printed
    assert len(project.records()) == ROUNDS * CELLS_OF_TINY


def test_a_bad_grid_is_refused_before_anything_runs(project):
    grid = yaml.safe_load((project.folder / "config/grid.yaml").read_text())
    grid["sweeps"]["tiles"]["strategy"] = "combine"
    project.write_grid(grid)
    printed = project.snakemake(fails=True)
    assert "config/grid.yaml: sweeps.tiles.strategy is 'combine': it must be one of" in printed
    assert "Traceback" not in printed and "common.smk" not in printed
    assert len(project.records()) == ROUNDS * CELLS_OF_TINY


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            ["tables/speedups.csv"],
            rf"config/grid.yaml on {HERE} \(did you mean speedup\?\): --config grid=FILE",
        ),
        (["figures/mine.svg"], f"config/grid.yaml on {HERE}: --config grid=FILE"),
        (
            ["tables/speedup.csv", "--config", "devices=[NVIDIA H200, NVIDIA L4]"],
            "did you mean results/tables/nvidia-h200/speedup.csv or results/tables/nvidia-l4/speedup.csv",
        ),
    ],
)
def test_a_table_that_the_grid_does_not_have_is_refused_with_what_was_meant(made, asked, said):
    printed = made.snakemake("--dry-run", f"results/{asked[0]}", *asked[1:], fails=True)
    assert re.search(f"results/{asked[0]}: not a table or figure of .*{said}", printed), printed
    assert "MissingRuleException" not in printed


def test_a_gpu_that_is_not_there_is_an_error_that_says_why(made, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    said = made.snakemake("--config", "device=cuda", fails=True)
    assert re.search(r"device=cuda, but .*device=cpu; or .* devices=\[NVIDIA H200\]", said)
    assert "Traceback" not in said


def test_devices_that_are_not_here_are_planned_by_name_and_refused_by_the_job(project):
    names = ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    project.write_grid(
        TINY | {"device": "auto", "sweeps": {"mine": {"strategy": ["graph", "blas"], "devices": names}}}
    )
    listed = project.snakemake("--dry-run", cores=1)
    for folder in ("nvidia-h100-80gb-hbm3", "nvidia-h200"):
        paths = rf"results/cells/({folder}/small/256/graph-naive-\w+-round[12]\.json)"
        rounds = set(re.findall(paths, listed))
        assert len(rounds) == ROUNDS
        assert f"results/tables/{folder}/mine.csv" in listed and f"results/limits/{folder}.json" in listed
    assert "blas" not in listed  # its host is not known
    before = set(project.records())
    (target,) = (f"results/cells/{one}" for one in rounds if one.endswith("round1.json"))
    said = project.snakemake("--retries", "1", target, cores=1, fails=True)
    why = r"snn: device\.name is 'NVIDIA H200', but this machine has '.+': run this job on"
    refused = re.findall(why, said)
    assert len(refused) == 2  # once more, as on a cluster, where the second try may be on another node
    assert set(project.records()) == before


def test_a_device_that_is_planned_by_name_has_tables_of_its_own_from_the_same_records(project):
    before = project.records()
    by_name = ("--config", "devices=cpu")
    tables = project.folder / "results/tables"
    listed = project.snakemake("--dry-run", *by_name)
    (folder,) = set(re.findall(r"results/tables/([^/\s]+)/speedup\.csv", listed))
    planned = set(re.findall(rf"results/tables/{folder}/(\w+)\.csv", listed))
    assert planned == {path.stem for path in tables.glob("*.csv")}
    some = ("speedup.csv", "overview.csv", "tiles.csv")
    targets = (*(f"results/tables/{folder}/{name}" for name in some), f"results/figures/{folder}/ranking.svg")
    jobs = project.jobs(*targets, *by_name, cores=2)
    assert "train" not in jobs and "prepare_dataset" not in jobs
    assert project.records() == before
    for name in some:
        assert (tables / folder / name).read_bytes() == (tables / name).read_bytes(), name
    assert project.jobs("--dry-run", *targets, *by_name) == {}
    project.snakemake("--report", "report.html", *targets, *by_name, cores=1)
    assert 'class=\\"answer\\"' in (project.folder / "report.html").read_text()


PUBLISH_WITHOUT_FIGURES = """
import runpy, sys
sys.path.insert(0, ".")
from snn import retabulate
retabulate._save = lambda figure, output, name: None
runpy.run_path("scripts/publish", run_name="__main__")
"""


def test_results_are_published_compactly(project, tmp_path):
    results = tmp_path / "results"
    shutil.copytree(project.folder / "results/cells", results / "cells")
    for path in results.glob("cells/**/*.json"):  # as an earlier version wrote them
        record = json.loads(path.read_text())
        del record["cell"]["training"]["accumulate"]
        path.write_text(json.dumps(sealed(record)))
    (device,) = (path.name for path in (results / "cells").iterdir())
    further = results / "limits" / device / "further.json"
    store.write(further, limits_of(device_uuid="GPU-2"))
    publish = [sys.executable, "-c", PUBLISH_WITHOUT_FIGURES, str(results)]
    subprocess.run(publish, cwd=project.folder, check=True)
    published = project.folder / "results/published" / device / "all"
    records = archive.read_all(published).values()
    assert len(records) == ROUNDS * CELLS_OF_TINY
    unsupported = [one for one in records if one["status"] == "unsupported"]
    assert {one["cell"]["strategy"]["name"] for one in unsupported} == {UNSUPPORTED, "torch_graph"}
    for name in ("speedup", "recommendation", "cpu", "precision"):
        made = (project.folder / f"results/tables/{name}.csv").read_text()
        assert (published / f"tables/{name}.csv").read_text() == made
    assert "| runs per record | 2 |" in (published / "README.md").read_text()
    assert f"cpu ({ROUNDS})" in (published.parent / "README.md").read_text()
    assert (published / "limits/further.json").read_bytes() == further.read_bytes()


def test_a_report_without_the_overview_says_so_nowhere_and_is_made(project):
    project.snakemake("--report", "report.html", "results/tables/speedup.csv")
    page = (project.folder / "report.html").read_text()
    assert "A speedup is" in embedded(page, "workflow-desc")
    assert list(embedded(page, "results")) == ["results/tables/speedup.html"]


# ---- what is added: more rounds, a user's CSV file, a strategy, a table and a figure


def slowed(record, factor):
    """A record as if its runs had taken so many times as long."""
    summary = record["summary"]
    times = [key for key in summary if key.endswith("_seconds") and key != "setup_seconds"]
    changed = {
        "runs": [run | {"seconds": factor * run["seconds"]} for run in record["runs"]],
        "summary": summary | {key: factor * summary[key] for key in times},
        "provenance": record["provenance"]
        | {"elapsed_seconds": factor * record["provenance"]["elapsed_seconds"]},
    }
    return sealed(record | changed)


def test_more_rounds_are_measured_beside_those_that_there_are(project):
    """End to end; the two records that are made unlike decide which cells get rounds."""
    before = {path: path.stat().st_mtime_ns for path in project.records()}
    for path, one in project.records().items():
        if one["cell"]["strategy"]["name"] == "streams":
            path.write_text(json.dumps(slowed(one, 3.0 ** one["round"])))
    command = [sys.executable, "-m", "snn", "more-rounds", "results/tables/speedup.csv", "rounds=3"]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "streams over reference" in done.stdout
    planned = json.loads((project.folder / "results/more_rounds.json").read_text())
    assert set(planned.values()) == {3}
    jobs = project.jobs("results/tables/speedup.csv")
    assert jobs == {"train": (3 - ROUNDS) * len(planned), "build_speedup": 1}
    after = {path: path.stat().st_mtime_ns for path in project.records()}
    unchanged = [path for path in before if after[path] == before[path]]
    assert len(unchanged) == len(before) - 2 and len(after) == len(before) + jobs["train"]
    runs = project.table("speedup").set_index("strategy")["runs"]
    assert runs["streams"] == runs["reference"] == 6
    assert "Nothing to be done" in project.snakemake("results/tables/speedup.csv")


def test_a_users_csv_is_a_data_set_and_a_bad_one_stops_before_training(project):
    shutil.rmtree(project.folder / "results/cells")
    data, target = project.folder / "my <b>data.csv", "</script><script>alert(1)</script>"
    rows = [f"{i},{i % 7},{i % 3}" for i in range(20)]
    data.write_text("\n".join([f"a,b,{target}", *rows, "1,x,2"]) + "\n")
    sweep = {"dataset": "csv", "dataset.path": data.name, "dataset.target": target, "training.batch_size": 8}
    project.write_grid(TINY | {"sweeps": {"mine": sweep | {"strategy": ["reference", "combined"]}}})
    printed = project.snakemake(fails=True)
    assert "my <b>data.csv, line 22, column 'b': 'x' is not a number" in printed
    assert project.records() == {}
    data.write_text("\n".join([f"a,b,{target}", *rows]) + "\n")
    jobs = {"prepare_dataset": 1, "train": 2 * ROUNDS, "build_sweep": 1, "plot_sweep": 1}
    assert project.jobs("results/figures/mine.svg") == jobs
    assert project.table("mine")["speedup"].notna().all()
    data.touch()
    assert "Nothing to be done" in project.snakemake("results/figures/mine.svg")
    # A user's words are text in the report: none of them begins a tag.
    shown = ("results/tables/configuration.csv", "results/tables/datasets.csv")
    project.snakemake(*shown)
    project.snakemake("--report", "report.html", *shown)
    report = (project.folder / "report.html").read_text()
    assert "alert(1)" in report
    assert "<script>alert" not in report and "<b>data" not in report
    data.write_text("\n".join([f"a,b,{target}", *rows, "1,2,3"]) + "\n")
    assert project.jobs("--dry-run", "results/tables/mine.csv")["train"] == 2 * ROUNDS


def test_a_new_strategy_is_one_module_and_one_choice(project):
    """That of docs/howto/add_strategy.md: it trains as the reference and allocates once for each size."""
    for path, content in howto_code.files("add_strategy").items():
        (project.folder / path).write_text(content)
    project.write_grid(TINY | {"sweeps": {"mine": {"strategy": ["reference", "free_list"]}}})
    assert project.jobs("results/figures/mine.svg") == {"train": ROUNDS, "build_sweep": 1, "plot_sweep": 1}
    table = project.table("mine").set_index("strategy")
    reference, new = table.loc["reference"], table.loc["free_list"]
    assert 0 < new["mallocs"] < reference["mallocs"] / 3
    same = ["final_mse", "h2d_copies", "d2h_copies", "launches"]
    assert new[same].to_dict() == reference[same].to_dict()


def test_a_new_table_and_figure_are_declarations_and_lines_of_the_catalogue(project):
    """Those of docs/howto/add_table.md."""
    page = howto_code.files("add_table")
    text = (ROOT / "docs/howto/add_table.md").read_text(encoding="utf-8")

    def add(path, start, line):
        content = (project.folder / path).read_text()
        (project.folder / path).write_text(content.replace(start, start + line, 1))

    def add_to_catalogue(kind):
        line = re.search(rf'^"slowest": {kind.title()[:-1]}\(.*\n', text, re.MULTILINE)[0]
        add("snn/grid/catalogue.py", f"\n{kind} = {{\n", f"    {line}")

    (project.folder / "snn/tables/slowest.py").write_text(page["snn/tables/slowest.py"])
    add_to_catalogue("TABLES")
    assert project.jobs("results/tables/slowest.csv") == {"build_slowest": 1}
    cells = project.table("dataset_size").sort_values("mean_s", ascending=False)
    assert project.table("slowest")["strategy"].tolist() == cells["strategy"].tolist()
    assert "Nothing to be done" in project.snakemake()  # the cells and the other tables stay as they are
    add("snn/figures/strategies.py", "FORMS: dict[str, Drawing] = {\n", page["snn/figures/strategies.py"])
    add_to_catalogue("FIGURES")
    assert project.jobs("results/figures/slowest.svg") == {"plot_slowest": 1}
    assert "reference, small" in (project.folder / "results/figures/slowest.svg").read_text()
    project.snakemake("--report", "report.html", "results/tables/slowest.csv")
    results = embedded((project.folder / "report.html").read_text(), "results")
    assert "snn/tables/slowest.py" in results["results/tables/slowest.html"]["caption"]
