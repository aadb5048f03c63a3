"""Grids that are refused: the error names file, key and value, and says what would be right."""

import copy

import pytest
import yaml
from test_grid import CPU, DEFAULT, sweeps_of

from snn.errors import ConfigError, DataError
from snn.grid import sweeps as grid


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (
            {"datset": "small"},
            "sweeps.x: 'datset' is not a key here (did you mean dataset?): one of dataset, network",
        ),
        (
            {"dataset.rows": 64, "strategy.x": [1], "training.epoch": 3},
            "sweeps.x: 'training.epoch' is not a key here (did you mean training.epochs?): one of dataset, ",
        ),
        (
            {"datset": "small"},
            ", or a key of the data set, strategy or kernel that is chosen, as dataset.rows",
        ),
        (
            {"dataset": "smal"},
            "sweeps.x.dataset: 'smal' is not a choice (did you mean small?): one of csv, fashion, idx",
        ),
        ({"dataset": ["small", "smal"]}, "sweeps.x.dataset.1: 'smal' is not a choice"),
        ({"dataset": ["small", "small"]}, "holds a value twice"),
        ({"dataset": []}, "sweeps.x.dataset"),
        ({"network.hidden": 256}, "the hidden widths of one network, as [256]"),
        ({"network.hidden": [0]}, "sweeps.x.network.hidden.0: 0 is not right: it must be a width"),
        ({"network.hidden": [[3], [0]]}, "sweeps.x.network.hidden.1.0: 0"),
        ({"network.layers": "relu"}, "the layers of one network, as [linear 8, relu, linear 1]"),
        ({"network": "layers", "network.layers": [["linear 1"], ["tanh"]]}, "'tanh' is not a layer"),
        ({"network": "layers", "network.loss": "mse"}, "network.loss is 'mse': it must be"),
        (
            {"network.layers": ["relu"]},
            "network.layers: network=one_hidden has no such key (it is one of network=cnn",
        ),
        ({"network.init": "zeros"}, "'zeros' is not a choice: one of uniform01, he_uniform, kaiming_uniform"),
        ({"training.epochs": 0}, "sweeps.x.training.epochs: 0 is not right: it must be a whole number"),
        (
            {"training.batch_size": 300},
            "training.batch_size is 300: it must be at most 256, the number of rows of",
        ),
        ({"training.learning_rate": "1e-3"}, "write 1.0e-3"),
        ({"strategy.tile_rows": [64, 128]}, "strategy.tile_rows: strategy=reference has no such key"),
        ({"strategy": "streams", "strategy.tile_rows": 0}, "strategy.tile_rows is 0"),
        ({"strategy": "ensemble", "strategy.learning_rates": ["1e-3"]}, "rates is ['1e-3']: it must be"),
        ({"strategy": "ensemble", "strategy.seeds": [[1, 2], [0]]}, "strategy.seeds is [0]: it must be"),
        ({"strategy": "streams", "strategy.tile_rows": []}, "strategy.tile_rows is []: it must be a value"),
        ({"strategy": "torch_compile", "strategy.mode": "max-autotune"}, "strategy.mode is 'max-autotune': "),
        ({"dataset": "csv"}, "sweeps.x: dataset.path and dataset.target are missing"),
        (
            {"on_cpu": {"dataset": "smal"}},
            "sweeps.x.on_cpu.dataset: 'smal' is not a choice (did you mean small?)",
        ),
        ({"on_cpu": []}, "sweeps.x.on_cpu: [] is not right: it must be settings, each a key with its value"),
        (
            {"union": [{"on_cpu": {"on_cpu": {}}}]},
            "sweeps.x.union.0.on_cpu: 'on_cpu' is not right: it must be a setting, as training.epochs: "
            "on_cpu and devices stand in a sweep, or beside defaults",
        ),
        ({"on_cpu": {"training.epochs": 0}}, "sweeps.x.on_cpu.training.epochs: 0 is not right"),
        (
            {"training.gradient": "published"},
            "'published' is not a choice (did you mean published_naive?): one of exact, published_naive",
        ),
        ({"training.reduction": ["mean", "max"]}, "training.reduction.1: 'max' is not a choice: one of mean"),
        ({"training.drop_last": 1}, "sweeps.x.training.drop_last: 1 is not right: it must be true or false"),
        (None, "sweeps.x"),
    ],
)
def test_refuses_a_sweep(tmp_path, sweep, said):
    with pytest.raises(ConfigError) as caught:
        sweeps_of(tmp_path, {"x": sweep})
    assert str(tmp_path / "grid.yaml") in str(caught.value)
    assert said in str(caught.value)


