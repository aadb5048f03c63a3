"""A grid file: its sweeps and cells for a device, their names, and any content read or refused."""

import copy
import hashlib
import json
import re
from functools import cache

import grid_schema
import jsonschema
import pytest
import yaml
from conftest import DIAGNOSTICS, FOR_SEVERAL, ROOT, STRATEGIES
from hypothesis import given, settings
from hypothesis import strategies as st
from test_strategies import ON_CPU

from snn.config import groups, sizes
from snn.config.cell import Cell
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, SnnError
from snn.grid import catalogue, naming, plans
from snn.grid import sweeps as grid
from snn.grid.grid_file import notes
from snn.hardware.devices import Device
from snn.strategies.factory import on_host

CPU = Device("cpu", "AMD EPYC")
GPU = Device("cuda", "NVIDIA H200", "GPU-1", "580")
DEFAULT = yaml.safe_load((ROOT / "config/grid.yaml").read_text())


def written(folder, content):
    path = folder / "grid.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def sweeps_of(folder, sweeps, device=CPU, host=None, **rest):
    content = yaml.safe_dump({"sweeps": sweeps, **rest}, sort_keys=False, allow_unicode=True)
    return grid.read(written(folder, content), device, host)


def one_cell(folder, sweep, device=CPU):
    (cell,) = sweeps_of(folder, {"x": sweep}, device)["x"].cells
    return cell


def test_a_peer_with_the_option_on_host_is_measured_on_the_host(tmp_path):
    sweep = {"strategy": "torch_loader", "network.update_order": "simultaneous"}
    read = sweeps_of(tmp_path, {"x": sweep | {"strategy.on_host": [True, False]}}, GPU, CPU)["x"].cells
    assert {on_host(one["strategy"]): one["device"]["backend"] for one in read} == {
        True: "cpu",
        False: "cuda",
    }


def refusal(path, error=ConfigError):
    """What a grid file is refused with after its path, in one short line."""
    with pytest.raises(error) as caught:
        grid.read(path, CPU)
    said = str(caught.value)
    assert said.startswith(str(path)) and len(said.splitlines()) == 1 and len(said) < 2000
    return said.removeprefix(str(path))


@cache
def whole(device, host=None):
    """The sweeps of config/grid.yaml."""
    return grid.read(ROOT / "config/grid.yaml", device, host)


@cache
def questions():
    """The sweeps of config/paper_questions.yaml."""
    return grid.read(ROOT / "config/paper_questions.yaml", GPU)


@cache
def several():
    """The sweeps of config/several_gpus.yaml."""
    return grid.read(ROOT / "config/several_gpus.yaml", GPU)


# ---- config/grid.yaml


def test_the_papers_grid():
    papers = {name: whole(GPU)[name] for name in ("dataset_size", "neurons", "depth")}
    assert [len(sweep.cells) for sweep in papers.values()] == [15, 6, 6]
    # 256 neurons on large stand in all three sweeps, reference and combined: they run once.
    assert len(grid.all_cells(papers)) == 15 + 4 + 4
    clipping = {cell.network: cell["network"]["clip_norm"] for cell in papers["depth"].cells}
    assert clipping == {"256": None, "256-256": 5.0, "256-1024-256": 3.0}


def test_on_the_cpu_it_is_smaller():
    """Nothing is downloaded, and no run of the CNN report takes longer than a few seconds."""
    for device, seconds in ((CPU, 10), (GPU, 90)):
        assert {cell["protocol"]["max_seconds"] for cell in whole(device)["neurons"].cells} == {seconds}
    cells = [cell for name, one in whole(CPU).items() if name.startswith("cnn_") for cell in one.cells]
    assert cells
    for cell in cells:
        assert cell.dataset == "patterns" and cell["dataset"]["rows"] <= 512
        assert cell.epochs <= 2 and cell["protocol"]["runs"] <= 2


def test_every_choice_is_in_a_sweep():
    cells = [cell for one in (whole(GPU), questions(), several()) for cell in grid.all_cells(one).values()]
    for group in ("strategy", "kernel", "precision"):
        assert set(groups.names(group)) <= {cell[group]["name"] for cell in cells}
    # A share of a launch is not ranked beside a training.
    ranked = {cell.strategy for cell in whole(GPU)["strategies"].cells}
    assert set(STRATEGIES) - {"ensemble", *FOR_SEVERAL} <= ranked and not {"ensemble", *DIAGNOSTICS} & ranked
    assert set(DIAGNOSTICS) <= {cell.strategy for cell in grid.all_cells(questions()).values()}


