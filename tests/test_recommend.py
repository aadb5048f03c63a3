"""`snn recommend` from its command line to the folder that it leaves, and what it says of a GPU elsewhere."""

import os
import re
import subprocess
import sys
from functools import partial

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from hostile_environment import hostile_environment
from project import IGNORED, copied, embedded
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
    said = "mine.csv, sum, 72 rows, 3 features, 18 rows, network 4, size 64, 3 epochs, 0.001: 3 candidates"
    assert all(word in lines[2] for word in said.split(", "))
    assert lines[-1] == "Writing the report."
    progress = r"(job \d+ of \d+, |waiting |waited |csv 4: (reference|resident|graph)[ :]|snn: warning: )"
    of_jobs = [line for line in lines[3:-1] if not line.startswith(("Each run", "Measuring ", "More rounds"))]
    assert of_jobs and all(re.match(progress, line) for line in of_jobs), of_jobs  # and nothing of Snakemake


def test_the_printed_ranking_is_that_of_the_workflow(asked):
    """Although the command makes it from the records: a full disk prevents the workflow's tables."""
    folder, done = asked
    assert text.table(pd.read_csv(folder / "ranking.csv")) in done.stdout
    assert "No network like this one is published for an NVIDIA H200; of the nearest, whose" in done.stdout
    assert "Not known: the times of your training job there." in done.stdout


def test_the_folder_holds_table_report_and_grid(asked):
    folder, _ = asked
    table = pd.read_csv(folder / "ranking.csv")
    status = {"reference": "ok", "resident": "ok", "graph": "unsupported"}
    assert table.set_index("strategy")["status"].to_dict() == status
    assert (table["backend"] == "cpu").all()
    grid = yaml.safe_load((folder / "grid.yaml").read_text())
    assert grid["sweeps"]["recommend"]["network.hidden"] == [[4]]
    page = (folder / "report.html").read_text()
    opening = embedded(page, "workflow-desc")
    assert "Data: mine.csv, target sum (72 rows, 3 features, 18 rows held out). Hidden layers: 4." in opening
    assert "On 18 held-out rows, after the epochs that were timed: R²" in opening
    assert "snn more-rounds" not in opening and len(page) > 100_000


def test_the_report_opens_as_the_terminal_with_the_figure_and_the_next_command(asked):
    folder, done = asked
    text_of_page = embedded((folder / "report.html").read_text(), "workflow-desc")
    answer = done.stdout.split("\n")[1]
    following = re.search(r"^Next: (snn train --csv mine.csv --target sum .*)$", done.stdout, re.MULTILINE)[1]
    assert "has the shortest mean time" in answer or "is the faste" in answer
    places = [text_of_page.index(part) for part in (answer, "<svg", "<table", following)]
    assert places == sorted(places)


def test_the_users_own_tables_stay_as_they_are(asked):
    tables = asked[0].parent / "results/tables"
    assert sorted(path.name for path in tables.iterdir()) == ["overview.csv", "recommend"]
    assert (tables / "overview.csv").read_text() == "the user's own"
    assert [path.name for path in (tables.parent / "figures").iterdir()] == ["recommend"]


# ---- a GPU that is not here


H200, MEDIUM = "NVIDIA H200", ["--dataset", "medium", "--hidden", "1024"]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        (H200, ["--dataset", "large"], r"of this network .*\n  large, 256: persistent is the fastest"),
        (H200, ["--dataset", "large"], r"\d MiB with reference, \d+ MiB with persistent, of 139.8 GiB"),
        ("NVIDIA H100 PCIe", [], r"(?s)Nothing is published for NVIDIA H100 PCIe\..*of 79.65 GiB"),
        (
            H200,
            ["--network", "cnn"],
            r"of this network on these data sets:\n  fashion, conv16x3-.*: persistent is",
        ),
        (H200, ["--network", "cnn"], r"(?s)^(?!.*similar networks)(.*conv16x3-relu-conv32x3-){2}"),
        *(
            (H200, ["--hidden", "64,64", setting], f"Nothing is published for {H200} with {setting}.")
            for setting in (
                "training.optimizer=adam",
                "training.schedule=cosine",
                "training.shuffle=epoch",
                "network.activation=tanh",
            )
        ),
        (H200, MEDIUM, r"(?s)this network on .*:\n  large, 1024.*similar networks .*:\n  medium, 256"),
    ],
)
def test_of_a_gpu_that_is_not_here_only_what_is_published_is_said(
    tmp_path, monkeypatch, capsys, name, arguments, said
):
    monkeypatch.chdir(tmp_path)
    assert main(["--device", name, *arguments]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{name} is not here, so nothing was measured.")
    assert re.search(said, printed), printed
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


HEADER = "case,answer,dataset,network,fastest,fastest_status,strategies,mean_s,speedup,device,backend\n"
CELL = Cell(
    {group: groups.load(group, name) for group, name in (("network", "one_hidden"), ("dataset", "small"))}
)
CELL["training"] = groups.default_training()
VALUES = ("c", "graph", "small", "256", "graph", "ok", 5.0, 1.0, 9.0, "X", "cuda")
ROW = dict(zip(HEADER.strip().split(","), VALUES, strict=True)) | {"folder": "a"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, None),
        (HEADER.encode(), None),
        (HEADER.encode() + b"c,a,small,256,graph,ok,5,1,2,A CPU,cpu\n", None),
        (b"", "not a table"),
        (b"\xff\xfe", "not a table"),
        (b"case,answer\n", "it has no column strategies: it must be the table overview"),
        (HEADER.encode() + b"c,a,small,256,graph,ok,5,soon,2,X,cuda\n", "not a table: could not convert"),
    ],
)
def test_a_published_recommendation_that_has_no_answer_is_left_out_or_named(
    tmp_path, monkeypatch, content, said
):
    """The table of a published set, the only one."""
    path = tmp_path / "device/set/tables/overview.csv"
    path.parent.mkdir(parents=True)
    (tmp_path / "device/set/README.md").touch()
    monkeypatch.setattr(elsewhere.published_sets, "sets", partial(elsewhere.published_sets.sets, tmp_path))
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    if content is not None:
        path.write_bytes(content)
    if said:
        with pytest.raises(RecordError, match=f"{re.escape(str(path))}: {said}"):
            elsewhere.on_a_gpu(CELL)
    else:
        text = elsewhere.on_a_gpu(CELL)
        assert (
            text.startswith("Nothing is published for NVIDIA H200.\n") and "there are results for" not in text
        )


