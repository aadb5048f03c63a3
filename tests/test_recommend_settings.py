"""The command line of `snn recommend`: what its options mean, and what is refused."""

import pytest

from snn import recommend
from snn.errors import ConfigError, SnnError
from snn.recommending import grid_file
from snn.recommending.settings import parsed, with_batch_size

MINE, NUMBERS, KIND = (
    ["--csv", "mine.csv"],
    ["--target", "b", "dataset.text_columns=drop"],
    ["--target", "kind", "--classify"],
)
SMALL, AWAY = [*NUMBERS, "--batch-size", "4"], ["--device", "NVIDIA H200"]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "My wine.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    return path


def test_a_table_and_widths_become_a_sweep(table):
    found = parsed(["--csv", str(table), "--target", "b", "--hidden", "64, 32", "--epochs", "7"])
    assert found.grid["dataset"] == "csv"
    assert (found.grid["dataset.path"], found.grid["dataset.target"]) == (str(table), "b")
    assert found.grid["network.hidden"] == [[64, 32]]  # one network, not an axis of two
    assert found.grid["network"] == "mlp"  # the paper's initial weights are all positive
    assert found.grid["training.epochs"] == 7
    assert found.output.name == "recommendation-My-wine"
    assert found.choice == "few" and found.device == "auto"


@pytest.mark.parametrize("key", ["delimiter", "decimal", "thousands", "comment"])
@pytest.mark.parametrize("mark", [",", "|", "#", "'", ":"])
def test_a_mark_needs_no_quotes(table, key, mark):
    """Though YAML has other meanings for most."""
    asked = ["--csv", str(table), "--target", "0", f"dataset.{key}={mark}"]
    if key != "decimal" or mark == ",":
        assert parsed(asked).grid[f"dataset.{key}"] == mark


def test_the_home_folder_is_found(table, monkeypatch):
    monkeypatch.setenv("HOME", str(table.parent))
    assert parsed([f"--csv=~/{table.name}", "--target", "b"]).grid["dataset.path"] == str(table)
    asked = ["--dataset", "idx", "dataset.path=~/images"]
    assert parsed([*asked, "--output=~/o"]).output == table.parent / "o"
    assert parsed(asked).grid["dataset.path"] == str(table.parent / "images")


@pytest.mark.parametrize(("rows", "batch"), [(1, 1), (4, 2), (70, 32), (79, 32), (80, 64), (300, 64)])
def test_a_small_table_has_a_smaller_batch(tmp_path, rows, batch):
    """Of a fifth of the rows, which is held out, none is in it."""
    file = tmp_path / "t.csv"
    file.write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(rows)))
    asked = ["--csv", str(file), "--target", "a"]
    held_out = [] if rows > 1 else ["dataset.held_out=0", "dataset.standardise=false"]
    assert with_batch_size(parsed([*asked, *held_out])).grid["training.batch_size"] == batch
    assert with_batch_size(parsed([*asked, "--batch-size", "9"])).grid["training.batch_size"] == 9
    assert "training.batch_size" not in with_batch_size(parsed(["--dataset", "small"])).grid


def test_the_papers_network_keeps_its_weights():
    assert parsed([]).grid == {}
    assert parsed(["--dataset", "large"]).grid == {"dataset": "large"}
    assert parsed(["--network", "cnn"]).grid == {"network": "cnn", "dataset": "patterns"}
    assert parsed(["--hidden", "8"]).grid == {"network": "mlp", "network.hidden": [[8]]}


@pytest.mark.parametrize(
    ("arguments", "dataset"),
    [
        (["--network", "cnn"], "patterns"),
        (["--network", "cnn", "--dataset", "fashion"], "fashion"),
        (["network=cnn_pytorch"], "patterns"),
        (["network=layers", "network.layers=[maxpool2d 2, linear 10]"], "patterns"),
        (["network=layers", "network.layers=[linear 2, relu]"], None),
        (["network=layers"], None),
        (["--network", "mlp"], None),
    ],
)
def test_a_network_that_takes_images_has_some(arguments, dataset):
    assert parsed(arguments).grid.get("dataset") == dataset


