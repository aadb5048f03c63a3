"""`snn recommend` from its command line to the folder that it leaves, and what it says of a GPU elsewhere."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from math import inf

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from hostile_environment import hostile_environment
from project import IGNORED, copied
from recommend_calls import main

from snn.config import groups
from snn.config.cell import Cell
from snn.config.compose import composed
from snn.errors import RecordError
from snn.recommending import elsewhere, text


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A recommendation between three strategies for a table of four columns, and what the command printed."""
    folder = tmp_path_factory.mktemp("recommend")
    project = copied(ROOT, folder / "project", IGNORED)
    project.never_drifts()
    (project.folder / "results").symlink_to(folder / "results")
    (folder / "results/tables").mkdir(parents=True)
    (folder / "results/tables/overview.csv").write_text("the user's own")
    (folder / "results/published").symlink_to(ROOT / "results/published")
    path = project.folder / "config/recommend.yaml"
    choices = yaml.safe_load(path.read_text())
    choices["candidates"]["cpu"]["few"] = [{"strategy": ["reference", "resident", "graph"]}]
    choices["rounds"] = 1  # else the time of the budget is spent on more of them
    path.write_text(yaml.safe_dump(choices))
    rows = "\n".join(f"{i % 7};{i % 5};4;{i % 7 + i % 5}" for i in range(90))
    (folder / "mine.csv").write_text(f"a;b;c;sum\n{rows}\n")
    command = [sys.executable, "-c", "import sys; from snn.cli import entry; sys.exit(entry())", "recommend"]
    command += ["--csv", "mine.csv", "--target", "sum", "--hidden", "4"]
    command += ["training.epochs=3", "training.learning_rate=0.001", "--budget", "20s", "--device", "cpu"]
    here = os.environ | hostile_environment(folder)
    here["PYTHONPATH"] += f":{project.folder}"
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder / "recommendation-mine", done


def test_what_is_trained_and_how_it_goes_is_printed_while_it_runs(asked):
    lines = asked[1].stderr.splitlines()
    assert "mine.csv: read as: semicolons" in lines[0]
    assert sum("'c' is the same in all rows: is that" in line for line in lines) == 1
    assert lines[2].startswith(
        "mine.csv, target sum (72 rows, 3 features, 18 rows held out), network 4, batch size"
    )
    assert " size 64, 3 epochs, learning rate 0.001: 3 candidates" in lines[2]
    assert lines[-1] == "Writing the report."
    progress = r"(job \d+ of \d+, |waiting |waited |csv 4: (reference|resident|graph)[ :]|snn: warning: )"
    of_jobs = [line for line in lines[3:-1] if not line.startswith(("Each run", "Measuring ", "More rounds"))]
    assert of_jobs and all(re.match(progress, line) for line in of_jobs), of_jobs  # and nothing of Snakemake


def test_the_printed_ranking_is_that_of_the_workflow(asked):
    """Although the command makes it from the records: a full disk prevents the workflow's tables."""
    folder, done = asked
    assert text.table(pd.read_csv(folder / "ranking.csv")) in done.stdout
    assert "No network like this one is published for an NVIDIA H200; of the nearest, whose" in done.stdout
    assert "Not known: the times of your own training there." in done.stdout


def test_the_folder_holds_table_report_and_grid(asked):
    folder, _ = asked
    table = pd.read_csv(folder / "ranking.csv")
    status = {"reference": "ok", "resident": "ok", "graph": "unsupported"}
    assert table.set_index("strategy")["status"].to_dict() == status
    assert (table["backend"] == "cpu").all()
    grid = yaml.safe_load((folder / "grid.yaml").read_text())
    assert grid["sweeps"]["recommend"]["network.hidden"] == [[4]]
    page = (folder / "report.html").read_text()
    opening = json.loads(re.search(r'<script id="workflow-desc">\s*var \w+ = (.*);\n', page)[1])
    assert "Data: mine.csv, target sum (72 rows, 3 features, 18 rows held out). Hidden layers: 4." in opening
    assert "On 18 held-out rows, after the epochs that were timed: R²" in opening
    assert "snn more-rounds" not in opening and len(page) > 100_000