LIKE, WIDE = {"network": "128"}, {"network": "2000"}
ON_T4, TWO = {"device": "NVIDIA T4"}, {"case": "pair", "strategies": 2.0}
BARE = {"case": "a", "speedup": None}
HEADS = {
    "same": "of this network on these data sets",
    "alone": "of one strategy and the reference alone",
    "similar": "of similar networks",
    "unlike": "No network like this one",
    "nothing": "Nothing is published for X.",
    "others": "  Of this network there are results for ",
    "more": "  Of this network there are results of more strategies for ",
}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        # Of two answers that are alike in time the one with a speedup is shown.
        ([BARE, {"case": "b", "mean_s": 1.04}], "same b"),
        ([BARE, {"case": "b", "mean_s": 1.06}], "same a"),
        ([BARE, {"case": "b", "mean_s": 0.96}], "same b"),
        # A winner that diverged is not shown, and neither is the reference or a peer.
        ([*({"fastest": name} for name in ("reference", "torch_loader (workers 2)")), LIKE], "similar c"),
        ([{"fastest_status": "diverged"}, LIKE], "similar c"),
        # Other GPUs that have the same network are named in their order.
        (
            [{"device": f"GPU {name}"} for name in "DBEACB"],
            "nothing others GPU A, GPU B, GPU C, GPU D, GPU E",
        ),
        # One that was compared with the reference alone is only shown of this network, if there is no other.
        # Two others, as graph beside a peer, may be what competes.
        ([TWO], "alone pair"),
        ([TWO | WIDE], "nothing"),
        ([TWO | {"strategies": 3.0}], "same pair"),
        ([TWO | {"speedup": None}], "same pair"),
        ([TWO, {}], "same c"),
        # Networks unlike any published one are shown the nearest, but not beside nearer ones.
        *(([{"network": network}], "unlike c") for network in ("conv2d4-relu-maxpool2-linear10", "256-256")),
        ([{"network": "linear128-relu-linear1"}], "similar c"),
        ([WIDE, LIKE | {"case": "near"}], "similar near"),
        ([WIDE, ON_T4], "unlike c others NVIDIA T4"),
        ([WIDE, ON_T4, TWO], "alone pair more NVIDIA T4"),
    ],
)
def test_which_published_answers_are_shown(monkeypatch, rows, said):
    table = pd.DataFrame([ROW | row for row in rows]).astype({"speedup": float})
    monkeypatch.setattr(elsewhere, "_rows", lambda: table)
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    shown = []
    for line in elsewhere.on_a_gpu(CELL, "X").splitlines()[:-3]:
        kinds = [kind for kind, head in HEADS.items() if head in line]
        names = (
            line.partition(": ")[0] if not kinds else line.partition(" for ")[2].partition(" (--device)")[0]
        )
        shown += [*kinds, names.strip()] if not kinds or line.startswith("  ") else kinds
    assert " ".join(shown) == said


def test_what_is_not_known_of_memory_is_left_out():
    """Such as of a GPU that somebody has published a set of, and config/gpus.yaml does not have."""
    said = elsewhere._memory(composed(["dataset=small"]), "NVIDIA A30X", [])
    assert said.startswith("not known (") and "config/gpus.yaml does not have" in said
    cell = composed(["dataset=small", "kernel=cublas"])  # with which a graph cannot train
    said = elsewhere._memory(cell, "NVIDIA H200", ["graph"])
    assert said.endswith(" MiB with reference, of 139.8 GiB")
