"""Which strategies a busy GPU beside their own slows down, what that decides, and who measured it."""

import itertools
import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from project import NOT_OF_WORKFLOW, Project
from real_records import measured

from snn.config import groups
from snn.errors import ConfigError, shown
from snn.measurement import cell
from snn.strategies.factory import on_host


def test_host_driven_strategies_are_touched_and_those_seen_beside_a_neighbour_are_not():
    touched = {name for name in groups.names("strategy") if groups.touches(groups.load("strategy", name))}
    assert {"reference", "combined", "preallocated", "pipelined", "torch_loader"} <= touched
    assert "graph" not in touched
    assert {name for name in groups.names("strategy") if on_host(groups.load("strategy", name))} <= touched


@pytest.mark.parametrize(
    "content",
    [
        *("untouched: [grahp]", "untouched: [[graph]]", "untouched: graph", "untouched: [graph, graph]"),
        *("touched: [graph]", "untouched: []\nmore: 1", "- graph"),
    ],
)
def test_a_file_that_names_no_strategies_is_refused(tmp_path, content):
    path = tmp_path / "neighbours.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError) as refused:
        groups.untouched(path)
    said = str(refused.value)
    assert said.startswith(f"{path}: it holds ") and "it must be untouched: [...], strategies" in said
    assert shown(yaml.safe_load(content)) in said


def test_a_file_may_name_none(tmp_path):
    path = tmp_path / "neighbours.yaml"
    path.write_text("untouched: []")
    assert groups.untouched(path) == frozenset()


def test_a_record_names_the_gpus_that_were_busy_meanwhile(monkeypatch):
    """Which these are test_lock.py shows."""
    busy = SimpleNamespace(uuids=lambda: ["GPU-b", "GPU-c"])
    monkeypatch.setattr(cell, "Neighbours", lambda device: busy)
    assert measured("network.hidden=[4]")["machine"]["neighbours"] == ["GPU-b", "GPU-c"]


STUB = """
import os, sys, time
if sys.argv[1] == "prepare":
    from snn import cli
    sys.exit(cli.main(sys.argv[1:]))
given = dict(argument.split("=", 1) for argument in sys.argv[1:])
started = time.time()
time.sleep(0.25)
with open("runs.log", "a") as log:
    asked = given.get("protocol.neighbour", "'any'").strip("'")
    at_once = os.environ["SNN_GPUS_AT_ONCE"]
    print(given["strategy"], given["round"], started, time.time(), at_once, asked, file=log)
with open(given["output"], "w") as output:
    output.write("{}")
"""
"""In place of a cell on a GPU: it takes a quarter of a second, and says when."""


def with_stub(tmp_path):
    """A project whose cells on a GPU are the stub."""
    project = Project(tmp_path / "project")
    shutil.copytree(ROOT, project.folder, ignore=NOT_OF_WORKFLOW)
    (project.folder / "snn/__main__.py").write_text(STUB)
    return project


def run_all(project, gpus):
    """Run every cell with so many GPUs; the words that each wrote, and the pairs that ran side by side."""
    listed = project.snakemake("--dry-run", cores=1)
    cells = {word.strip(",;") for word in listed.split() if word.startswith("results/cells/")}
    project.snakemake(*sorted(cells), "--resources", f"gpu={gpus}", cores=2 * gpus)
    runs = [line.split() for line in (project.folder / "runs.log").read_text().splitlines()]
    assert len(runs) == len(cells) and {run[4] for run in runs} == {str(gpus)}
    pairs = itertools.combinations(runs, 2)
    return runs, [(a, b) for a, b in pairs if float(a[2]) < float(b[3]) and float(b[2]) < float(a[3])]


def test_cells_of_two_gpus_run_side_by_side_where_a_neighbour_does_not_matter(tmp_path):
    project = with_stub(tmp_path)
    defaults = {"dataset": "small", "protocol.runs": 2, "protocol.rounds": 2}
    sweeps = {
        "mine": {"strategy": ["reference", "graph", "persistent"], "devices": ["NVIDIA H200"]},
        "neighbours": {
            "strategy": "persistent",
            "protocol.neighbour": ["none", "reference"],
            "devices": ["NVIDIA H200"],
        },
    }
    project.write_grid({"defaults": defaults, "sweeps": sweeps})
    runs, pairs = run_all(project, 2)
    assert len(runs) == 10
    assert pairs
    for a, b in pairs:
        assert "reference" not in (a[0], b[0])
        assert a[5] == b[5] == "any"  # a cell that says what trains beside it is alone otherwise
        assert a[1] != b[1]  # each round has a GPU of its own


def test_a_strategy_for_all_gpus_has_them_to_itself(tmp_path):
    """Although no neighbour disturbs it, and three GPUs are used at once."""
    project = with_stub(tmp_path)
    three = "[Device('cuda', 'NVIDIA H200', f'GPU-{i}') for i in range(3)]"
    with (project.folder / "snn/hardware/devices.py").open("a") as file:
        file.write(f"\n\ndef gpus_here():\n    return {three}\n")
    (project.folder / "config/neighbours.yaml").write_text("untouched: [persistent, data_parallel]")
    defaults = {"dataset": "small", "protocol.runs": 3, "protocol.rounds": 3}
    mine = {"strategy": ["persistent", "data_parallel"], "devices": ["NVIDIA H200"]}
    project.write_grid({"defaults": defaults, "sweeps": {"mine": mine}})
    runs, pairs = run_all(project, 3)
    assert len(runs) == 6
    assert {name for a, b in pairs for name in (a[0], b[0])} <= {"persistent"}


PUBLISHED = sorted((ROOT / "results/published").glob("*/*/tables/neighbours.csv"))


def test_the_file_says_what_the_published_tables_measured():
    """A strategy is untouched if it is in every row of every table."""
    rows = pd.concat([pd.read_csv(path, keep_default_na=False) for path in PUBLISHED])
    timed = rows[(rows["backend"] == "cuda") & (rows["slowdown"] != "")]
    touched = set(timed.loc[timed["verdict"] != "untouched", "strategy"])
    assert PUBLISHED and set(timed["strategy"]) - touched == groups.untouched()