def test_classes_become_outputs(table):
    table.write_text("a,b,kind\n" + "".join(f"{i},{i % 5},{'xyz'[i % 3]}\n" for i in range(30)))
    asked = ["--csv", str(table), "--target", "kind", "--classify"]
    grid = parsed([*asked, "--hidden", "8,4"]).grid
    assert grid["network.layers"] == [["linear 8", "relu", "linear 4", "relu", "linear 3"]]
    assert (grid["network"], grid["network.loss"]) == ("layers", "cross_entropy")
    assert "network.hidden" not in grid
    assert grid["training.learning_rate"] == 0.02
    assert parsed([*asked, "--learning-rate", "0.1"]).grid["training.learning_rate"] == 0.1
    assert parsed(asked).grid["network.layers"][0][-1] == "linear 3"
    with pytest.raises(ConfigError, match="--classify is given beside --network two_hidden"):
        parsed([*asked, "--network", "two_hidden"])
    with pytest.raises(ConfigError, match="--classify is given without --csv"):
        parsed(["--classify"])


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("2min", 120), ("1h", 3600), ("45", 45), ("1.5 m", 90)]
)
def test_a_budget_is_a_time(text, seconds):
    assert parsed(["--budget", text]).budget == seconds


def test_settings_are_those_of_a_grid():
    grid = parsed(
        ["network=layers", "network.layers=[linear 8, relu, linear 1]", "training.reduction=sum"]
    ).grid
    assert grid["network.layers"] == [["linear 8", "relu", "linear 1"]]
    assert grid["training.reduction"] == "sum"


@pytest.mark.parametrize("target", ["3", "-1"])
def test_digits_are_the_number_of_a_column(table, target):
    assert parsed(["--csv", str(table), "--target", target]).grid["dataset.target"] == int(target)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--csv", "none.csv", "--target", "b"], "--csv is 'none.csv': there is no such file"),
        (["--target", "b"], "--target is 'b', but there is no --csv"),
        (["--dataset", "hugs"], "--dataset is 'hugs': it must be one of"),
        (["--dataset", "smal"], "--dataset is 'smal' (did you mean small?): it must be one of"),
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
        (["--batch-size", "9" * 5000], "(5002 characters): it must be a whole number"),
        (["--learning-rate", "-1"], "--learning-rate is '-1': it must be a number above 0"),
        (["--learning-rate", "nan"], "--learning-rate is 'nan': it must be a number above 0"),
        (["--csv", "x" * 300, "--target", "b"], "it cannot be read: File name too long"),
        (["--csv", "", "--target", "b"], "--csv is '': there is no such file"),
        (["--dataset", "csv"], "--dataset is 'csv': give the table as --csv FILE --target COLUMN"),
        (["--output", ""], "--output is '': it must be a folder"),
        (["--colour"], "'--colour': snn recommend has no such option"),
        (["--buget=20s"], "'--buget=20s': snn recommend has no such option"),
        (["--epochs"], "--epochs needs a value: --epochs N"),
        (["--epochs", "5", "training.epochs=7"], "training.epochs is given beside --epochs"),
        (["training.epochs=5", "training.epochs=7"], "training.epochs is given twice"),
        (["training.epochs=[1,2]"], "it must be one value: strategies are compared on one training"),
        (["dataset=[small,large]"], "it must be one value"),
        (["union=[{strategy: graph}]"], "chosen by config/recommend.yaml"),
        (["on_cpu={strategy: graph}"], "chosen by config/recommend.yaml"),
        (["devices=cpu"], "chosen by config/recommend.yaml"),
        (["training.epochs=2020-01-01"], "training.epochs: 2020-01-01 is not right"),
        (["training.epochs=!!set {a}"], "training.epochs: the tag"),
        (["training.epochs=" + "9" * 5000], "training.epochs: 999"),
        (["training.epochs=" + "[" * 2000], "more than 24 levels"),
        (["training.epochs={1: 2}"], "the key 1 is not text"),
        (["training.epochs=1:30"], "training.epochs: 1:30 is not right"),
        (["--budget", "soon"], "--budget is 'soon': it must be a time, as 90s, 2min or 1h"),
        (["--budget", "-2min"], "--budget is '-2min': it must be a time, as 90s, 2min or 1h"),
        (["--budget", "-2"], "--budget is '-2': it must be a time"),
        (["--csv", "a.csv", "--target", "b", "--csv=b.csv"], "--csv is given 2 times: give it once"),
        (
            ["My wine.csv"],
            "'My wine.csv' is no setting: a table is given as --csv 'My wine.csv' --target COLUMN",
        ),
        (
            ["+training.epochs=3"],
            "a setting is replaced, with KEY=VALUE, as training.epochs=3; none is added",
        ),
        (["--budget", "5s"], "--budget is '5s': it must be from 20s"),
        (["output=mine"], "as --output"),
        (["strategy=graph"], "the strategies, the protocol and the device are chosen by"),
        (["training.epochs"], "'training.epochs' is no setting: it must be KEY=VALUE"),
        (["training.epochs=[1"], "training.epochs: a bracket is not closed"),
        (
            ["dataset.noise=,"],
            "dataset.noise: the value cannot be read: text with such characters has quotes",
        ),
        (["dataset.colour=,"], "dataset.colour: dataset=small has no such key; it has rows, "),
        (["--network", "cnn", "network.hidden=,"], "network.hidden: network=cnn has no such key"),
        (["colour=,"], "colour: there is no such key; the keys are dataset, "),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(arguments, said):
    with pytest.raises(SnnError) as error:
        parsed(arguments)
    assert said in str(error.value)


