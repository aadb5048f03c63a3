"""Sweeps of a grid with wrong names or values, or too many cells: refused soon, in one line."""

import re

import pytest
import yaml
from test_grid import sweeps_of
from test_hostile_grids import refusal, written

from snn.config import sizes
from snn.errors import ConfigError
from snn.grid import catalogue, naming
from snn.grid import sweeps as grid


@pytest.mark.parametrize(
    "name",
    [
        "1",
        "2020-01-01",
        "a" * 240,
        "a" * 65,
        "opening",
        "abc\n",
        "Abc",
        "_a",
        "a-b",
        "a/b",
        "",
        " ",
        "../../../x",
        "caf\u00e9",
        "a\u0663",
        "gpu",
        "overview",
        "speedup",
        "ranking",
    ],
    ids=repr,
)
def test_a_name_that_is_none_of_a_sweep(tmp_path, name):
    with pytest.raises(ConfigError, match=r"sweeps"):
        catalogue.check_name(name)
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {name: {}}}))
    assert "sweep" in refusal(path)


@pytest.mark.parametrize("name", [1, True, None, 1.5, ("a",), ["a"], b"a", {"a": 1}])
def test_a_name_that_is_no_text(name):
    with pytest.raises(ConfigError, match="is not the name of a sweep"):
        catalogue.check_name(name)


def test_names_of_sweeps(tmp_path):
    names = ["a", "a1_b", "x" * 64, "neurons", "sweep", "on_host", "null_0"]
    for name in names:
        catalogue.check_name(name)
    assert set(sweeps_of(tmp_path, {name: {} for name in names if name != "neurons"})) == set(names) - {
        "neurons"
    }


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"kernel.block": 16}, "kernel.block is 16: it must be the block size [x, y]"),
        ({"kernel.block": [16, 16, 16]}, "kernel.block is [16, 16, 16]"),
        ({"kernel.block": [[16, 16], 16]}, "kernel.block is 16"),
        ({"kernel.block": ["16", "16"]}, "kernel.block is ['16', '16']"),
        ({"kernel.block": [1, 2000]}, "kernel.block is [1, 2000]"),
        ({"kernel.block": None}, "kernel.block is None"),
        ({"kernel": "tiled_fused", "kernel.work": 3}, "kernel.work is 3"),
        ({"kernel.name": "tiled"}, "kernel.name cannot be set, for it is part of kernel=naive"),
        ({"kernel.source": "x.cu"}, "kernel.source cannot be set"),
        ({"kernel.fused": True}, "kernel.fused cannot be set"),
        ({"kernel.precisions": ["bf16"]}, "kernel.precisions cannot be set"),
        ({"dataset.name": "large"}, "dataset.name cannot be set, for it is part of dataset=small"),
        ({"strategy.name": "combined"}, "strategy.name cannot be set"),
        ({"strategy._target_": "os.system"}, "'strategy._target_' is not a key here"),
        ({"precision.name": "bf16"}, "'precision.name' is not a key here"),
        ({"device.name": "x"}, "'device.name' is not a key here"),
        (
            {"dataset": "csv", "dataset.path": "${oc.env:HOME}/x", "dataset.target": 0},
            "there is no interpolation",
        ),
        ({"dataset": "csv", "dataset.path": "a\nb", "dataset.target": 0}, "without control characters"),
        ({"dataset": "csv", "dataset.path": "a\x00b", "dataset.target": 0}, "without control characters"),
        ({"dataset": "csv", "dataset.path": "x" * 5000, "dataset.target": 0}, "at most 4096 characters"),
        ({"dataset": "csv", "dataset.path": "", "dataset.target": 0}, "dataset.path is ''"),
        (
            {"dataset": "csv", "dataset.path": 3, "dataset.target": 0},
            "dataset.path is 3: it must be the path",
        ),
        ({"dataset": "csv", "dataset.path": "x", "dataset.target": True}, "dataset.target is True"),
        ({"dataset": "csv", "dataset.path": "x", "dataset.target": 0, "dataset.delimiter": "1"}, "is '1'"),
        ({"dataset.rows": 10**17}, "dataset.rows is 100000000000000000: it must be a whole number from 1 to"),
        ({"dataset.rows": True}, "dataset.rows is True"),
        ({"dataset.rows": None}, "dataset.rows is None"),
        ({"dataset.rows": 256.0}, "dataset.rows is 256.0: it must be a whole number"),
        ({"dataset.rows": {"a": 1}}, "{'a': 1} is not right: it must be text, a number"),
        ({"dataset.noise": True}, "dataset.noise is True"),
        ({"network.hidden": [10**12]}, "network.hidden is [1000000000000]"),
        ({"network.hidden": [256] * 1000}, "it must be of fewer layers"),
        ({"network.seed": 2**32}, "network.seed is 4294967296"),
        ({"network.seed": True}, "True is not right: it must be a whole number"),
        ({"network.seed": None}, "None is not right: it must be a whole number"),
        (
            {"training.epochs": 10**17},
            "training.epochs is 100000000000000000: it must be a whole number from 1",
        ),
        ({"training.epochs": 1.0}, "training.epochs is 1.0: it must be a whole number"),
        ({"training.learning_rate": 1e308}, "training.learning_rate is 1e+308"),
        ({"training.learning_rate": 1e-320}, "in float32"),
        ({"training.learning_rate": True}, "True is not right: it must be a number above 0"),
        ({"protocol.runs": 10**12}, "protocol.runs is 1000000000000"),
        ({"protocol.rounds": 10**12}, "protocol.rounds is 1000000000000"),
        ({"protocol.max_seconds": 1e-300}, "a number from 0.001 to 86400"),
        ({"strategy": "ensemble", "strategy.seeds": [[1], [True]]}, "strategy.seeds is [True]"),
        ({"strategy": "ensemble", "strategy.seeds": list(range(1, 1000))}, "at most 512 elements"),
        ({"strategy": "ensemble", "strategy.starts": 10**17}, "strategy.starts is 100000000000000000"),
        (
            {"network": "layers", "network.layers": ["linear " + "9" * 4000]},
            "is not right: it must be linear WIDTH",
        ),
        ({"network": "layers", "network.layers": ["linear \u0663", "linear 1"]}, "is not right"),
        ({"network.hidden": {"a": 1}}, "is not right: it must be the hidden widths"),
        ({"union": []}, "[] is not right: it must be a list of products"),
        ({"union": [[]]}, "[] is not right: it must be settings"),
    ],
)
def test_a_sweep_with_a_wrong_value(tmp_path, sweep, said):
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"x": sweep}}))
    shown = refusal(path)
    assert "sweeps.x" in shown
    assert said in shown


