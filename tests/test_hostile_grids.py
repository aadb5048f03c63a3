"""Grid files of any content, names and numbers of sweeps: read, or refused soon, in one line."""

import re

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_grid import CPU, sweeps_of
from test_refusals import refusal, written

from snn.config import groups, sizes
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, SnnError
from snn.grid import catalogue, plans
from snn.grid import sweeps as grid

NAMES = ["", " ", "a" * 65, "a" * 240, "abc\n", "caf\u00e9", "a\u0663"]
NAMES += ["1", "2020-01-01", "Abc", "_a", "a-b", "a/b", "../../../x", "opening", "gpu", "overview"]
NAMES += ["speedup", "correctness", "ranking", "time_by_depth"]


@pytest.mark.parametrize("name", NAMES, ids=repr)
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
    monkeypatch.setattr(grid.Reader, "_expand", lambda self, name, *rest: grid.Sweep(name, (), {}))
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": sweeps}))
    said = refusal(path)
    assert f"sweeps.x: with this sweep the grid has {count} cells: it may have 100000" in said


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


def test_a_file_with_a_byte_order_mark_is_read(tmp_path):
    path = written(tmp_path, "\ufeffsweeps: {x: {}}")
    assert list(grid.read(path, CPU)) == ["x"]


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
