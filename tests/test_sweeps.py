"""Sweeps of small grids: their products, their limits, and what is handed to the command line."""

import hashlib
import re

import pytest
import yaml
from conftest import ROOT

from snn.config import groups
from snn.config.overrides import written
from snn.errors import ConfigError
from snn.grid import sweeps
from snn.grid.catalogue import TABLES
from snn.hardware.devices import Device

GPU, CPU = Device("cuda", "NVIDIA H200"), Device("cpu", "AMD EPYC")


@pytest.fixture
def read(tmp_path):
    """The sweeps of a grid, for a device."""

    def sweeps_of(device=GPU, host=CPU, **grid):
        path = tmp_path / "grid.yaml"
        path.write_text(yaml.safe_dump(grid, sort_keys=False))
        return sweeps.read(path, device, host)

    return sweeps_of


def refused(do, *arguments, **named):
    with pytest.raises(ConfigError) as caught:
        do(*arguments, **named)
    return str(caught.value)


def test_axes_are_the_keys_that_take_several_values(read):
    found = read(
        sweeps={
            "x": {"strategy": ["reference", "pinned"], "dataset": "small", "network.seed": [1, 2]},
            "y": {"union": [{"strategy": "pinned"}, {"strategy": "pinned", "network.seed": 2}]},
        }
    )
    assert found["x"].axes == ("strategy", "network.seed")
    assert [(one["strategy"]["name"], one["network"]["seed"]) for one in found["x"].cells] == [
        *(("reference", 1), ("reference", 2), ("pinned", 1), ("pinned", 2))
    ]
    assert found["y"].axes == ("network.seed",)
    assert found["x"].cells == tuple(found["x"].named.values())


def test_what_is_common_is_overridden_by_the_processors_and_by_the_sweep(read):
    grid = {"defaults": {"training.epochs": 3, "network.seed": 4}, "on_cpu": {"training.epochs": 5}}
    grid["sweeps"] = {"x": {}, "y": {"training.epochs": 7}}
    for device, epochs in ((GPU, 3), (CPU, 5)):
        found = read(device, **grid)
        assert [found[name].cells[0]["training"]["epochs"] for name in "xy"] == [epochs, 7]
        assert found["x"].cells[0]["network"]["seed"] == 4
    assert read(sweeps={"x": {}})["x"].cells[0]["device"] == {"backend": "cuda", "name": "NVIDIA H200"}


def test_strategies_of_the_host_are_on_the_given_one_or_on_the_device_or_on_this_machine(read, monkeypatch):
    grid = {"sweeps": {"x": {"strategy": ["reference", "sequential"]}}}

    def devices(*arguments):
        return [one["device"]["name"] for one in read(*arguments, **grid)["x"].cells]

    monkeypatch.setattr(sweeps, "find", lambda backend: {"cpu": Device("cpu", "Abacus")}[backend])
    assert devices(GPU, CPU) == ["NVIDIA H200", "AMD EPYC"]
    assert devices(GPU, None) == ["NVIDIA H200", "Abacus"]
    assert devices(CPU, None) == ["AMD EPYC", "AMD EPYC"]


def test_a_grid_has_at_most_so_many_cells(read, monkeypatch):
    assert sweeps.MOST_CELLS == 100_000
    assert "100,000 cells" in " ".join((ROOT / "config/README.md").read_text().split())
    monkeypatch.setattr(sweeps, "MOST_CELLS", 5)
    grid = {"x": {"network.seed": [1, 2, 3]}, "y": {"network.seed": [1, 2]}}
    assert len(sweeps.all_cells(read(sweeps=grid))) == 3
    said = refused(read, sweeps=grid | {"z": {}})
    assert "sweeps.z: with this sweep the grid has 6 cells: it may have 5, for each is a job of the" in said
    assert "the grid has 6 cells" in refused(read, sweeps={"x": {"union": [{"network.seed": [1, 2, 3]}] * 2}})


def test_one_data_set_is_named_once(read, monkeypatch):
    asked = []
    monkeypatch.setattr(
        sweeps, "dataset_path", lambda cell: asked.append(cell) or str(cell["dataset"]["seed"])
    )
    read(sweeps={"x": {"network.seed": [1, 2], "dataset.seed": [1, 2, 3]}, "y": {"dataset.seed": 2}})
    assert len(asked) == 3


def test_a_table_has_the_cells_of_its_sweep_and_of_those_beside_it(read):
    found = read(
        sweeps={
            "dataset_size": {"dataset": ["small", "large"]},
            "strategies": {"dataset": ["small", "medium"], "strategy": ["pinned"]},
            "mine": {"strategy": "streams"},
        }
    )

    def cells(table):
        return [
            (one["dataset"]["name"], one["strategy"]["name"])
            for one in sweeps.cells_of(table, found).values()
        ]

    assert cells("correctness") == [("small", "reference"), ("small", "pinned")]
    assert cells("speedup") == [("small", "reference"), ("large", "reference")]
    assert cells("timeline") == [("small", "reference")]
    assert cells("mine") == [("small", "streams")]
    assert cells("dataset_size") == [("small", "reference"), ("large", "reference")]
    assert cells("depth") == cells("other") == []
    del found["dataset_size"]
    assert cells("correctness") == []
    assert len(sweeps.all_cells(found)) == 3