def test_a_table_needs_its_target(table):
    with pytest.raises(ConfigError, match="--csv is given without --target"):
        parsed(["--csv", str(table)])
    with pytest.raises(ConfigError, match="give one of the two"):
        parsed(["--csv", str(table), "--target", "b", "--dataset", "small"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["training.epoch=3"],
            "training.epoch: training has no such key (did you mean training.epochs?); it has",
        ),
        (["--hidden", "1000000,1000000"], "kernels count in 32 bits"),
        (["training.epochs=0"], "training.epochs is 0: it must be"),
        (["--learning-rate", "1e99"], "--learning-rate is 1e+99: it must be a number from"),
        (["--batch-size", "9999"], "--batch-size is 9999: it must be at most"),
        (["--network", "cnn", "--dataset", "small"], "choose --dataset patterns, mnist or fashion"),
        (["--dataset", "idx"], "dataset.path is missing: dataset=idx needs it: add dataset.path=..."),
        (["--device", "NVIDIA H300"], "neither here nor known"),
        (["--device", "t4"], "neither here nor known (did you mean 'Tesla T4'?): it must be auto"),
        (["--device", "h100"], "mean 'NVIDIA H100 80GB HBM3' or 'NVIDIA H100 PCIe'?): it must be auto"),
        (["--device", "gpu"], "neither here nor known: it must be auto, cuda, cpu or one of NVIDIA A100"),
        (["--output", "/proc/nothing"], "--output is '/proc/nothing': a folder of the system"),
        (["--output", "mine.csv"], "--output is 'mine.csv': it is a file, and must be a folder"),
        (["--output", "mine.csv/x"], "--output is 'mine.csv/x': no file can be written there"),
        (["--output", "x" * 300], "no file can be written there: File name too long"),
        (["--csv", ".", "--target", "b"], "it is a folder, not a file"),
        ([*MINE, "--target", "c"], "mine.csv: --target is 'c', which is not in the header: a, b, kind, one"),
        ([*MINE, "--target", "9"], "mine.csv: --target is 9: it must be between -4 and 3"),
        ([*MINE, "--target", "b"], "column 'kind': 'x' is not a number, "),
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
        ([*MINE, "--target", "b", *AWAY], "column 'kind': 'x' is not a number, "),
        (
            [*MINE, "--target", "one", "--classify", NUMBERS[-1]],
            "column 'one' of mine.csv has one class",
        ),
        ([*MINE, *KIND, "network.layers=[linear 3]"], "network.layers is given beside --classify"),
        ([*MINE, *KIND, "dataset.colour=1"], "dataset.colour: dataset=csv has no such key"),
        ([*MINE, *KIND, "dataset.header=maybe"], "dataset.header is 'maybe': it must be true, false"),
        ([*MINE, "--target", "real", "--classify"], "--target is 'real', which is not in the header"),
        ([*MINE, *NUMBERS, "--batch-size", "8", "--output", "out"], "this file is an input"),
    ],
)
def test_what_a_grid_refuses_is_said_without_the_grid(arguments, said, tmp_path, monkeypatch, capsys):
    """Nothing runs before the settings are right."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{i % 5},{'xyz'[i % 3]},7\n" for i in range(30))
    (tmp_path / "mine.csv").write_text(f"a,b,kind,one\n{rows}")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/ranking.csv").symlink_to(tmp_path / "mine.csv")
    for module in (grid_file, recommend, recommend.workflow, recommend.measured):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(recommend.pilot, "run", lambda *a: pytest.fail("a pilot was started"))
    given = arguments if "--device" in arguments else ["--device", "cpu", *arguments]
    assert recommend.main(given) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("snn: ") and said in line and "sweeps.recommend" not in line, line


def test_settings_may_stand_anywhere(table):
    found = parsed(["training.epochs=5", "--csv", str(table), "training.reduction=sum", "--target", "b"])
    assert (found.grid["training.epochs"], found.grid["training.reduction"]) == (5, "sum")
    assert found.keys == {"training.epochs", "training.reduction"}
    assert (
        parsed(["--csv", str(table), "--target", "b", "training.batch_size=8"]).grid["training.batch_size"]
        == 8
    )


def test_a_path_is_of_the_folder_where_the_command_was_started(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    grid = parsed(["--dataset", "idx", "dataset.path=images"]).grid
    assert grid["dataset.path"] == str(tmp_path / "images")
