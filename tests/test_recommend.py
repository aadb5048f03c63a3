"""`snn recommend` from its command line to the folder that it leaves."""

import json
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
from project import IGNORED, copied

from snn import recommend
from snn.config import groups
from snn.config.compose import composed
from snn.errors import RecordError
from snn.recommending import candidates, elsewhere, text


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A recommendation between two strategies for a table of four columns, and what the command printed."""
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
    path.write_text(yaml.safe_dump(choices))
    rows = "\n".join(f"{i % 7};{i % 5};4;{i % 7 + i % 5}" for i in range(90))
    (folder / "mine.csv").write_text(f"a;b;c;sum\n{rows}\n")
    command = [sys.executable, "-c", "import sys; from snn.cli import entry; sys.exit(entry())", "recommend"]
    command += ["--csv", "mine.csv", "--target", "sum", "--hidden", "4"]
    command += ["--epochs", "3", "--learning-rate", "0.001", "--budget", "20s", "--device", "cpu"]
    here = os.environ | hostile_environment(folder)
    here["PYTHONPATH"] += f":{project.folder}"
    done = subprocess.run(command, cwd=folder, env=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder / "recommendation-mine", done


def test_the_answer_is_printed_with_its_table(asked):
    _, done = asked
    assert "resident" in done.stdout and "reference" in done.stdout
    assert "mine.csv: read as: semicolons" in done.stderr
    assert "mine.csv, target sum (72 rows, 3 features, 18 rows held out), network 4, batch " in done.stderr
    assert " size 64, 3 epochs, learning rate 0.001: 3 candidates" in done.stderr
    assert done.stderr.count("'c' is the same in all rows: is that") == 1
    assert done.stderr.splitlines()[-1] == "Writing the report."
    assert "No network like this one is published for an NVIDIA H200; of the nearest, whose" in done.stdout
    assert "Not known: the times of your own training there." in done.stdout


def test_the_printed_ranking_is_that_of_the_workflow(asked):
    """Although the command makes it from the records: a full disk prevents the workflow's tables."""
    folder, done = asked
    assert text.table(pd.read_csv(folder / "ranking.csv")) in done.stdout


def test_the_folder_holds_table_report_and_grid(asked):
    folder, _ = asked
    table = pd.read_csv(folder / "ranking.csv")
    assert sorted(table["strategy"]) == ["graph", "reference", "resident"]
    assert table.set_index("strategy")["status"].to_dict() == {
        "reference": "ok",
        "resident": "ok",
        "graph": "unsupported",
    }
    assert (table["backend"] == "cpu").all()
    assert (folder / "report.html").stat().st_size > 100_000
    grid = yaml.safe_load((folder / "grid.yaml").read_text())
    assert grid["sweeps"]["recommend"]["network.hidden"] == [[4]]


def test_the_report_says_what_was_trained_and_advises_what_works(asked):
    folder, _ = asked
    page = (folder / "report.html").read_text()
    opening = json.loads(re.search(r'<script id="workflow-desc">\s*var \w+ = (.*);\n', page)[1])
    assert "Data: mine.csv, target sum (72 rows, 3 features, 18 rows held out). Hidden layers: 4." in opening
    assert "On 18 held-out rows, after the epochs that were timed: R²" in opening
    assert "snn more-rounds" not in opening


def test_the_users_own_tables_stay_as_they_are(asked):
    tables = asked[0].parent / "results/tables"
    assert sorted(path.name for path in tables.iterdir()) == ["overview.csv", "recommend"]
    assert (tables / "overview.csv").read_text() == "the user's own"
    assert [path.name for path in (tables.parent / "figures").iterdir()] == ["recommend"]


def test_of_a_gpu_that_is_not_here_only_what_is_published_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(candidates, "ROOT", tmp_path / "project")
    monkeypatch.chdir(tmp_path)
    assert recommend.main(["--device", "NVIDIA H200", "--dataset", "large"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("NVIDIA H200 is not here, so nothing was measured.")
    assert (
        "of this network on these data sets" in said and "\n  large, 256: persistent is the fastest" in said
    )
    assert re.search(r"\d MiB with reference, \d+ MiB with persistent, of 139.8 GiB", said)
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_the_nearest_network_is_one_of_as_many_layers():
    assert elsewhere._distance("64-64", "256-256") < elsewhere._distance("64-64", "64")
    assert elsewhere._distance("256", "256") == elsewhere._distance("linear256-relu-linear3", "256") == 0
    assert elsewhere._distance("conv16x3-relu-linear10", "conv16x3-relu-linear10") == 0
    assert elsewhere._distance("conv16x3-relu-linear10", "256-256-256") == 30
    assert elsewhere._distance("256", "128") == elsewhere._distance("128", "256") > 0


HEADER = "case,answer,dataset,network,fastest,fastest_status,strategies,mean_s,speedup,device,backend\n"


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
def test_where_nothing_is_published_that_is_said(published, content):
    cell = {"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")}
    if content:
        published.write_text(content)
    said = elsewhere.on_a_gpu(cell)
    assert said.startswith("Nothing is published for NVIDIA H200.\n") and "there are results for" not in said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a table"),
        (b"\xff\xfe", "not a table"),
        (b"case,answer\n", "it has no column dataset: it must be the table overview"),
        (HEADER.encode() + b"c,a,small,256,graph,ok,5,soon,2,X,cuda\n", "not a table: could not convert"),
    ],
)
def test_a_published_recommendation_that_is_none_is_named(published, content, said):
    published.write_bytes(content)
    with pytest.raises(RecordError, match=f"{re.escape(str(published))}: {said}"):
        elsewhere.on_a_gpu({"network": groups.load("network", "one_hidden"), "dataset": {"name": "small"}})