@pytest.mark.parametrize("backend", ["cuda", "cpu"])
def test_every_strategy_is_a_candidate_where_it_can_train(backend):
    """Of snn recommend --all."""
    products = read_yaml(ROOT / "config/recommend.yaml")["candidates"][backend]["all"]
    cannot = ON_CPU if backend == "cpu" else ()  # a GPU's host has the CPU's baselines
    expected = set(STRATEGIES) - {"ensemble", *FOR_SEVERAL, *cannot}
    assert {name for product in products for name in product["strategy"]} == expected


def test_the_schema_for_editors_is_that_of_the_settings():
    """And config/grid.yaml fits it."""
    written = json.loads(grid_schema.PATH.read_text(encoding="utf-8"))
    assert written == grid_schema.schema(), "run scripts/grid_schema.py"
    jsonschema.Draft202012Validator.check_schema(written)
    jsonschema.validate(DEFAULT, written)
    for wrong in ({}, {"sweeps": {"x": {"epochs": 3}}}, {"sweeps": {"x": {"training.epochs": 0}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, written)


def test_the_choices_files_are_read_as_any_reader_of_yaml_reads_them():
    files = [*CONFIG.rglob("*.yaml")]
    assert len(files) > 30
    for path in files:
        assert read_yaml(path) == yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader), path


# ---- sweeps and their cells


def test_axes_are_the_keys_that_take_several_values(tmp_path):
    layers = {"network": "layers", "network.loss": "cross_entropy"}
    stacks = [["linear 8", "relu", "linear 2"], ["linear 2"]]
    found = sweeps_of(
        tmp_path,
        {
            "x": {"strategy": ["reference", "pinned"], "dataset": "small", "network.seed": [1, 2]},
            "y": {"union": [{"strategy": "pinned"}, {"strategy": "pinned", "network.seed": 2}]},
            "z": layers | {"network.layers": stacks},
        },
    )
    assert found["x"].axes == ("strategy", "network.seed")
    assert [(one.strategy, one["network"]["seed"]) for one in found["x"].cells] == [
        *(("reference", 1), ("reference", 2), ("pinned", 1), ("pinned", 2))
    ]
    assert found["y"].axes == ("network.seed",)
    assert found["z"].axes == ("network.layers",)
    assert [cell["network"]["layers"] for cell in found["z"].cells] == stacks
    assert found["x"].cells == tuple(found["x"].named.values())


@pytest.mark.parametrize(
    ("key", "value", "axis"),
    [
        ("network.hidden", [3, 4], [[3, 4]]),
        ("network.hidden", [[3], [4]], [[3], [4]]),
        ("network.hidden", [], [[]]),
        ("strategy.learning_rates", [1e-4, 1e-3], [[1e-4, 1e-3]]),
        ("training.epochs", 3, [3]),
        ("training.epochs", [3, 4], [3, 4]),
    ],
)
def test_the_values_of_an_axis(key, value, axis):
    assert grid._axis(key, value) == axis


def test_what_is_common_is_overridden_by_the_processors_and_by_the_sweep(tmp_path):
    sweeps = {"x": {}, "y": {"training.epochs": 7}}
    rest = {"defaults": {"training.epochs": 3, "network.seed": 4}, "on_cpu": {"training.epochs": 5}}
    for device, epochs in ((GPU, 3), (CPU, 5)):
        found = sweeps_of(tmp_path, sweeps, device, **rest)
        assert [found[name].cells[0].epochs for name in "xy"] == [epochs, 7]
        assert found["x"].cells[0]["network"]["seed"] == 4
    assert one_cell(tmp_path, {}, GPU)["device"] == {"backend": "cuda", "name": "NVIDIA H200"}


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


def test_strategies_of_the_host_are_on_the_given_one_or_on_the_device_or_on_this_machine(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(grid, "find", lambda backend: {"cpu": Device("cpu", "Abacus")}[backend])
    sweep = {"x": {"strategy": ["reference", "sequential"]}}
    for devices, expected in (
        ((GPU, CPU), ["NVIDIA H200", "AMD EPYC"]),
        ((GPU, None), ["NVIDIA H200", "Abacus"]),
        ((CPU, None), ["AMD EPYC", "AMD EPYC"]),
    ):
        assert [one.device.name for one in sweeps_of(tmp_path, sweep, *devices)["x"].cells] == expected
    of_grid = {cell.strategy: cell.device.name for cell in whole(GPU, CPU)["cpu"].cells}
    assert {name for name, device in of_grid.items() if device == CPU.name} == {
        *("sequential", "threads", "blas")
    }


def test_a_round_makes_a_run_or_more(tmp_path):
    cell = one_cell(tmp_path, {"protocol.rounds": 3, "protocol.runs": 2})
    assert [*cell.rounds] == [1, 2] and len(naming.record_paths(cell)) == 2


def test_a_digest_is_that_of_the_file(tmp_path):
    table = tmp_path / "it's a, table = {odd}.csv"
    table.write_text("x,y\n1,2\n")
    csv = {"dataset": "csv", "dataset.path": str(table), "dataset.target": "y"}
    found = hashlib.sha256(table.read_bytes()).hexdigest()
    assert one_cell(tmp_path, csv)["dataset"]["sha256"] == found
    with pytest.raises(ConfigError) as caught:
        one_cell(tmp_path, csv | {"dataset.sha256": "0" * 64})
    assert f"dataset.sha256 is '{'0' * 64}', but {table} has {found}: it has changed" in str(caught.value)
    assert "sha256" not in one_cell(tmp_path, {})["dataset"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("dataset.noise", 1), ("network.clip_norm", 5), ("training.learning_rate", 1)),
        *(("protocol.max_seconds", 60), ("protocol.relative_error", 1)),
        *(("protocol.warmup_seconds", 1), ("protocol.max_warmup_seconds", 4)),
    ],
)
def test_a_real_number_may_be_written_whole(tmp_path, key, value):
    found = sweeps_of(tmp_path, {"x": {key: [value]}, "y": {key: [float(value)]}})
    assert found["x"].named.keys() == found["y"].named.keys()
    section, _, leaf = key.partition(".")
    assert [type(one.cells[0][section][leaf]) for one in found.values()] == [float, float]


