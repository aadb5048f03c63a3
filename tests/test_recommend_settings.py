"""The command line of `snn recommend`: what its options mean, and what is refused."""

import pytest
from recommend_calls import work_in

from snn import recommend
from snn.recommending import budget
from snn.recommending.settings import parse, with_batch_size

MINE, NUMBERS = ["--csv", "mine.csv"], ["--target", "b", "dataset.text_columns=drop"]
KIND = ["--target", "kind", "--classify"]
SMALL, AWAY = [*NUMBERS, "--batch-size", "4"], ["--device", "NVIDIA H200"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "My wine.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    return path


def test_a_table_and_widths_become_a_sweep(table):
    found = parse(["--csv", str(table), "--target", "b", "--hidden", "64, 32", "--epochs", "7"])
    assert found.grid == {
        "dataset": "csv",
        "dataset.path": str(table),
        "dataset.target": "b",
        "network": "mlp",  # the paper's initial weights are all positive
        "network.hidden": [[64, 32]],  # one network, not an axis of two
        "training.epochs": 7,
    }
    assert (found.output.name, found.choice, found.device) == ("recommendation-My-wine", "few", "auto")


@pytest.mark.parametrize(
    ("arguments", "grid"),
    [
        ([], {}),
        (["--dataset", "large"], {"dataset": "large"}),  # the paper's network keeps its weights
        (["--hidden", "8"], {"network": "mlp", "network.hidden": [[8]]}),
        (["--learning-rate", "1e-3"], {"training.learning_rate": 0.001}),
        # A network that takes images has some.
        (["--network", "cnn"], {"network": "cnn", "dataset": "patterns"}),
        (["--network", "cnn", "--dataset", "fashion"], {"network": "cnn", "dataset": "fashion"}),
        (["network=cnn_pytorch"], {"network": "cnn_pytorch", "dataset": "patterns"}),
        (
            ["network=layers", "network.layers=[maxpool2d 2, linear 10]"],
            {"network": "layers", "network.layers": [["maxpool2d 2", "linear 10"]], "dataset": "patterns"},
        ),
        (
            ["network=layers", "network.layers=[linear 8, relu]", "training.reduction=sum"],
            {"network": "layers", "network.layers": [["linear 8", "relu"]], "training.reduction": "sum"},
        ),
        (["network=layers"], {"network": "layers"}),
        (["--network", "mlp"], {"network": "mlp"}),
    ],
)
def test_options_and_settings_are_those_of_a_grid(arguments, grid):
    assert parse(arguments).grid == grid


@pytest.mark.parametrize("key", ["delimiter", "decimal", "thousands", "comment"])
@pytest.mark.parametrize("mark", [",", "|", "#", "'", ":"])
def test_a_mark_needs_no_quotes(table, key, mark):
    """Though YAML has other meanings for most."""
    asked = ["--csv", str(table), "--target", "0", f"dataset.{key}={mark}"]
    if key != "decimal" or mark == ",":
        assert parse(asked).grid[f"dataset.{key}"] == mark


def test_paths_are_of_the_home_folder_or_where_the_command_was_started(table, monkeypatch):
    folder = table.parent
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    assert parse([f"--csv=~/{table.name}", "--target", "b"]).grid["dataset.path"] == str(table)
    assert parse(["--output=~/o"]).output == folder / "o"
    for path in ("~/images", "images"):
        assert parse(["--dataset", "idx", f"dataset.path={path}"]).grid["dataset.path"] == str(
            folder / "images"
        )


@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (4, 2), (70, 32), (79, 32), (80, 64), (300, 64)])
def test_a_small_table_has_a_smaller_batch(tmp_path, rows, batch):
    """Of a fifth of the rows, which is held out, none is in it."""
    file = tmp_path / "t.csv"
    file.write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(rows)))
    asked = ["--csv", str(file), "--target", "a"]
    held_out = [] if rows > 1 else ["dataset.held_out=0", "dataset.standardise=false"]
    assert with_batch_size(parse([*asked, *held_out])).grid["training.batch_size"] == batch
    assert with_batch_size(parse([*asked, "--batch-size", "9"])).grid["training.batch_size"] == 9
    assert "training.batch_size" not in with_batch_size(parse(["--dataset", "small"])).grid