def test_refuses_a_missing_csv(tmp_path):
    sweep = {"dataset": "csv", "dataset.path": str(tmp_path / "none.csv"), "dataset.target": "y"}
    with pytest.raises(DataError, match=r"sweeps\.x.*none\.csv: cannot be read"):
        sweeps_of(tmp_path, {"x": sweep})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda g: g.pop("sweeps"), "the key sweeps is missing: a grid has sweeps, as sweeps: {mine"),
        (lambda g: g.update(sweeps={}), "one or more sweeps"),
        (
            lambda g: g.update(device="gpu"),
            "device: 'gpu' is not a choice (did you mean cuda?): one of auto, cpu, cuda",
        ),
        (lambda g: g["sweeps"].update(speedup={}), "taken by a table or figure"),
        (lambda g: g["sweeps"]["neurons"].update(strategy="combined"), "reference is missing: neurons.csv"),
        (lambda g: g["sweeps"]["neurons"].update(strategy="reference"), "combined is missing: neurons.csv"),
        (lambda g: g["sweeps"]["dataset_size"].update(dataset="large"), "small is missing: correctness.csv"),
        (lambda g: g["sweeps"].update(time_by_depth={}), "taken by a table or figure"),
        (
            lambda g: g["sweeps"]["neurons"].update(dataset=["small", "large"]),
            "2 cells are reference with 128, neurons.csv has room for one",
        ),
        (
            lambda g: g["sweeps"]["dataset_size"].update({"training.epochs": [1, 2]}),
            "2 cells are reference with small, correctness.csv has room for one",
        ),
        (
            lambda g: g["sweeps"]["cpu"]["union"].append({"strategy": "ensemble"}),
            "strategy: a run of ensemble trains several networks, and times in cpu.csv are of one",
        ),
        (
            lambda g: g["sweeps"].update(cnn_programs={"strategy": "reference"}),
            "dataset: small has no test rows, and cnn_programs.csv shows the accuracy on them",
        ),
        (
            lambda g: g["sweeps"].update(cnn_block_size={"dataset": "patterns"}),
            "network: 256 is not trained with cross_entropy, and cnn_block_size.csv shows accuracies",
        ),
        (
            lambda g: g["sweeps"].update(cnn_loader={"dataset": "patterns", "network": "cnn"}),
            "strategy: torch_loader is missing: cnn_loader.csv is about it",
        ),
        (lambda g: g["sweeps"].update(cnn_block_epochs={}), "taken by a table or figure"),
        (lambda g: g.update(on_gpu={}), "'on_gpu' is not a key here"),
        (
            lambda g: g.setdefault("microbenchmarks", {}).update(batches={"strategy": "reference"}),
            "microbenchmarks: 'batches' is not a key here (a sweep stands under sweeps, which ends before ",
        ),
        (lambda g: g["defaults"].update(on_cpu={}), "defaults: 'on_cpu' is not right: it must be a setting"),
    ],
)
def test_refuses_a_grid(tmp_path, change, said):
    changed = copy.deepcopy(DEFAULT)
    change(changed)
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(changed))
    with pytest.raises(ConfigError) as caught:
        grid.read(path, CPU)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sweeps:\n  a: {}\n  a: {}\n", "line 3: sweeps: the key 'a' appears twice"),
        ("sweeps: [\n", "line 1: 'sweeps: [': a value or a closing bracket is missing"),
        ("", "None is not right: it must be the keys device or devices, defaults"),
    ],
)
def test_refuses_bad_yaml(tmp_path, text, said):
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        grid.read(path, CPU)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_grid(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        grid.read(tmp_path / "none.yaml", CPU)
