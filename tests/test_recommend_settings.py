"""The command line of `snn recommend`: what its options mean, and what is refused."""

import pytest

from snn import recommend
from snn.errors import ConfigError
from snn.recommending import grid_file
from snn.recommending.settings import parsed


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


def test_the_papers_network_keeps_its_weights():
    assert parsed([]).grid == {}
    assert parsed(["--dataset", "large"]).grid == {"dataset": "large"}
    assert parsed(["--network", "cnn"]).grid == {"network": "cnn"}
    assert parsed(["--hidden", "8"]).grid == {"network": "mlp", "network.hidden": [[8]]}


def test_classes_become_outputs(table):
    table.write_text("a,b,kind\n" + "".join(f"{i},{i % 5},{'xyz'[i % 3]}\n" for i in range(30)))
    asked = ["--csv", str(table), "--target", "kind", "--classify"]
    grid = parsed([*asked, "--hidden", "8,4"]).grid
    assert grid["network.layers"] == [["linear 8", "relu", "linear 4", "relu", "linear 3"]]
    assert (grid["network"], grid["network.loss"]) == ("layers", "cross_entropy")
    assert "network.hidden" not in grid
    assert parsed(asked).grid["network.layers"][0][-1] == "linear 3"
    with pytest.raises(ConfigError, match="--classify is given beside --network cnn"):
        parsed([*asked, "--network", "cnn"])
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
        (["--network", "cnm"], "--network is 'cnm': it must be one of"),
        (["--hidden", "64,x"], "--hidden is '64,x': it must be widths"),
        (["--hidden", "0"], "--hidden is '0'"),
        (["--epochs", "ten"], "--epochs is 'ten': it must be a number"),
        (["--budget", "soon"], "--budget is 'soon': it must be a time, as 90s, 2min or 1h"),
        (["--budget", "5s"], "--budget is '5s': it must be from 20s"),
        (["strategy=graph"], "the strategies, the protocol and the device are chosen by"),
        (["training.epochs"], "'training.epochs' is no setting: it must be KEY=VALUE"),
        (["training.epochs=[1"], "cannot be read as YAML"),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(arguments, said):
    with pytest.raises(ConfigError) as error:
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
        (["training.epoch=3"], "training.epoch"),
        (["--hidden", "1000000,1000000"], "kernels count in 32 bits"),
        (["--epochs", "0"], "training.epochs: 0 is not right: it must be"),
        (["--learning-rate", "-1"], "training.learning_rate: -1 is not right: it must be"),
        (["--hidden", "9999999"], "network.hidden is [9999999]: it must be"),
        (["--device", "NVIDIA H300"], "neither here nor published"),
        (["--output", "/proc/nothing"], "--output is"),
    ],
)
def test_what_a_grid_refuses_is_said_without_the_grid(arguments, said, tmp_path, monkeypatch, capsys):
    """Nothing runs before the settings are right."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(grid_file, "ROOT", tmp_path)
    monkeypatch.setattr(recommend.pilot, "run", lambda *a: pytest.fail("a pilot was started"))
    given = arguments if "NVIDIA H300" in arguments else ["--device", "cpu", *arguments]
    assert recommend.main(given) == 2
    said_by_it = capsys.readouterr().err.splitlines()[-1]
    assert said in said_by_it and "sweeps.recommend" not in said_by_it, said_by_it