SEEDS = list(range(1, 401))


@pytest.mark.parametrize(
    ("sweeps", "count"),
    [
        ({"x": {"network.seed": SEEDS, "dataset.seed": SEEDS}}, 160_000),
        (
            {"x": dict.fromkeys(("network.seed", "dataset.seed", "training.epochs", "protocol.runs"), SEEDS)},
            400**4,
        ),
        ({"x": {"union": [{"network.seed": SEEDS, "dataset.seed": SEEDS[:200]}] * 2}}, 160_000),
        ({name: {"network.seed": SEEDS, "dataset.seed": SEEDS[:200]} for name in ("w", "x")}, 160_000),
    ],
)
def test_cells_are_counted_before_they_are_made(tmp_path, monkeypatch, sweeps, count):
    monkeypatch.setattr(grid, "_expand", lambda name, *rest: grid.Sweep(name, (), {}))
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": sweeps}))
    said = refusal(path)
    assert f"sweeps.x: with this sweep the grid has {count} cells: it may have 100000" in said


def test_a_long_list_with_a_value_twice_is_found_soon(tmp_path):
    values = [*range(1, 50_000), "text", 1]
    path = written(tmp_path, f"sweeps: {{x: {{network.seed: {values}}}}}".replace("'text'", "text"))
    assert "network.seed" in refusal(path)


def test_a_cell_too_large_for_this_machine_is_refused_when_it_is_planned_here(tmp_path, monkeypatch):
    sweeps = sweeps_of(tmp_path, {"x": {"dataset.rows": [1000, 10**8]}})  # records of another may be read
    path = tmp_path / "grid.yaml"
    grid.check_sizes(path, sweeps_of(tmp_path, {"x": {}}))
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**9)
    with pytest.raises(
        ConfigError, match=rf"^{re.escape(str(path))}: sweeps\.x: this cell needs at least 26\.4 GB"
    ):
        grid.check_sizes(path, sweeps)


def test_a_key_that_no_workflow_reads_is_refused():
    grid.check_keys({"grid": "config/grid.yaml", "device": "cpu"})
    with pytest.raises(ConfigError, match="--config gird: there is no such key: grid, device, devices"):
        grid.check_keys({"device": "cpu", "gird": "mine.yaml"})


def test_a_digest_that_the_grid_gives_is_that_of_the_file(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    csv = {"dataset": "csv", "dataset.path": str(tmp_path / "t.csv"), "dataset.target": "y"}
    (cell,) = sweeps_of(tmp_path, {"x": csv})["x"].cells
    (same,) = sweeps_of(tmp_path, {"x": csv | {"dataset.sha256": cell["dataset"]["sha256"]}})["x"].cells
    assert naming.name_of(same) == naming.name_of(cell)
    with pytest.raises(ConfigError, match=r"dataset\.sha256 is '0000.* it has changed"):
        sweeps_of(tmp_path, {"x": csv | {"dataset.sha256": "0" * 64}})
