"""The grid: cells from sweeps, which a command line composes again."""

import copy
import json
import re
import shlex
import sys
from functools import cache

import jsonschema
import pytest
import yaml
from conftest import ROOT, STRATEGIES
from hypothesis import given, settings
from hypothesis import strategies as st
from strangers import CPUS, GPUS
from test_unsupported import ON_CPU

from snn.config import compose, groups
from snn.config.cell import SECTIONS, Cell
from snn.config.groups import read_yaml
from snn.errors import ConfigError
from snn.grid import naming
from snn.grid import sweeps as grid
from snn.hardware.devices import Device
from snn.strategies.factory import on_host

sys.path.insert(0, str(ROOT / "scripts"))

import grid_schema

CPU = Device("cpu", "AMD EPYC")
GPU = Device("cuda", "NVIDIA H200", "GPU-1", "580")
DEFAULT = yaml.safe_load((ROOT / "config/grid.yaml").read_text())


def sweeps_of(tmp_path, sweeps, device=CPU, **rest):
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": sweeps, **rest}))
    return grid.read(path, device)


@cache
def whole(device, host=None):
    """The sweeps of config/grid.yaml."""
    return grid.read(ROOT / "config/grid.yaml", device, host)


def recomposed(cell):
    """The cell that its command line composes."""
    composed = compose.composed(shlex.split(shlex.join(grid.overrides(cell))))
    return {section: composed[section] for section in SECTIONS}


@pytest.mark.parametrize(
    "device",
    [*(Device("cpu", name) for name in CPUS.values() if name), *(Device("cuda", name) for name in GPUS)],
    ids=str,
)
def test_a_device_of_any_name_goes_through_a_command_line_and_a_path(tmp_path, device):
    (cell,) = sweeps_of(tmp_path, {"x": {"strategy": "reference"}}, device)["x"].cells
    assert recomposed(cell) == cell
    assert re.fullmatch(r"results/cells/[a-z0-9./-]+\.json", naming.record_paths(cell)[0])


def test_the_papers_grid():
    papers = {name: whole(GPU)[name] for name in ("dataset_size", "neurons", "depth")}
    assert [len(sweep.cells) for sweep in papers.values()] == [15, 6, 6]
    # 256 neurons on large stand in all three sweeps, reference and combined: they run once.
    assert len(grid.all_cells(papers)) == 15 + 4 + 4
    clipping = {cell.network: cell["network"]["clip_norm"] for cell in papers["depth"].cells}
    assert clipping == {"256": None, "256-256": 5.0, "256-1024-256": 3.0}


def test_the_cpu_has_its_own_protocol():
    for device, seconds in ((CPU, 10), (GPU, 90)):
        assert {cell["protocol"]["max_seconds"] for cell in whole(device)["neurons"].cells} == {seconds}


def test_a_sweep_and_each_of_its_products_has_settings_of_its_own_on_the_cpu(tmp_path):
    """They replace what stands beside them; what stands deeper stays, unless they bring a union."""
    given = {
        "training.epochs": 9,
        "training.batch_size": 16,
        "on_cpu": {"training.epochs": 2, "network.hidden": [4]},
        "union": [
            {"strategy": "reference", "training.batch_size": 8, "on_cpu": {"strategy": "pinned"}},
            {"strategy": "streams", "training.epochs": 5, "on_cpu": {"strategy.tile_rows": 64}},
        ],
    }

    def found(device, **rest):
        cells = sweeps_of(tmp_path, {"x": given | rest}, device, on_cpu={"training.epochs": 3})["x"].cells
        return [(cell.strategy, cell.epochs, cell.batch_size) for cell in cells]

    assert found(GPU) == [("reference", 9, 8), ("streams", 5, 16)]
    assert found(CPU) == [("pinned", 2, 8), ("streams", 5, 16)]
    cells = sweeps_of(tmp_path, {"x": given}, CPU)["x"].cells
    assert [cell["network"]["hidden"] for cell in cells] == [[4], [4]]
    assert cells[1]["strategy"]["tile_rows"] == 64
    replaced = given["on_cpu"] | {"union": [{"strategy": "combined"}]}
    assert found(CPU, on_cpu=replaced) == [("combined", 2, 16)]
    assert found(GPU, on_cpu=replaced) == found(GPU)


