"""The question that `snn recommend` is asked: what its options and settings mean, and what is rejected."""

import pytest
from recommend_calls import ask, main, work_in

from snn.recommending import budget

MINE, NUMBERS = ["--csv", "mine.csv"], ["--target", "b", "dataset.text_columns=drop"]
KIND = ["--target", "kind", "--classify"]
AWAY = ["--device", "NVIDIA H200"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "My wine.csv"
    path.write_text("a,b,kind\n" + "".join(f"{i},{i % 5},{'xyz'[i % 3]}\n" for i in range(30)))
    return path


@pytest.mark.parametrize(
    ("arguments", "sweep"),
    [
        ([], {}),
        (["--dataset", "large"], {"dataset": "large"}),  # the paper's network keeps its weights
        (["--hidden", "64, 32"], {"network": "mlp", "network.hidden": [[64, 32]]}),  # not an axis of two
        (["network.hidden=[8]"], {"network": "mlp", "network.hidden": [[8]]}),
        (
            ["--layers", "linear 2, linear 1"],
            {"network": "layers", "network.layers": [["linear 2", "linear 1"]]},
        ),
        (["--hidden", "8", "network=one_hidden"], {"network": "one_hidden", "network.hidden": [[8]]}),
        (["training.learning_rate=1e-3"], {"training.learning_rate": 0.001}),
        # A network that takes images has some.
        (["--network", "cnn"], {"network": "cnn", "dataset": "patterns"}),
        (["network=cnn_pytorch"], {"network": "cnn_pytorch", "dataset": "patterns"}),
        (
            ["network=layers", "network.layers=[maxpool2d 2, linear 10]"],
            {"network": "layers", "network.layers": [["maxpool2d 2", "linear 10"]], "dataset": "patterns"},
        ),
        (
            ["network=layers", "network.layers=[linear 8, relu, linear 1]", "training.reduction=sum"],
            {"network": "layers", "network.layers": [["linear 8", "relu", "linear 1"]]}
            | {"training.reduction": "sum"},
        ),
    ],
)
def test_options_and_settings_are_those_of_a_grid(arguments, sweep):
    assert ask(arguments).sweep == sweep


def test_a_table_is_read_with_a_small_batch_and_settings_may_stand_anywhere(table):
    found = ask(["training.epochs=7", "--csv", table.name, "dataset.text_columns=drop", "--target", "b"])
    assert found.sweep == {
        "dataset": "csv",
        "dataset.path": str(table),  # the workflow runs in another folder
        "dataset.target": "b",
        "training.epochs": 7,
        "dataset.text_columns": "drop",
        "training.batch_size": 16,
    }
    assert found.cell["network"]["init"] != "uniform01"  # the paper's initial weights are all positive
    assert (found.output.name, found.choice, found.device) == ("recommendation-My-wine", "few", "auto")
    assert found.table.values.shape == (30, 2)


def test_paths_are_of_the_home_folder_or_where_the_command_was_started(table, monkeypatch):
    monkeypatch.setenv("HOME", str(table.parent))
    for path in (table.name, f"~/{table.name}"):
        asked = ask([f"--csv={path}", "--target", "0", "dataset.text_columns=drop"])
        assert asked.sweep["dataset.path"] == str(table) and asked.sweep["dataset.target"] == 0
    assert ask(["--output=~/o"]).output == table.parent / "o"
    assert [ask(asked).device for asked in (["device=cpu"], ["--device", "cpu"])] == ["cpu", "cpu"]


@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (4, 2), (70, 32), (79, 32), (80, 64), (300, 64)])
def test_a_small_table_has_a_smaller_batch(tmp_path, rows, batch):
    """Of a fifth of the rows, which is held out, none is in it."""
    file = tmp_path / "t.csv"
    file.write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(rows)))
    asked = ["--csv", str(file), "--target", "a"]
    held_out = [] if rows > 1 else ["dataset.held_out=0", "dataset.standardise=false"]
    assert ask([*asked, *held_out]).sweep["training.batch_size"] == batch
    assert ask([*asked, *held_out, "training.batch_size=1"]).sweep["training.batch_size"] == 1


def test_classes_become_outputs(table):
    asked = ["--csv", str(table), "--target", "kind", "--classify"]
    sweep = ask([*asked, "--hidden", "8,4"]).sweep
    assert sweep["network.layers"] == [["linear 8", "relu", "linear 4", "relu", "linear 3"]]
    assert (sweep["network"], sweep["network.loss"]) == ("layers", "cross_entropy")
    assert "network.hidden" not in sweep and sweep["training.learning_rate"] == 0.02
    assert ask([*asked, "training.learning_rate=0.1"]).sweep["training.learning_rate"] == 0.1
    assert ask(asked).sweep["network.layers"][0][-1] == "linear 3"
    smooth = ask([*asked, "--hidden", "8", "network.activation=tanh", "network.bias=true"]).sweep
    assert smooth["network.layers"] == [["linear 8", "tanh", "linear 3"]]
    assert not {"network.activation", "network.bias"} & smooth.keys()


def test_an_mlp_with_biases_and_another_activation(table):
    asked = ["--csv", str(table), "--target", "b", "--hidden", "8,4", "dataset.text_columns=drop"]
    cell = ask([*asked, "network.activation=tanh", "network.bias=true"]).cell
    assert cell.network == "8-4-bias-tanh"


def test_a_budget_is_a_time():
    texts = {"90s": 90, "2min": 120, "1h": 3600, "45": 45, "1.5 m": 90}
    assert {text: ask(["--budget", text]).budget for text in texts} == texts