def test_a_cell_is_its_mapping_and_answers_what_is_asked_of_it(tmp_path):
    csv = {"strategy": "streams", "network": "cnn", "dataset": "patterns", "protocol.neighbour": "graph"}
    cell = one_cell(tmp_path, csv, GPU)
    assert json.loads(json.dumps(cell)) == cell == copy.deepcopy(cell)
    assert list(cell) == sorted(cell) and all(list(one) == sorted(one) for one in cell.values())
    assert (cell.dataset, cell.strategy, cell.kernel) == ("patterns", "streams", "naive")
    assert (cell.precision, cell.network) == ("fp32", "conv16x3-relu-conv32x3-relu-maxpool2-linear10")
    assert (cell.loss, cell.task, cell.neighbour) == ("cross_entropy", "classification", "graph")
    assert (cell.batch_size, cell.epochs, [*cell.rounds]) == (256, 100, [*range(1, 11)])
    alone = cell.replace(protocol={"neighbour": "none"})
    assert (cell.strategy_beside, alone.strategy_beside) == ("graph", None)
    assert cell["protocol"]["neighbour"] == "graph" and alone.name != cell.name
    old = Cell({key: value for key, value in alone.items() if key != "precision"})
    assert old.precision == "fp32"


def test_a_table_has_the_cells_of_its_sweep_and_of_those_beside_it(tmp_path):
    found = sweeps_of(
        tmp_path,
        {
            "dataset_size": {"dataset": ["small", "large"]},
            "strategies": {"dataset": ["small", "medium"], "strategy": ["pinned"]},
            "mine": {"strategy": "streams"},
        },
    )

    def cells(table):
        return [(one.dataset, one.strategy) for one in grid.cells_of(table, found).values()]

    assert cells("correctness") == [("small", "reference"), ("small", "pinned")]
    assert cells("speedup") == [("small", "reference"), ("large", "reference")]
    assert cells("timeline") == [("small", "reference")]
    assert cells("mine") == [("small", "streams")]
    assert cells("dataset_size") == [("small", "reference"), ("large", "reference")]
    assert cells("depth") == cells("other") == []
    del found["dataset_size"]
    assert cells("correctness") == []
    assert len(grid.all_cells(found)) == 3