def test_the_cnn_reports_sweeps_are_of_few_images_on_the_cpu():
    """Nothing is downloaded, and no run takes longer than a few seconds."""
    cells = [cell for name, one in whole(CPU).items() if name.startswith("cnn_") for cell in one.cells]
    assert cells
    for cell in cells:
        assert cell.dataset == "patterns" and cell["dataset"]["rows"] <= 512
        assert cell.epochs <= 2 and cell["protocol"]["runs"] <= 2


def test_every_choice_is_in_a_sweep():
    cells = grid.all_cells(whole(GPU)).values()
    for group in ("strategy", "kernel", "precision"):
        assert set(groups.names(group)) <= {cell[group]["name"] for cell in cells}
    # A share of a launch is not ranked beside a training.
    ranked = {cell.strategy for cell in whole(GPU)["strategies"].cells}
    assert set(STRATEGIES) - {"ensemble"} <= ranked and "ensemble" not in ranked


@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_every_strategy_is_a_candidate_where_it_can_train(backend):
    """Of snn recommend --all."""
    products = read_yaml(ROOT / "config/recommend.yaml")["candidates"][backend]["all"]
    gpu_cannot = {name for name in STRATEGIES if on_host(groups.load("strategy", name))}
    cannot = ON_CPU if backend == "cpu" else gpu_cannot
    expected = set(STRATEGIES) - {"ensemble", *cannot}
    assert {name for product in products for name in product["strategy"]} == expected


def test_the_host_has_its_baselines_beside_a_gpu():
    devices = {cell.strategy: cell.device.name for cell in whole(GPU, CPU)["cpu"].cells}
    on_cpu = {name for name, device in devices.items() if device == CPU.name}
    assert on_cpu == {"sequential", "threads", "blas"} and set(devices.values()) == {CPU.name, GPU.name}


def test_hydra_composes_the_very_same_cell():
    seen = set()
    for cell in sorted(grid.all_cells(whole(GPU, CPU)).values(), key=lambda cell: -len(grid.overrides(cell))):
        overrides = [one for one in grid.overrides(cell) if "seed" not in one]
        if not seen.issuperset(overrides):  # each override once: composing takes its time
            seen.update(grid.overrides(cell))
            assert recomposed(cell) == cell


@settings(max_examples=10)
@given(
    hidden=st.lists(st.integers(1, 2000), min_size=1, max_size=3),
    clip_norm=st.none() | st.integers(1, 9) | st.floats(0.1, 9),
    learning_rate=st.floats(1e-6, 10),
    epochs=st.integers(1, 500),
    rows=st.integers(1, 512),
)
def test_any_cell_survives_the_command_line(tmp_path_factory, hidden, clip_norm, learning_rate, epochs, rows):
    sweep = {"strategy": "streams", "strategy.tile_rows": rows, "network.hidden": hidden}
    sweep |= {"network.clip_norm": clip_norm, "training.learning_rate": learning_rate}
    folder = tmp_path_factory.mktemp("g")
    (cell,) = sweeps_of(folder, {"x": sweep | {"training.epochs": epochs}})["x"].cells
    assert recomposed(cell) == cell


def test_networks_of_layers_are_an_axis_and_survive_the_command_line(tmp_path):
    stacks = [["linear 8", "relu", "linear 2"], ["linear 2"]]
    settings_ = {"network": "layers", "network.layers": stacks, "network.loss": "cross_entropy"}
    sweep = sweeps_of(tmp_path, {"x": settings_})["x"]
    assert sweep.axes == ("network.layers",)
    assert [cell["network"]["layers"] for cell in sweep.cells] == stacks
    assert all(recomposed(cell) == cell for cell in sweep.cells)


def test_a_list_of_rates_is_one_value_and_lists_are_an_axis(tmp_path):
    rates = {"one": [1e-4, 1e-3], "none": [], "several": [[1e-4], [1e-4, 1e-3]]}
    for name, value in rates.items():
        found = sweeps_of(tmp_path, {name: {"strategy": "ensemble", "strategy.learning_rates": value}})[name]
        expected = value if name == "several" else [value]
        assert [one["strategy"]["learning_rates"] for one in found.cells] == expected


def test_a_path_with_quotes_and_spaces_survives_the_command_line(tmp_path):
    path = tmp_path / "it's a, table = {odd}.csv"
    path.write_text("x,y\n1,2\n")
    settings_ = {"dataset": "csv", "dataset.path": str(path), "dataset.target": "y"}
    (cell,) = sweeps_of(tmp_path, {"x": settings_})["x"].cells
    assert recomposed(cell)["dataset"]["path"] == str(path)