@pytest.mark.parametrize(("seconds", "shown"), [(1.04, "b"), (1.06, "a"), (0.96, "b")])
def test_of_two_published_answers_that_are_alike_the_one_with_a_speedup_is_shown(monkeypatch, seconds, shown):
    cell = {"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")}
    one = {"case": "small, 256", "dataset": "small", "network": "256", "device": "X", "backend": "cuda"}
    one |= {"fastest": "graph", "fastest_status": "ok", "strategies": 5.0}
    rows = pd.DataFrame(
        [
            one | {"answer": "faster than graph", "folder": "a", "mean_s": 1.0, "speedup": float("nan")},
            one | {"answer": "faster than reference", "folder": "b", "mean_s": seconds, "speedup": 9.0},
        ]
    )
    monkeypatch.setattr(elsewhere, "_rows", lambda: rows)
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    (line,) = [line for line in elsewhere.on_a_gpu(cell, "X").splitlines() if "faster than" in line]
    assert line.endswith(f"[{shown}, of 5 candidates]")


def test_a_published_winner_that_diverged_is_not_shown_and_neither_is_the_reference_or_a_peer(monkeypatch):
    cell = {"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")}
    one = {"device": "X", "backend": "cuda", "mean_s": 1.0, "speedup": 9.0, "folder": "a", "strategies": 5.0}
    answers = [("small", "256", "reference", "ok"), ("small", "128", "graph", "ok")]
    answers += [("large", "256", "graph", "diverged"), ("medium", "256", "torch_loader (workers 2)", "ok")]
    keys = ("dataset", "network", "fastest", "fastest_status")
    rows = pd.DataFrame([one | dict(zip(keys, of, strict=True)) for of in answers])
    rows["case"], rows["answer"] = rows["dataset"] + " " + rows["network"], rows["fastest"]
    monkeypatch.setattr(elsewhere, "_rows", lambda: rows)
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    shown = [line.strip() for line in elsewhere.on_a_gpu(cell, "X").splitlines() if "[a, " in line]
    assert shown == ["small 128: graph [a, of 5 candidates]"]


def test_other_gpus_that_have_the_same_network_are_named_in_their_order(monkeypatch):
    cell = {"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")}
    one = {
        "backend": "cuda",
        "mean_s": 1.0,
        "speedup": 9.0,
        "folder": "a",
        "strategies": 5.0,
        "network": "256",
    }
    one |= {"fastest": "graph", "fastest_status": "ok", "dataset": "small", "case": "c", "answer": "graph"}
    rows = pd.DataFrame([one | {"device": f"GPU {name}"} for name in "DBEACB"])
    monkeypatch.setattr(elsewhere, "_rows", lambda: rows)
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    others = ", ".join(f"GPU {name}" for name in "ABCDE")
    assert f"  Of this network there are results for {others} (--device)." in elsewhere.on_a_gpu(cell, "X")


@pytest.mark.parametrize(
    ("strategies", "speedup", "is_answer"), [(2, 9.0, False), (3, 9.0, True), (2, None, True)]
)
def test_one_that_was_compared_with_the_reference_alone_is_not_recommended(
    monkeypatch, strategies, speedup, is_answer
):
    """Of the same network it is shown as that. Two others, as graph beside a peer, may be what competes."""
    cell = {"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")}
    one = {"case": "c", "answer": "combined", "dataset": "small", "network": "256", "folder": "a"}
    one |= {"device": "X", "backend": "cuda", "fastest": "combined", "fastest_status": "ok", "mean_s": 1.0}
    rows = pd.DataFrame([one | {"strategies": float(strategies), "speedup": speedup}])
    monkeypatch.setattr(elsewhere, "_rows", lambda: rows.astype({"speedup": float}))
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    said = elsewhere.on_a_gpu(cell, "X")
    words = (
        "on these data sets"
        if is_answer
        else "but of one strategy and the reference alone: others may be faster"
    )
    assert (
        f"Published for an X, of this network{'' if is_answer else ','} {words}:\n  c: combined [a, " in said
    )
    cell["network"] = cell["network"] | {"hidden": [300]}
    assert ("c: combined [a, " in elsewhere.on_a_gpu(cell, "X")) == is_answer