def test_the_users_own_tables_stay_as_they_are(asked):
    tables = asked[0].parent / "results/tables"
    assert sorted(path.name for path in tables.iterdir()) == ["overview.csv", "recommend"]
    assert (tables / "overview.csv").read_text() == "the user's own"
    assert [path.name for path in (tables.parent / "figures").iterdir()] == ["recommend"]


# ---- a GPU that is not here


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["NVIDIA H200", "--dataset", "large"],
            [
                r"of this network on these data sets.*\n  large, 256: persistent is the fastest",
                r"\d MiB with reference, \d+ MiB with persistent, of 139.8 GiB",
            ],
        ),
        (["NVIDIA H100 PCIe"], ["Nothing is published for NVIDIA H100 PCIe.", "of 79.65 GiB"]),
        (
            ["NVIDIA H200", "--dataset", "patterns", "--network", "cnn"],
            [
                r"of this network on these data sets:\n  fashion, conv16x3-.*: persistent is the fastest",
                r"(?s)^(?!.*similar networks)(.*conv16x3-relu-conv32x3-){2}",
            ],
        ),
        (
            ["NVIDIA H200", "--dataset", "medium", "--hidden", "1024"],
            [r"(?s)this network on these data sets:\n  large, 1024.*similar networks .*:\n  medium, 256"],
        ),
    ],
)
def test_of_a_gpu_that_is_not_here_only_what_is_published_is_said(
    tmp_path, monkeypatch, capsys, arguments, said
):
    monkeypatch.chdir(tmp_path)
    assert main(["--device", *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{arguments[0]} is not here, so nothing was measured.")
    assert all(re.search(pattern, printed) for pattern in said), printed
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "name", "said"),
    [
        (["dataset=large", "training.epochs=7"], "Tesla T4", "large, 256: combined 1.65 or 2.14, pinned 1.0"),
        (["dataset=small", "strategy=graph"], "Tesla T4", "small, 256: combined 1.66, pinned 1.18, streams"),
        (["dataset=large", "network=three_hidden"], "Tesla T4", "large, 256-1024-256: combined 1.01"),
        (["dataset=large", "training.batch_size=99"], "Tesla T4", None),
        (["dataset=large"], "NVIDIA L4", None),
    ],
)
def test_of_the_papers_gpu_the_papers_speedups_are_said(settings, name, said):
    text = elsewhere.on_a_gpu(composed(settings), name)
    assert ("The paper has speedups over reference on a Tesla T4, without intervals" in text) == bool(said)
    assert (f"Nothing is published for {name}." in text) != bool(said)
    assert said is None or said in text


@pytest.mark.parametrize(
    ("one", "other", "factors"),
    [
        ("64-64", "256-128", [4, 2]),
        ("64-64", "64", [inf]),
        ("256", "256", [1]),
        ("linear256-relu-linear3", "128", [2]),
        ("conv16x3-relu-linear10", "conv16x3-relu-linear10", [1, 1, 1]),
        ("conv16x3-relu-linear10", "256-256-256", [inf, inf, inf]),
    ],
)
def test_networks_are_compared_layer_by_layer(one, other, factors):
    assert elsewhere._factors(one, other) == elsewhere._factors(other, one) == factors