def test_a_round_makes_a_run_or_more(tmp_path):
    (cell,) = sweeps_of(tmp_path, {"x": {"protocol.rounds": 3, "protocol.runs": 2}})["x"].cells
    assert cell["protocol"]["rounds"] == 2
    assert len(naming.record_paths(cell)) == 2
    assert compose.composed(["protocol.rounds=3", "protocol.runs=2", "round=2"])["round"] == 2


@pytest.mark.parametrize("number", ["0", "-1", "1001", "1.5", "true", "one"])
def test_a_round_beyond_the_protocols_may_be_measured_and_others_are_refused(number):
    assert compose.composed(["protocol.rounds=3", "round=4"])["round"] == 4
    with pytest.raises(ConfigError, match="round"):
        compose.composed([f"round={number}"])


def test_a_union_has_the_cells_of_all_its_products(tmp_path):
    products = [
        {"strategy": ["reference", "streams"]},
        {"dataset": "medium", "union": [{"strategy": "streams", "strategy.tile_rows": [32, 64]}]},
        {"strategy": "reference"},
    ]
    (sweep,) = sweeps_of(tmp_path, {"x": {"network": "two_hidden", "union": products}}).values()
    found = [(one.dataset, one.strategy, one["strategy"].get("tile_rows")) for one in sweep.cells]
    of_medium = [("medium", "streams", rows) for rows in (32, 64)]
    assert found == [("small", "reference", None), ("small", "streams", 128), *of_medium]
    assert {one.network for one in sweep.cells} == {"256-256"}
    assert set(sweep.axes) == {"strategy", "dataset", "strategy.tile_rows"}


def test_a_cell_is_plain_and_sorted(tmp_path):
    (cell,) = sweeps_of(tmp_path, {"x": {"dataset": "small"}})["x"].cells
    assert list(cell) == sorted(cell)
    for section in cell.values():
        assert list(section) == sorted(section)


def test_record_paths_can_be_read(tmp_path):
    (cell,) = sweeps_of(tmp_path, {"x": {"strategy": "combined", "dataset": "large"}}, GPU)["x"].cells
    first, second, *rest = naming.record_paths(cell)
    assert len(rest) == cell["protocol"]["rounds"] - 2
    assert naming.record_paths(cell, rounds=2) == [first, second, *rest]
    assert naming.record_paths(cell, rounds=12)[-1] == first.replace("round1", "round12")
    assert first.startswith("results/cells/nvidia-h200/large/256/combined-naive-")
    assert first.endswith("-round1.json")
    assert second == first.replace("round1", "round2")


def test_the_schema_for_editors_is_that_of_the_settings():
    """And config/grid.yaml fits it."""
    written = json.loads(grid_schema.PATH.read_text(encoding="utf-8"))
    assert written == grid_schema.schema(), "run scripts/grid_schema.py"
    jsonschema.Draft202012Validator.check_schema(written)
    jsonschema.validate(DEFAULT, written)
    for wrong in ({}, {"sweeps": {"x": {"epochs": 3}}}, {"sweeps": {"x": {"training.epochs": 0}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, written)


def test_a_cell_is_its_mapping_and_answers_what_is_asked_of_it(tmp_path):
    csv = {"strategy": "streams", "network": "cnn", "dataset": "patterns", "protocol.neighbour": "graph"}
    (cell,) = sweeps_of(tmp_path, {"x": csv}, GPU)["x"].cells
    assert json.loads(json.dumps(cell)) == cell == copy.deepcopy(cell)
    assert (cell.dataset, cell.strategy, cell.kernel, cell.precision) == (
        "patterns",
        "streams",
        "naive",
        "fp32",
    )
    assert cell.network == "conv16x3-relu-conv32x3-relu-maxpool2-linear10"
    assert (cell.loss, cell.task, cell.neighbour) == ("cross_entropy", "classification", "graph")
    assert (cell.batch_size, cell.epochs, [*cell.rounds]) == (256, 100, [*range(1, 11)])
    alone = cell.replace(protocol={"neighbour": "none"})
    assert (cell.strategy_beside, alone.strategy_beside) == ("graph", None)
    assert cell["protocol"]["neighbour"] == "graph" and alone.name != cell.name == naming.name_of(dict(cell))
    old = Cell({key: value for key, value in alone.items() if key != "precision"})
    assert old.precision == "fp32"