def test_a_flat_list_of_widths_is_said_to_be_one_network(tmp_path):
    settings = {
        "flat": {"network.hidden": [128, 256]},
        "inside": {"union": [{"strategy": "graph"}, {"network.hidden": [3, 2, 1]}]},
        "on_cpu": {"on_cpu": {"network.hidden": [8, 4]}},
        "one_layer": {"network.hidden": [128]},
        "repeated": {"network.hidden": [64, 64]},
        "two_networks": {"network.hidden": [[128], [256]]},
        "said": {"network.hidden": [[128, 256]]},
    }
    sweeps_of(tmp_path, settings)
    found = list(notes(tmp_path / "grid.yaml"))
    places = ["sweeps.flat", "sweeps.inside.union.1", "sweeps.on_cpu.on_cpu"]
    assert [note.partition(":")[0] for note in found] == places
    assert "[128, 256] is one network with 2 hidden layers; write [[128], [256]] for 2 networks" in found[0]
    assert not list(notes(ROOT / "config/grid.yaml"))


# ---- cells and their names: two with one name are never taken for one


@pytest.mark.parametrize(
    "sweeps",
    [
        {"x": {"network.seed": [*range(1, 18)]}},
        {f"x{seed}": {"network.seed": seed} for seed in range(1, 18)},
        {"x": {"dataset.seed": [*range(1, 18)], "strategy": "pinned"}},
    ],
    ids=["of a sweep", "of several", "and data sets"],
)
def test_two_cells_of_one_name_are_refused(tmp_path, monkeypatch, sweeps):
    """With digests of one digit, seventeen cells must share some."""
    digest = hashlib.sha256
    monkeypatch.setattr("snn.config.cell.digest", lambda values: digest(repr(values).encode()).hexdigest()[0])
    with pytest.raises(ConfigError) as caught:
        sweeps_of(tmp_path, sweeps, GPU)
    said = str(caught.value)
    assert re.search(r"sweeps\.\w+: two different cells have the name nvidia-h200/small/256/\w+-naive-", said)
    assert said.count("'seed': ") == 4


def test_two_data_sets_of_one_name_are_refused_and_each_is_named_once(tmp_path, monkeypatch):
    asked, path = [], "results/datasets/small-0.npy"
    monkeypatch.setattr(grid, "dataset_path", lambda cell: asked.append(cell) or path)
    with pytest.raises(ConfigError, match=f"have the name {path}"):
        sweeps_of(tmp_path, {"x": {"dataset.seed": [1, 2]}})
    asked.clear()
    sweeps_of(tmp_path, {"x": {"network.seed": [1, 2]}, "y": {"network.seed": 3}})
    assert len(asked) == 1


def test_equal_cells_of_one_sweep_or_of_several_are_one(tmp_path):
    twice = {"union": [{"network.seed": [1, 2]}, {"network.seed": [2, 3]}]}
    found = sweeps_of(tmp_path, {"x": twice, "y": {"network.seed": [3, 1]}})
    assert [len(sweep.cells) for sweep in found.values()] == [3, 2]
    cells = grid.all_cells(found)
    assert len(cells) == 3 and all(len(name.rpartition("-")[2]) == 16 for name in cells)


# ---- refused, whatever it holds


NAMES = ["", " ", "a" * 65, "a" * 240, "abc\n", "caf\u00e9", "a\u0663"]
NAMES += ["1", "2020-01-01", "Abc", "_a", "a-b", "a/b", "../../../x", "opening", "gpu", "overview"]
NAMES += ["speedup", "correctness", "ranking", "time_by_depth"]


@pytest.mark.parametrize("name", [*NAMES, 1, True, None, 1.5, ("a",), ["a"], b"a", {"a": 1}], ids=repr)
def test_a_name_that_is_none_of_a_sweep(tmp_path, name):
    with pytest.raises(ConfigError, match=r"sweeps"):
        catalogue.check_name(name)
    if isinstance(name, str):
        assert "sweep" in refusal(written(tmp_path, yaml.safe_dump({"sweeps": {name: {}}})))