def test_published_answers_of_this_network_come_before_those_of_others(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(candidates, "ROOT", tmp_path / "project")
    monkeypatch.chdir(tmp_path)
    assert recommend.main(["--device", "NVIDIA H200", "--dataset", "patterns", "--network", "cnn"]) == 0
    _, own = capsys.readouterr().out.split("Published for an NVIDIA H200, of ")
    assert own.startswith("this network on these data sets:\n  fashion, conv16x3-relu-conv32x3-")
    assert "persistent is the fastest" in own and own.count("conv16x3-relu-conv32x3-") == 2
    assert recommend.main(["--device", "NVIDIA H200", "--dataset", "medium", "--hidden", "1024"]) == 0
    _, own, others = capsys.readouterr().out.split("Published for an NVIDIA H200, of ")
    assert own.startswith("this network on these data sets:\n  large, 1024")
    assert others.startswith("similar networks on these data sets:\n  medium, 256")


def test_networks_unlike_any_published_one_are_shown_the_nearest_and_said_to_be_others(monkeypatch):
    """Of other layers and another number of them; but not beside nearer ones."""
    cell = {"network": groups.load("network", "one_hidden"), "dataset": groups.load("dataset", "small")}
    one = {"case": "far", "dataset": "small", "network": "conv2d4-relu-maxpool2-linear10", "folder": "a"}
    one |= {"device": "X", "backend": "cuda", "fastest": "graph", "fastest_status": "ok", "answer": "graph"}
    one |= {"mean_s": 1.0, "speedup": 9.0, "strategies": 5.0}
    monkeypatch.setattr(elsewhere, "_memory", lambda *_: "1 MiB")
    monkeypatch.setattr(elsewhere, "_rows", lambda: pd.DataFrame([one]))
    said = elsewhere.on_a_gpu(cell, "X")
    unlike = (
        "No network like this one is published for an X; of the nearest, whose strategies may be ordered "
    )
    far = f"{unlike}otherwise:\n  far: graph [a, of 5 candidates]\n  Device memory"
    assert far in said and "similar" not in said
    near = one | {"case": "near", "network": "128"}
    monkeypatch.setattr(elsewhere, "_rows", lambda: pd.DataFrame([one, near]))
    said = elsewhere.on_a_gpu(cell, "X")
    assert "of similar networks on these data sets:\n  near: graph" in said and "far: graph" not in said
    same = one | {"network": "256", "device": "NVIDIA T4"}
    wide = one | {"network": "2000"}
    monkeypatch.setattr(elsewhere, "_rows", lambda: pd.DataFrame([wide, same]))
    said = elsewhere.on_a_gpu(cell, "X")
    assert unlike in said and "Of this network there are results for NVIDIA T4 (--device)." in said
    pair = one | {"case": "pair", "network": "256", "strategies": 2.0}
    monkeypatch.setattr(elsewhere, "_rows", lambda: pd.DataFrame([wide, same, pair]))
    said = elsewhere.on_a_gpu(cell, "X")
    assert (
        "of this network, but of one strategy and the reference alone: others may be faster:\n  pair: "
        in said
    )
    assert unlike not in said and "there are results of more strategies for NVIDIA T4" in said
    monkeypatch.setattr(elsewhere, "_rows", lambda: pd.DataFrame([one | {"network": "256"}, pair]))
    said = elsewhere.on_a_gpu(cell, "X")
    assert "of this network on these data sets:\n  far: graph" in said and "pair" not in said


def test_a_gpu_without_published_results_is_planned_for(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(candidates, "ROOT", tmp_path)
    assert recommend.main(["--device", "NVIDIA H100 PCIe"]) == 0
    said = capsys.readouterr().out
    assert "Nothing is published for NVIDIA H100 PCIe." in said and "of 79.65 GiB" in said


def test_of_a_gpu_whose_memory_is_not_known_the_rest_is_said():
    """As of one that somebody has published a set of, and config/gpus.yaml does not have."""
    said = elsewhere._memory(composed(["dataset=small"]), "NVIDIA A30X", [])
    assert said.startswith("not known (") and "config/gpus.yaml does not have" in said


def test_a_published_winner_that_cannot_train_this_cell_is_left_out_of_its_memory():
    cell = composed(["dataset=small", "kernel=cublas"])
    said = elsewhere._memory(cell, "NVIDIA H200", ["graph"])
    assert said.endswith(" MiB with reference, of 139.8 GiB")