def test_overrides_are_what_differs_from_the_files(read):
    (cell,) = read(sweeps={"x": {"strategy": "streams", "strategy.tile_rows": 7, "network.clip_norm": 2.5}})[
        "x"
    ].cells
    assert sweeps.overrides(cell) == [
        *("dataset=small", "strategy=streams", "kernel=naive", "precision=fp32", "device=cuda"),
        *("device.name='NVIDIA H200'", "network.clip_norm=2.5", "strategy.tile_rows=7"),
    ]
    layers = {"network": "layers", "network.layers": ["linear 2", "relu", "linear 1"], "training.epochs": 3}
    (cell,) = read(CPU, sweeps={"x": layers})["x"].cells
    found = sweeps.overrides(cell)
    assert found[4] == "device=cpu" and found[5].startswith("network=")
    keys = groups.load("network", found[5].removeprefix("network=")).keys()
    assert keys == groups.load("network", "layers").keys()
    assert "network.layers=['linear 2','relu','linear 1']" in found and "training.epochs=3" in found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (0.5, "0.5"),
        ("a b", "'a b'"),
        ("", "''"),
        ("it's", r"'it\'s'"),
        ("a\\", r"'a\\'"),
        ("a\\b", r"'a\b'"),
        ("a\\'b", r"'a\\\'b'"),
        ([1, "x", [None]], "[1,'x',[null]]"),
        ([], "[]"),
    ],
)
def test_values_in_the_grammar_of_hydra(value, text):
    assert written(value) == text


@pytest.mark.parametrize(
    ("key", "value", "axis"),
    [
        ("network.hidden", [3, 4], [[3, 4]]),
        ("network.hidden", [[3], [4]], [[3], [4]]),
        ("network.hidden", [], [[]]),
        ("training.epochs", 3, [3]),
        ("training.epochs", [3, 4], [3, 4]),
    ],
)
def test_the_values_of_an_axis(key, value, axis):
    assert sweeps._axis(key, value) == axis


def test_an_axis_has_a_value():
    said = refused(sweeps._axis, "training.epochs", [])
    assert said == "training.epochs is []: it must be a value, or a list of one or more"


def test_a_digest_is_that_of_the_file(read, tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n")
    csv = {"dataset": "csv", "dataset.path": str(tmp_path / "t.csv"), "dataset.target": "y"}
    found = hashlib.sha256((tmp_path / "t.csv").read_bytes()).hexdigest()
    (cell,) = read(sweeps={"x": csv})["x"].cells
    assert cell["dataset"]["sha256"] == found
    said = refused(read, sweeps={"x": csv | {"dataset.sha256": "0" * 64}})
    assert f"dataset.sha256 is '{'0' * 64}', but {tmp_path / 't.csv'} has {found}: it has changed" in said
    assert "sha256" not in read(sweeps={"x": {}})["x"].cells[0]["dataset"]


def test_keys_that_no_workflow_reads():
    sweeps.check_keys({})
    sweeps.check_keys({"grid": 1, "device": 2})
    assert (
        refused(sweeps.check_keys, {"grid": 1, "b": 2, "a": 3})
        == "--config b: there is no such key: grid, device, devices, folder"
    )


def test_a_table_is_given_published_values_where_there_are_some():
    folders = ("paper", "cnn_report")
    there = {
        path.relative_to(groups.ROOT).as_posix()
        for name in folders
        for path in (groups.CONFIG / name).glob("*.yaml")
    }
    given = {table.published for table in TABLES.values() if table.published}
    of_tables = {path for path in there if path.rpartition("/")[2].removesuffix(".yaml") in TABLES}
    assert of_tables <= given <= there


# ---- cells and their names: two with one name are never taken for one


@pytest.mark.parametrize(
    "grid",
    [
        {"x": {"network.seed": [*range(1, 18)]}},
        {f"x{seed}": {"network.seed": seed} for seed in range(1, 18)},
        {"x": {"dataset.seed": [*range(1, 18)], "strategy": "pinned"}},
    ],
    ids=["of a sweep", "of several", "and data sets"],
)
def test_two_cells_of_one_name_are_refused(read, monkeypatch, grid):
    """With digests of one digit, seventeen cells must share some."""
    digest = hashlib.sha256
    monkeypatch.setattr("snn.config.cell.digest", lambda values: digest(repr(values).encode()).hexdigest()[0])
    said = refused(read, sweeps=grid)
    assert re.search(r"sweeps\.\w+: two different cells have the name nvidia-h200/small/256/\w+-naive-", said)
    assert said.count("'seed': ") == 4


def test_two_data_sets_of_one_name_are_refused(read, monkeypatch):
    monkeypatch.setattr(sweeps, "dataset_path", lambda cell: "results/datasets/small-0.npy")
    said = refused(read, sweeps={"x": {"dataset.seed": [1, 2]}})
    assert "have the name results/datasets/small-0.npy" in said
    read(sweeps={"x": {"network.seed": [1, 2]}})


def test_equal_cells_of_one_sweep_or_of_several_are_one(read):
    twice = {"union": [{"network.seed": [1, 2]}, {"network.seed": [2, 3]}]}
    found = read(sweeps={"x": twice, "y": {"network.seed": [3, 1]}})
    assert [len(sweep.cells) for sweep in found.values()] == [3, 2]
    cells = sweeps.all_cells(found)
    assert len(cells) == 3 and all(len(name.rpartition("-")[2]) == 16 for name in cells)


REAL = {
    "dataset.noise": 1,
    "network.clip_norm": 5,
    "training.learning_rate": 1,
    "protocol.max_seconds": 60,
    "protocol.relative_error": 1,
    "protocol.warmup_seconds": 1,
    "protocol.max_warmup_seconds": 4,
}


@pytest.mark.parametrize("key", REAL)
def test_a_real_number_may_be_written_whole(read, key):
    found = read(sweeps={"x": {key: [REAL[key]]}, "y": {key: [float(REAL[key])]}})
    assert found["x"].named.keys() == found["y"].named.keys()
    section, _, leaf = key.partition(".")
    assert [type(one.cells[0][section][leaf]) for one in found.values()] == [float, float]