def test_names_of_sweeps(tmp_path):
    names = {"a", "a1_b", "x" * 64, "sweep", "on_host", "null_0"}
    assert set(sweeps_of(tmp_path, {name: {} for name in names})) == names
    catalogue.check_name("neurons")


SEEDS = list(range(1, 401))
TWO = {"network.seed": SEEDS, "dataset.seed": SEEDS[:200]}
KEYS = ("network.seed", "dataset.seed", "training.epochs", "protocol.runs")


@pytest.mark.parametrize(
    ("sweeps", "count"),
    [
        ({"x": TWO | {"dataset.seed": SEEDS}}, 160_000),
        ({"x": dict.fromkeys(KEYS, SEEDS)}, 400**4),
        ({"x": {"union": [TWO] * 2}}, 160_000),
        ({"w": TWO, "x": TWO}, 160_000),
    ],
)
def test_cells_are_counted_before_they_are_made(tmp_path, monkeypatch, sweeps, count):
    monkeypatch.setattr(grid.Reader, "_expand", lambda self, name, *rest: grid.Sweep(name, (), {}))
    said = refusal(written(tmp_path, yaml.safe_dump({"sweeps": sweeps})))
    assert f"sweeps.x: with this sweep the grid has {count} cells: it may have 100000" in said
    assert "100,000 cells" in " ".join((ROOT / "config/README.md").read_text().split())


def test_a_cell_too_large_for_this_machine_is_refused_when_it_is_planned_here(tmp_path, monkeypatch):
    path = tmp_path / "grid.yaml"
    grid.check_sizes(path, sweeps_of(tmp_path, {"x": {}}))
    sweeps = sweeps_of(tmp_path, {"x": {"dataset.rows": [1000, 10**8]}})  # records of another may be read
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**9)
    with pytest.raises(ConfigError) as caught:
        grid.check_sizes(path, sweeps)
    assert str(caught.value).startswith(f"{path}: sweeps.x: this cell needs at least 26.4 GB")


def test_a_key_that_no_workflow_reads_is_refused():
    grid.check_keys({"grid": "config/grid.yaml", "device": "cpu"})
    with pytest.raises(
        ConfigError, match="--config gird: unknown key; the keys are grid, device, devices, folde"
    ):
        grid.check_keys({"device": "cpu", "gird": "mine.yaml", "a": 3})


def test_a_number_has_an_exponent_as_in_yaml_1_2(tmp_path):
    path = written(tmp_path, "sweeps: {x: {training.learning_rate: [1e-3, 2E+1, .5]}}")
    rates = [cell["training"]["learning_rate"] for cell in grid.read(path, CPU)["x"].cells]
    assert rates == [0.001, 20.0, 0.5]


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    assert list(grid.read(written(tmp_path, "\ufeffsweeps: {x: {}}"), CPU)) == ["x"]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
)
OTHERS = ["union", "devices", "strategy.seeds", "dataset.path", "network.layers", "network.loss"]
SETTINGS = st.sampled_from(
    [*groups.GROUPS[:-1], *OTHERS]
    + [f"{part}.{key}" for part in ("dataset", "network", "kernel") for key in groups.options(part, None)]
)
CONTENT = st.fixed_dictionaries(
    {
        "sweeps": st.dictionaries(
            st.sampled_from("xy"), st.dictionaries(SETTINGS, VALUES, max_size=3), max_size=2
        )
    },
    optional={"defaults": VALUES, "on_cpu": VALUES, "device": SCALARS, "devices": VALUES},
)


@settings(max_examples=150)
@given(content=CONTENT)
def test_any_content_is_a_grid_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("g") / "grid.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    try:
        for cell in grid.all_cells(grid.read(path, CPU)).values():
            assert grid.overrides(cell)
        assert plans.read(path, {})
    except SnnError as error:
        assert str(path) in str(error)


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text("[]{}:,&*!|>-?#'\"%@ \n\tab1.0<~", max_size=60).map(str.encode))
def test_any_bytes_are_a_grid_or_refused(tmp_path_factory, content):
    with pytest.raises(ConfigError, match=r"grid\.yaml"):
        grid.read(written(tmp_path_factory.mktemp("g"), content), CPU)
