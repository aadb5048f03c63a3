"""Grid files that are wrong, hostile or too large: refused soon, in one line, with file and place."""

import os

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_grid import CPU, sweeps_of

from snn.config import groups, sizes
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, SnnError
from snn.grid import catalogue, naming, plans
from snn.grid import sweeps as grid

SWEEP = "sweeps:\n  x:\n    "
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(20)
)
DEEP = "a0: &a0 [[[[[[[[[[1]]]]]]]]]]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [[[[[[[[[[*a{i}]]]]]]]]]]\n" for i in range(200)
)


def refusal(path):
    """What a grid file is refused with after its path, in one short line."""
    with pytest.raises(ConfigError) as caught:
        grid.read(path, CPU)
    said = str(caught.value)
    assert said.startswith(str(path))
    assert len(said.splitlines()) == 1
    assert len(said) < 2000
    return said.removeprefix(str(path))


def written(folder, content):
    path = folder / "grid.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ": None is not right: it must be the keys device or devices, defaults, on_cpu, sweeps"),
        ("# nothing\n", ": None is not right"),
        ("a text", "'a text' is not right: it must be the keys"),
        ("[1, 2]", "[1, 2] is not right: it must be the keys"),
        ("17", ": 17 is not right"),
        ("sweeps: {}", "sweeps: {} is not right: it must be one or more sweeps"),
        ("sweeps: null", "sweeps: None is not right: it must be one or more sweeps"),
        ("sweeps: [a]", "sweeps: ['a'] is not right"),
        (
            "sweeps: {x: {}}\ncolour: red",
            "'colour' is not a key here: one of device, devices, defaults, on_cpu, sweeps",
        ),
        ("sweeps: {x: {}}\ndefaults:", "defaults: None is not right: it must be settings"),
        ("sweeps: {x: {}}\non_cpu: null", "on_cpu: None is not right: it must be settings"),
        ("sweeps: {x: {}}\ndevice: 7", "device: 7 is not right: it must be one of auto, cpu, cuda"),
        ("sweeps: {x: {}}\ndevice: [cpu]", "device: ['cpu'] is not right: it must be one of auto, cpu, cuda"),
        ("sweeps: {x: {}}\ndevice:", "device: None is not right: it must be one of auto, cpu, cuda"),
        (
            "sweeps: {x: {dataset: null}}",
            "sweeps.x.dataset: None is not right: it must be one of csv, fashion, idx, large, medium, mnist",
        ),
        ("1: 2", ", line 1: the key 1 is not text: write it in quotes"),
        ("sweeps:\n  true: {}", ", line 2: sweeps: the key true is not text"),
        ("sweeps:\n  null: {}", ", line 2: sweeps: the key null is not text"),
        ("sweeps:\n  ~: {}", "the key ~ is not text"),
        ("sweeps:\n  1.5: {}", "the key 1.5 is not text"),
        ("sweeps:\n  2020-01-01: {}", "2020-01-01 is not right: a value is true, false, a number"),
        ("sweeps:\n  on: {}", "on is not right"),
        ("? [a, b]\n: 1", ", line 1: a key must be text, not a list"),
        ("? {a: b}\n: 1", ", line 1: a key must be text, not a list, a mapping"),
        ("a: &a x\n*a : 1", "a key must be text, not a list, a mapping or an alias"),
        (f"{SWEEP}<<: {{dataset: small}}", ", line 3: sweeps.x: the merge key << is not read"),
        (f"{SWEEP}dataset: small\n    dataset: large", ", line 4: sweeps.x: the key 'dataset' appears twice"),
        ("a: &a [*a]", ", line 1: a.0: *a stands before the end of its anchor"),
        ("sweeps: &s\n  x: *s", ", line 2: sweeps.x: *s stands before the end of its anchor"),
        ("a: *b", "*b stands before the end of its anchor, or has none"),
        (BOMB, "there are more than 250000 keys and values"),
        (DEEP, "there are more than 24 levels"),
        ("[" * 400, "there are more than 24 levels"),
        ("{a: " * 400, "there are more than 24 levels"),
        ("- " * 400, "there are more than 24 levels"),
        ("[" * 200_000, "there are more than 24 levels"),
        (
            f"{SWEEP}training.epochs: !!python/object/apply:os.system [touch /tmp/x]",
            "the tag 'tag:yaml.org,2002:pyth",
        ),
        (f"{SWEEP}training.epochs: !!int '3'", "the tag 'tag:yaml.org,2002:int' is not read"),
        (f"{SWEEP}network.seed: [{', '.join(['!!set {}'] * 3)}]", "is not read: leave it out"),
        (
            f"{SWEEP}training.epochs: yes",
            ", line 3: sweeps.x.training.epochs: yes is not right: a value is true",
        ),
        (f"{SWEEP}training.epochs: Off", "Off is not right"),
        (f"{SWEEP}training.epochs: 1:30", "sweeps.x.training.epochs: 1:30 is not right"),
        (f"{SWEEP}training.epochs: 017", "017 is not right"),
        (f"{SWEEP}training.epochs: 0o17", "0o17 is not right"),
        (f"{SWEEP}training.epochs: 0x1F", "0x1F is not right"),
        (f"{SWEEP}training.epochs: 0b11", "0b11 is not right"),
        (f"{SWEEP}training.epochs: 1_000", "1_000 is not right"),
        (f"{SWEEP}training.epochs: 2020-01-01", "2020-01-01 is not right"),
        (f"{SWEEP}training.epochs: 2020-01-01 10:00:00", "2020-01-01 10:00:00 is not right"),
        (f"{SWEEP}training.epochs: {'9' * 5000}", "... (5000 characters) is not right"),
        (f"{SWEEP}training.learning_rate: .nan", ".nan is not right"),
        (f"{SWEEP}training.learning_rate: -.inf", "-.inf is not right"),
        (f"{SWEEP}training.learning_rate: 1.0e+400", "1.0e+400 is not finite"),
        (f"{SWEEP}dataset.noise: -0.0", "-0.0 is not finite, or a 0 with a sign"),
        (
            f"{SWEEP}training.learning_rate: 1e-3",
            "'1e-3' is not right: it must be a number above 0 (write 1.0e-3",
        ),
        ("sweeps:\n\tx: {}", ", line 2: found character that cannot start any token"),
        ("sweeps: {x: {}}\n---\nsweeps: {y: {}}", ", line 2: a second document begins"),
        ("sweeps: {x: {}", ", line 2: did not find"),
        ("sweeps: {caf\u00e9: {}}".encode("latin-1"), ", line 1: not text in UTF-8: save the file as UTF-8"),
        ("sweeps: {x: {}}".encode("utf-16"), ", line 1: not text in UTF-8"),
        ("sweeps: {x: {}}".encode("utf-16-le"), "control characters are not allowed"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00\xff\xfe", "not text in UTF-8"),
        (b"sweeps: {x\x00: {}}", "control characters are not allowed"),
        (b"\x00" * 1000, "control characters are not allowed"),
        (b"#" * (1 << 20) + b"\n", ": cannot be read: it has more than 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_grid(tmp_path, content, said):
    assert said in refusal(written(tmp_path, content))


def test_a_grid_that_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    assert "it is a folder, not a file" in refusal(tmp_path)
    assert "it is a pipe, not a file" in refusal(tmp_path / "pipe")
    assert "it is a device, not a file" in refusal(tmp_path / "link")
    assert "No such file" in refusal(tmp_path / "none")
    for place in ("", "."):
        with pytest.raises(ConfigError, match="grid is empty: it must be the path of a grid file"):
            grid.read(type(tmp_path)(place), CPU)
    with pytest.raises(ConfigError, match=r"grid\.yaml: device: 7 is not right"):
        plans.read(written(tmp_path, "sweeps: {x: {}}\ndevice: 7"), {})


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = written(tmp_path, "\ufeffsweeps: {x: {}}")
    assert list(grid.read(path, CPU)) == ["x"]


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
    with pytest.raises(ConfigError, match=rf"^{path}: sweeps\.x: this cell needs at least 26\.4 GB"):
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


def test_the_choices_files_are_read_as_any_reader_of_yaml_reads_them():
    files = [*CONFIG.rglob("*.yaml")]
    assert len(files) > 30
    for path in files:
        assert read_yaml(path) == yaml.safe_load(path.read_text(encoding="utf-8")), path


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
)
KEYS = st.sampled_from(
    [
        *groups.GROUPS[:-1],
        "union",
        "devices",
        "strategy.seeds",
        "dataset.path",
        "network.layers",
        "network.loss",
    ]
    + [f"{part}.{key}" for part in ("dataset", "network", "kernel") for key in groups.options(part, None)]
)


@settings(max_examples=150)
@given(
    content=st.fixed_dictionaries(
        {
            "sweeps": st.dictionaries(
                st.sampled_from("xy"), st.dictionaries(KEYS, VALUES, max_size=3), max_size=2
            )
        },
        optional={"defaults": VALUES, "on_cpu": VALUES, "device": SCALARS, "devices": VALUES},
    )
)
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
    path = tmp_path_factory.mktemp("g") / "grid.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"grid\.yaml"):
        grid.read(path, CPU)
