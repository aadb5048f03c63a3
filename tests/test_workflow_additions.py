"""What is added to a pipeline that has run: more rounds, a user's CSV file, a strategy, a table."""

import json
import re
import shutil
import subprocess
import sys

import howto_code
from conftest import ROOT
from project import ROUNDS, TINY, embedded

from snn.records.store import sealed


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