ONE_CLASS = [*MINE, "--target", "one", "--classify", NUMBERS[-1]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        # Options
        ([*MINE], "--csv --target"),
        (["--target", "b"], "--target --csv"),
        ([*MINE, "--target", "b", "--dataset", "small"], "dataset=csv dataset=small twice"),
        (["--csv", "a.csv", "--target", "b", "--csv=b.csv"], "--csv"),
        (["--budget", "soon"], "--budget 'soon' 90s"),
        (["--budget", "5s"], "--budget '5s' 20s"),
        (["--output", ""], "--output ''"),
        (["--output", "/proc/nothing"], "--output /proc/nothing"),
        (["--output", "mine.csv"], "--output 'mine.csv/report.html' folder"),
        (["--output", "mine.csv/x"], "--output mine.csv/x"),
        (["--output", "x" * 300], "--output"),
        ([*MINE, *NUMBERS, "--output", "out"], "--output out/ranking.csv input"),
        (["--device", "NVIDIA H300"], "--device 'NVIDIA H300' auto"),
        (["--device", "cuda", "device=cpu"], "device=cpu device=cuda twice"),
        (["--device", "t4"], "--device 't4' 'Tesla T4'?"),
        (["--device", "h100"], "'NVIDIA H100 80GB HBM3' or 'NVIDIA H100 PCIe'?"),
        (["--device", "gpu"], "--device 'gpu' cuda NVIDIA A100"),
        (["--colour"], "--colour --csv"),
        (["--buget=20s"], "--buget --budget"),
        (["--budget"], "--budget"),
        # Those that there were are settings
        (["--epochs", "5"], "--epochs training.epochs="),
        (["--batch-size=5"], "--batch-size training.batch_size="),
        # A table
        (["--csv", "none.csv", "--target", "b"], "none.csv: No such file"),
        (["--csv", "x" * 300, "--target", "b"], "xxx: File name too long"),
        (["--csv", "", "--target", "b"], "dataset.path ''"),
        (["--csv", ".", "--target", "b"], ".: a folder, not a file"),
        (["My wine.csv"], "'My wine.csv' --csv --target"),
        (["dataset=csv"], "dataset.path dataset.target"),
        ([*MINE, "--target", ""], "dataset.target ''"),
        ([*MINE, "--target", "c"], "mine.csv: dataset.target 'c' a, b, kind, one"),
        ([*MINE, "--target", "9"], "mine.csv: dataset.target 9 -4 3"),
        ([*MINE, "--target", "b"], "mine.csv 'kind': 'x' one_hot"),
        ([*MINE, "--target", "b", *AWAY], "mine.csv 'kind': 'x' one_hot"),
        ([*MINE, "--target", "kind"], "mine.csv 'kind': 'x' --classify"),
        ([*MINE, *NUMBERS, "training.batch_size=99"], "training.batch_size 99, 24"),
        ([*MINE, *NUMBERS, "dataset.delimiter=;"], "mine.csv dataset.delimiter=null"),
        ([*MINE, *NUMBERS, "dataset=small"], "dataset=small dataset=csv twice"),
        # Settings, as of snn run
        (["--hidden", "64,x"], "network.hidden 'x'"),
        (["--hidden", "9999999"], "network.hidden 9999999 2^20"),
        (["--hidden", "1000000,1000000"], "1000000-1000000 32 bits"),
        (["--hidden", "64", "--network", "cnn"], "network.hidden network=cnn"),
        (["--dataset", "smal"], "--dataset 'smal' small?"),
        (["--network", "cnn", "--dataset", "small"], "network=cnn dataset=small patterns"),
        ([*MINE, *NUMBERS, "network=cnn", *AWAY], "network=cnn dataset=csv patterns"),
        ([*MINE, *NUMBERS, "network=layers", "network.layers=[conv2d 2 3, linear 1]"], "network=layers csv"),
        (["training.epochs=[1,2]"], "training.epochs [1, 2]"),
        (["training.epochs=5", "training.epochs=7"], "training.epochs=7 twice"),
        (["training.epoch=3"], "training.epoch: training.epochs?"),
        (["+training.epochs=3"], "'+training.epochs=3' training.epochs=3"),
        (["strategy=graph"], "'strategy=graph' --all"),
        (["output=mine"], "'output=mine' --output"),
        (["device.name=x"], "'device.name=x' --device"),
        # --classify
        (["--classify"], "--classify --csv"),
        ([*MINE, *KIND, "--network", "two_hidden"], "--classify network=two_hidden --hidden"),
        ([*MINE, *KIND, "network.layers=[linear 3]"], "--classify network.layers=[linear 3] --hidden"),
        ([*MINE, *KIND, "--hidden", "x"], "network.layers 'linear x'"),
        ([*MINE, *KIND, "network.bias=false"], "network.bias=false --classify"),
        (ONE_CLASS, "mine.csv 'one' 7 nothing to predict"),
        ([*ONE_CLASS, "dataset.standardise=false"], "--classify 'one' mine.csv one class"),
        ([*MINE, "--target", "real", "--classify"], "mine.csv dataset.target 'real'"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(arguments, named, tmp_path, monkeypatch, capsys):
    """In one line, before anything runs."""
    work_in(tmp_path, monkeypatch)
    rows = "".join(f"{i},{i % 5},{'xyz'[i % 3]},7\n" for i in range(30))
    (tmp_path / "mine.csv").write_text(f"a,b,kind,one\n{rows}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/ranking.csv").symlink_to(tmp_path / "mine.csv")
    monkeypatch.setattr(budget, "run_pilot", lambda *_: pytest.fail("a pilot was started"))
    given = arguments if "--device" in arguments else ["--device", "cpu", *arguments]
    assert main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snn: ") and all(word in line for word in named.split()), line