HEADER = "case,answer,dataset,network,fastest,fastest_status,strategies,mean_s,speedup,device,backend\n"
CELL = Cell({"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")})
VALUES = ("c", "graph", "small", "256", "graph", "ok", 5.0, 1.0, 9.0, "X", "cuda")
ROW = dict(zip(HEADER.strip().split(","), VALUES, strict=True)) | {"folder": "a"}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The table of a published set, the only one, which is not there yet."""
    path = tmp_path / "device/set/tables/overview.csv"
    path.parent.mkdir(parents=True)
    (tmp_path / "device/set/README.md").touch()
    monkeypatch.setattr(elsewhere.published_sets, "sets", partial(elsewhere.published_sets.sets, tmp_path))
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    return path


@pytest.mark.parametrize("content", [None, HEADER, HEADER + "c,a,small,256,graph,ok,5,1,2,A CPU,cpu\n"])
def test_if_nothing_is_published_that_is_said(published, content):
    if content:
        published.write_text(content)
    said = elsewhere.on_a_gpu(CELL)
    assert said.startswith("Nothing is published for NVIDIA H200.\n") and "there are results for" not in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a table"),
        (b"\xff\xfe", "not a table"),
        (b"case,answer\n", "it has no column strategies: it must be the table overview"),
        (HEADER.encode() + b"c,a,small,256,graph,ok,5,soon,2,X,cuda\n", "not a table: could not convert"),
    ],
)
def test_a_published_recommendation_that_is_none_is_named(published, content, said):
    published.write_bytes(content)
    with pytest.raises(RecordError, match=f"{re.escape(str(published))}: {said}"):
        elsewhere.on_a_gpu(CELL)


SAME = "Published for an X, of this network on these data sets:"
SIMILAR = "Published for an X, of similar networks on these data sets:"
PAIR = (
    "Published for an X, of this network, but of one strategy and the reference alone: others may be faster:"
)
UNLIKE = "No network like this one is published for an X; of the nearest, whose strategies may be ordered"
FAR = {"case": "far", "network": "conv2d4-relu-maxpool2-linear10"}
MORE = "  Of this network there are results of more strategies for {} (--device)."
OTHERS = "  Of this network there are results for {} (--device)."
BARE = {"case": "a", "speedup": None}
LIKE, WIDE = {"case": "near", "network": "128"}, {"network": "2000"}
NEAR = [SIMILAR, "  near: "]
ON_T4, TWO = {"device": "NVIDIA T4"}, {"case": "pair", "strategies": 2.0}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # Of two answers that are alike in time the one with a speedup is shown.
        ([BARE, {"case": "b", "mean_s": 1.04}], [SAME, "  b: graph [a, of 5 candidates]"]),
        ([BARE, {"case": "b", "mean_s": 1.06}], [SAME, "  a: "]),
        ([BARE, {"case": "b", "mean_s": 0.96}], [SAME, "  b: "]),
        # A winner that diverged is not shown, and neither is the reference or a peer.
        ([*({"fastest": name} for name in ("reference", "torch_loader (workers 2)")), LIKE], NEAR),
        ([{"fastest_status": "diverged"}, LIKE], NEAR),
        # Other GPUs that have the same network are named in their order.
        (
            [{"device": f"GPU {name}"} for name in "DBEACB"],
            ["Nothing is published for X.", OTHERS.format("GPU A, GPU B, GPU C, GPU D, GPU E")],
        ),
        # One that was compared with the reference alone is only shown of this network, if there is no other.
        # Two others, as graph beside a peer, may be what competes.
        ([TWO], [PAIR, "  pair: "]),
        ([TWO | WIDE], ["Nothing is published for X."]),
        ([TWO | {"strategies": 3.0}], [SAME, "  pair: "]),
        ([TWO | {"speedup": None}], [SAME, "  pair: "]),
        ([TWO, {}], [SAME, "  c: "]),
        # Networks unlike any published one are shown the nearest, but not beside nearer ones.
        ([FAR], [UNLIKE, "  far: "]),
        ([FAR, LIKE], NEAR),
        ([WIDE, ON_T4], [UNLIKE, "  c: ", OTHERS.format("NVIDIA T4")]),
        ([WIDE, ON_T4, TWO], [PAIR, "  pair: ", MORE.format("NVIDIA T4")]),
    ],
)
def test_which_published_answers_are_shown(monkeypatch, rows, said):
    table = pd.DataFrame([ROW | row for row in rows]).astype({"speedup": float})
    monkeypatch.setattr(elsewhere, "_rows", lambda: table)
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    lines = elsewhere.on_a_gpu(CELL, "X").splitlines()[:-3]
    assert len(lines) == len(said) and all(map(str.startswith, lines, said)), lines


def test_what_is_not_known_of_memory_is_left_out():
    """Such as of a GPU that somebody has published a set of, and config/gpus.yaml does not have."""
    said = elsewhere._memory(composed(["dataset=small"]), "NVIDIA A30X", [])
    assert said.startswith("not known (") and "config/gpus.yaml does not have" in said
    cell = composed(["dataset=small", "kernel=cublas"])  # with which a graph cannot train
    said = elsewhere._memory(cell, "NVIDIA H200", ["graph"])
    assert said.endswith(" MiB with reference, of 139.8 GiB")