def test_classes_become_outputs(table):
    table.write_text("a,b,kind\n" + "".join(f"{i},{i % 5},{'xyz'[i % 3]}\n" for i in range(30)))
    asked = ["--csv", str(table), "--target", "kind", "--classify"]
    grid = parse([*asked, "--hidden", "8,4"]).grid
    assert grid["network.layers"] == [["linear 8", "relu", "linear 4", "relu", "linear 3"]]
    assert (grid["network"], grid["network.loss"]) == ("layers", "cross_entropy")
    assert "network.hidden" not in grid and grid["training.learning_rate"] == 0.02
    assert parse([*asked, "--learning-rate", "0.1"]).grid["training.learning_rate"] == 0.1
    assert parse(asked).grid["network.layers"][0][-1] == "linear 3"


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("2min", 120), ("1h", 3600), ("45", 45), ("1.5 m", 90)]
)
def test_a_budget_is_a_time(text, seconds):
    assert parse(["--budget", text]).budget == seconds


@pytest.mark.parametrize("target", ["3", "-1"])
def test_digits_are_the_number_of_a_column(table, target):
    assert parse(["--csv", str(table), "--target", target]).grid["dataset.target"] == int(target)


def test_settings_may_stand_anywhere(table):
    found = parse(["training.epochs=5", "--csv", str(table), "training.batch_size=8", "--target", "b"])
    assert (found.grid["training.epochs"], found.grid["training.batch_size"]) == (5, 8)
    assert found.keys == {"training.epochs", "training.batch_size"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        # One option
        (["--csv", "none.csv", "--target", "b"], "--csv is 'none.csv': there is no such file"),
        (["--csv", "x" * 300, "--target", "b"], "it cannot be read: File name too long"),
        (["--csv", "", "--target", "b"], "--csv is '': there is no such file"),
        (["--csv", ".", "--target", "b"], "it is a folder, not a file"),
        (["--csv", "a.csv", "--target", "b", "--csv=b.csv"], "--csv is given 2 times: give it once"),
        ([*MINE], "--csv is given without --target"),
        ([*MINE, "--target", "b", "--dataset", "small"], "give one of the two"),
        (["--target", "b"], "--target is 'b', but there is no --csv"),
        (["--dataset", "hugs"], "--dataset is 'hugs': it must be one of"),
        (["--dataset", "smal"], "--dataset is 'smal' (did you mean small?): it must be one of"),
        (["--dataset", "csv"], "--dataset is 'csv': give the table as --csv FILE --target COLUMN"),
        (["--network", "cnm"], "--network is 'cnm': it must be one of"),
        (["--network", "two-hiden"], "--network is 'two-hiden' (did you mean two_hidden?): it must be one"),
        (["--hidden", "64,x"], "--hidden is '64,x': it must be widths"),
        (["--hidden", "0"], "--hidden is '0'"),
        (["--hidden", "9999999"], "--hidden is '9999999': it must be widths of layers, 1 to 1048576"),
        (["--hidden", "\u0663"], "--hidden is"),
        (["--hidden", "64", "--network", "cnn"], "--hidden is '64', but the network cnn has its own layers"),
        (["--epochs", "ten"], "--epochs is 'ten': it must be a whole number, at least 1"),
        (["--epochs", "0"], "--epochs is '0': it must be a whole number, at least 1"),
        (["--epochs", "1_0"], "--epochs is '1_0'"),
        (["--epochs"], "--epochs needs a value: --epochs N"),
        (["--batch-size", "9" * 5000], "(5002 characters): it must be a whole number"),
        (["--batch-size", "9999"], "--batch-size is 9999: it must be at most"),
        (["--learning-rate", "-1"], "--learning-rate is '-1': it must be a number above 0"),
        (["--learning-rate", "nan"], "--learning-rate is 'nan': it must be a number above 0"),
        (["--learning-rate", "1e99"], "--learning-rate is 1e+99: it must be a number from"),
        (["--budget", "soon"], "--budget is 'soon': it must be a time, as 90s, 2min or 1h"),
        (["--budget", "-2min"], "--budget is '-2min': it must be a time, as 90s, 2min or 1h"),
        (["--budget", "-2"], "--budget is '-2': it must be a time"),
        (["--budget", "5s"], "--budget is '5s': it must be from 20s"),
        (["--output", ""], "--output is '': it must be a folder"),
        (["--output", "/proc/nothing"], "--output is '/proc/nothing': a folder of the system"),
        (["--output", "mine.csv"], "--output is 'mine.csv': it is a file, and must be a folder"),
        (["--output", "mine.csv/x"], "--output is 'mine.csv/x': no file can be written there"),
        (["--output", "x" * 300], "no file can be written there: File name too long"),
        ([*MINE, *NUMBERS, "--batch-size", "8", "--output", "out"], "this file is an input"),
        (["--device", "NVIDIA H300"], "neither here nor known"),
        (["--device", "t4"], "neither here nor known (did you mean 'Tesla T4'?): it must be auto"),
        (["--device", "h100"], "mean 'NVIDIA H100 80GB HBM3' or 'NVIDIA H100 PCIe'?): it must be auto"),
        (["--device", "gpu"], "neither here nor known: it must be auto, cuda, cpu or one of NVIDIA A100"),
        (["--colour"], "'--colour': snn recommend has no such option"),
        (["--buget=20s"], "'--buget=20s': snn recommend has no such option"),
        # Settings as KEY=VALUE
        (["--epochs", "5", "training.epochs=7"], "training.epochs is given beside --epochs"),
        (["training.epochs=5", "training.epochs=7"], "training.epochs is given twice"),
        (["training.epochs=[1,2]"], "it must be one value: strategies are compared on one training"),
        (["dataset=[small,large]"], "it must be one value"),
        (["union=[{strategy: graph}]"], "chosen by config/recommend.yaml"),
        (["on_cpu={strategy: graph}"], "chosen by config/recommend.yaml"),
        (["devices=cpu"], "chosen by config/recommend.yaml"),
        (["strategy=graph"], "the strategies, the protocol and the device are chosen by"),
        (["training.epochs=2020-01-01"], "training.epochs: 2020-01-01 is not right"),
        (["training.epochs=!!set {a}"], "training.epochs: the tag"),
        (["training.epochs=" + "9" * 5000], "training.epochs: 999"),
        (["training.epochs=" + "[" * 2000], "more than 24 levels"),
        (["training.epochs={1: 2}"], "the key 1 is not text"),
        (["training.epochs=1:30"], "training.epochs: 1:30 is not right"),
        (["training.epochs=0"], "training.epochs is 0: it must be"),
        (["training.epochs"], "'training.epochs' is no setting: it must be KEY=VALUE"),
        (["training.epochs=[1"], "training.epochs: a bracket is not closed"),
        (
            ["training.epoch=3"],
            "training.epoch: training has no such key (did you mean training.epochs?); it has",
        ),
        (["My wine.csv"], "is no setting: a table is given as --csv 'My wine.csv' --target COLUMN"),
        (
            ["+training.epochs=3"],
            "a setting is replaced, with KEY=VALUE, as training.epochs=3; none is added",
        ),
        (["output=mine"], "as --output"),
        (
            ["dataset.noise=,"],
            "dataset.noise: the value cannot be read: text with such characters has quotes",
        ),
        (["dataset.colour=,"], "dataset.colour: dataset=small has no such key; it has rows, "),
        (["--network", "cnn", "network.hidden=,"], "network.hidden: network=cnn has no such key"),
        (["colour=,"], "colour: there is no such key; the keys are dataset, "),
        # What the grid, the data or the network refuse
        (["--hidden", "1000000,1000000"], "kernels count in 32 bits"),
        (["--network", "cnn", "--dataset", "small"], "choose --dataset patterns, mnist or fashion"),
        (["--dataset", "idx"], "dataset.path is missing: dataset=idx needs it: add dataset.path=..."),
        ([*MINE, "--target", "c"], "mine.csv: --target is 'c', which is not in the header: a, b, kind, one"),
        ([*MINE, "--target", "9"], "mine.csv: --target is 9: it must be between -4 and 3"),
        ([*MINE, "--target", "b"], "column 'kind': 'x' is not a number, "),
        ([*MINE, "--target", "b", *AWAY], "column 'kind': 'x' is not a number, "),
        ([*MINE, "--target", "kind"], "to tell these apart, say --classify"),
        (
            [*MINE, *NUMBERS, "--batch-size", "64"],
            "fewer than one batch: --batch-size is 64, it must be at m",
        ),
        ([*MINE, *NUMBERS, "training.batch_size=99"], "training.batch_size is 99, it must be at most 24"),
        ([*MINE, *NUMBERS, "dataset.delimiter=;"], "dataset.delimiter=null"),
        ([*MINE, *NUMBERS, "dataset=small"], "dataset is given beside --csv"),
        ([*MINE, *NUMBERS, "dataset.path=x.csv"], "dataset.path is given beside --csv"),
        ([*MINE, *NUMBERS, "dataset.colour=1"], "dataset.colour: dataset=csv has no such key"),
        ([*MINE, *NUMBERS, "dataset.decimal=x"], "dataset.decimal is 'x': it must be one of ., ,"),
        (
            [*MINE, *SMALL, "--network", "cnn"],
            "cnn has convolutions, which need images, but the data set is a",
        ),
        ([*MINE, *SMALL, "--network", "cnn", *AWAY], "network cnn has convolutions, which need images, but "),
        ([*MINE, "--target", "kind", "network=cnn"], "leave it out for fully connected layers, whose widths"),
        (
            [*MINE, *NUMBERS, "network=layers", "network.layers=[conv2d 2, linear 1]"],
            "layers has convolutions",
        ),
        # --classify
        (["--classify"], "--classify is given without --csv"),
        ([*MINE, *KIND, "--network", "two_hidden"], "--classify is given beside --network two_hidden"),
        ([*MINE, "--target", "one", "--classify", NUMBERS[-1]], "column 'one' of mine.csv has one class"),
        ([*MINE, *KIND, "network.layers=[linear 3]"], "network.layers is given beside --classify"),
        ([*MINE, *KIND, "dataset.colour=1"], "dataset.colour: dataset=csv has no such key"),
        ([*MINE, *KIND, "dataset.header=maybe"], "dataset.header is 'maybe': it must be true, false"),
        ([*MINE, "--target", "real", "--classify"], "--target is 'real', which is not in the header"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(arguments, said, tmp_path, monkeypatch, capsys):
    """Before anything runs, in one line, in the words of the command line instead of a grid's."""
    work_in(tmp_path, monkeypatch)
    rows = "".join(f"{i},{i % 5},{'xyz'[i % 3]},7\n" for i in range(30))
    (tmp_path / "mine.csv").write_text(f"a,b,kind,one\n{rows}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/ranking.csv").symlink_to(tmp_path / "mine.csv")
    monkeypatch.setattr(budget, "run_pilot", lambda *_: pytest.fail("a pilot was started"))
    given = arguments if "--device" in arguments else ["--device", "cpu", *arguments]
    assert recommend.main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snn: ") and said in line and "sweeps.recommend" not in line, line
