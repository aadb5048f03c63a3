"""What is added to a pipeline that has run: more rounds, a user's CSV file, a strategy, a table."""

import json
import shutil
import subprocess
import sys

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
    """One with a list for a key of its own, besides."""
    (project.folder / "snn/strategies/twice.py").write_text(
        '"""The reference, waiting more often."""\n\n'
        "from snn.strategies.host_driven import Reference\n\n\n"
        "class Twice(Reference):\n"
        "    def __init__(self, backend, waits):\n"
        "        super().__init__(backend)\n"
        "        self._waits = waits\n\n"
        "    def matmul(self, A, B):\n"
        "        for _ in self._waits:\n"
        "            self.backend.synchronize()\n"
        "        return super().matmul(A, B)\n"
    )
    (project.folder / "config/strategy/twice.yaml").write_text(
        "_target_: snn.strategies.twice.Twice\nname: twice\nwaits: []\n"
    )
    both = [{"strategy": "reference"}, {"strategy": "twice", "strategy.waits": [1]}]
    project.write_grid(TINY | {"sweeps": {"mine": {"union": both}}})
    assert project.jobs("results/figures/mine.svg") == {"train": ROUNDS, "build_sweep": 1, "plot_sweep": 1}
    table = project.table("mine").set_index("strategy")
    assert table.loc["twice", "synchronizations"] == 2 * table.loc["reference", "synchronizations"]
    assert table.loc["twice", "final_mse"] == table.loc["reference", "final_mse"]


def test_a_new_table_is_one_module_and_one_line_of_the_catalogue(project):
    (project.folder / "snn/tables/slowest.py").write_text(
        '"""The slowest strategy of each data set."""\n\n'
        "from snn.tables.table import cells_table\n\n"
        'slowest = cells_table("Slowest strategies", "dataset strategy mean_s device backend",\n'
        '    rows=lambda cells: cells.loc[cells.groupby("dataset")["mean_s"].idxmax()])\n'
    )
    catalogue = project.folder / "snn/grid/catalogue.py"
    start = "TABLES = {\n"
    line = '    "slowest": Table(WHY, "slowest strategies", "dataset_size", one_row_per="dataset"),\n'
    catalogue.write_text(catalogue.read_text().replace(start, start + line))
    assert project.jobs("results/tables/slowest.csv") == {"build_slowest": 1}
    (row,) = project.table("slowest").to_dict("records")
    cells = project.table("dataset_size").set_index("strategy")
    assert (row["dataset"], row["strategy"]) == ("small", cells["mean_s"].idxmax())
    # The cells and the other tables stay as they are, and the report has a caption.
    assert "Nothing to be done" in project.snakemake()
    project.snakemake("--report", "report.html", "results/tables/slowest.csv")
    results = embedded((project.folder / "report.html").read_text(), "results")
    assert "snn/tables/slowest.py" in results["results/tables/slowest.html"]["caption"]
