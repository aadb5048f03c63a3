"""Command lines that are wrong, hostile or cut short: refused in one line before any work, with status 2."""

import shlex

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from snn import __main__ as snn
from snn import prepare
from snn.config import choices, compose, groups, overrides, sizes
from snn.config.settings import check_cell
from snn.datasets import csv_table
from snn.errors import ConfigError
from snn.grid import sweeps as grid
from snn.hardware.devices import Device
from snn.measurement import cell

CPU = Device("cpu", "AMD EPYC")
PATHS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=40).filter(
    lambda text: "${" not in text and text != "???"
)
ODD = st.text("\\'\"$%{}[]()=,:;#&|<>*?!~@+- \u00e9", min_size=1, max_size=12).filter(
    lambda text: "${" not in text and text != "???"
)


def refused(capsys, main, arguments):
    """The one line that a command line is refused with."""
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1, printed
    return printed


_OF_CSV = ("dataset=csv", "dataset.path=a", "dataset.target=0")


@pytest.mark.parametrize(
    ("said", "arguments"),
    [
        ("is part of kernel=naive: choose with kernel=", ["kernel.name=tiled"]),
        ("choose with kernel=..., one of cublas, fused", ["kernel.source=kernels/tiled.cu"]),
        ("is part of kernel=tiled", ["kernel=tiled", "kernel.fused=true"]),
        ("is part of device=cpu", ["device=cpu", "device.backend=cuda"]),
        ("none is added (+)", ["+colour=1"]),
        ("or removed (~)", ["~training.epochs=1"]),
        ("the keys are dataset", ["hydra.run.dir=/tmp"]),
        ("the keys are dataset", ["hydra.verbose=true"]),
        ("training: there is no such key", ["training={epochs:3}"]),
        ("round.x: there is no such key", ["round.x=1"]),
        ("there is no interpolation", ["output=${oc.env:HOME}/x.json"]),
        ("training.epochs=1 before", ["training.epochs=1", "training.epochs=2"]),
        ("it must be KEY=VALUE", ["training.epochs"]),
        ("training.epochs is ''", ["training.epochs="]),
        ("is no argument", ["--epochs=3"]),
        *(("a value may be a list", [f"network.hidden={opening * 400}"]) for opening in ("[", "(", "{a:")),
        ("at most 16384 characters", ["network.hidden=[" + "1," * 10_000 + "1]"]),
        ("at most 16384 characters", ["dataset.seed=" + "9" * 20_000]),
        ("of fewer layers", ["network.hidden=[" + "1," * 1000 + "1]"]),
        *((f"{key} is 9999", [f"{key}={'9' * 4000}"]) for key in ("training.epochs", "dataset.seed")),
        *(("control characters", [f"output=a{mark}b"]) for mark in "\n\0"),
        ("bytes that are not UTF-8", ["output=\udcff"]),
        ("dataset.rows is {'a': 1}: it must be a whole number", ["dataset.rows={a:1}"]),
        ("dataset.noise is -0.0", ["dataset.noise=-0.0"]),
        ("kernel.block is [16]: it must be the block size", ["kernel.block=[16]"]),
        ("dataset.path is ['a']: it must be the path", [_OF_CSV[0], "dataset.path=[a]", _OF_CSV[2]]),
        ("dataset.target is True: it must be the target", [*_OF_CSV[:2], "dataset.target=true"]),
        ("dataset.delimiter is 'ab'", [*_OF_CSV, "dataset.delimiter=ab"]),
        ("dataset.sha256 is 12", [*_OF_CSV, "dataset.sha256=12"]),
    ],
)
def test_refused_in_one_line(capsys, arguments, said):
    """As are all of tests/faults/command_lines.py."""
    assert said in refused(capsys, snn.main, arguments)


_ENSEMBLE = ("strategy=ensemble", "strategy.seeds=[1,2]", "strategy.learning_rates=[1,2]")


@pytest.mark.parametrize(
    ("said", "given"),
    [
        ("from 1 to 1000000000: more rows", "dataset.rows=1000000001"),
        ("is 1000000000000000000000000000000", "dataset.rows=1000000000000000000000000000000"),
        ("from 1 to 1000000: a sample", "dataset.features=1000001"),
        ("to 4294967295: a seed of NumPy's", "dataset.seed=4294967296"),
        ("network.hidden is [1000000000000]", "network.hidden=[1000000000000]"),
        ("to 2147483647: the C library's rand()", "network.seed=2147483648"),
        ("each from 1 to 2147483647", "strategy=ensemble strategy.seeds=[4294967296]"),
        ("learning_rates are 120000 networks", "strategy.starts=30000 " + " ".join(_ENSEMBLE)),
        ("from 1 to 1000000: a run of more", "training.epochs=1000001"),
        ("in float32", "training.learning_rate=1e308"),
        ("in float32", "training.learning_rate=1e-320"),
        ("training.learning_rate is inf", "training.learning_rate=inf"),
        ("in float32", "network.clip_norm=1e39"),
        ("from 1 to 100000", "protocol.runs=100001"),
        ("from 1 to 1000: each round is a job", "protocol.rounds=1001"),
        ("a number from 0.001 to 86400", "protocol.max_seconds=1e-300"),
        ("a number from 0 to 86400", "protocol.warmup_seconds=1e9"),
        ("a number from 1e-06 to 1", "protocol.relative_error=2"),
        ("from 1 to 1024: a device", "strategy=combined strategy.streams=1025"),
        ("from 1 to 16777216: kernels", "strategy=combined strategy.tile_rows=16777217"),
        ("from 1 to 65536: no host", "strategy=blas strategy.threads=65537"),
        ("from 1 to 4096: more batches", "strategy=pipelined strategy.buffers=4097"),
        ("at most 1024 threads", "kernel.block=[1,2000]"),
        ("kernel.work is [1, 1000]", "kernel=tiled_fused kernel.work=[1,1000]"),
    ],
)
def test_numbers_have_limits_with_a_reason(given, said):
    with pytest.raises(ConfigError) as caught:
        compose.composed(given.split())
    assert said in str(caught.value)


def test_networks_of_an_ensemble_may_be_many():
    assert compose.composed(["strategy.starts=1000", *_ENSEMBLE])


def test_a_cell_larger_than_the_machine_is_refused_before_any_work(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**8)
    large = ["dataset.rows=1000000", "dataset.features=32"]
    said = refused(capsys, snn.main, large)
    assert "at least 0.265 GB of memory (0.264 GB for dataset=small of 1000000 rows and 33 columns" in said
    assert "but this machine has 0.1 GB" in said
    said = refused(capsys, prepare.main, [*large, f"output={tmp_path}/x.npy"])
    assert "of memory" in said
    assert "GB for network 8192-8192" in refused(capsys, snn.main, ["network.hidden=[8192,8192]"])


def test_a_table_larger_than_the_machine_is_refused_once_it_is_read(monkeypatch):
    config = compose.composed(["device=cpu"])
    config["dataset"] = {"name": "csv", "_target_": "snn.datasets.csv_table.make", "path": "x", "target": 0}
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**6)
    table = cell.datasets.Table(np.zeros((10**4, 33), np.float32))
    monkeypatch.setattr(cell.datasets, "make", lambda choice: table)
    with pytest.raises(ConfigError, match="10000 rows and 33 columns"):
        cell.run(config)


def test_a_matrix_beyond_32_bits_is_refused(monkeypatch):
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**15)
    with pytest.raises(ConfigError, match="kernels count in 32 bits"):
        compose.composed(["network.hidden=[65536,65536]"])


@pytest.mark.parametrize("group", groups.GROUPS)
def test_what_a_choice_lets_one_set_is_what_is_no_part_of_it(group):
    for name in groups.names(group):
        options = groups.options(group, name)
        for key in groups.load(group, name):
            if key in options:
                choices.check_key(f"{group}.{key}", name)
            else:
                with pytest.raises(ConfigError, match="cannot be set"):
                    choices.check_key(f"{group}.{key}", name)


@pytest.mark.parametrize("key", ["kernel.source", "kernel.fused", "strategy._target_", "dataset._target_"])
def test_a_cell_that_is_not_what_its_choice_says_is_refused(key):
    """Wherever it comes from: its values are compared with the choice's file."""
    config = compose.composed([])
    section, _, leaf = key.partition(".")
    config[section][leaf] = "other"
    with pytest.raises(ConfigError, match=f"{key} cannot be set"):
        check_cell(config)


def cells_of(folder, sweep):
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": {"x": sweep}}, allow_unicode=True), encoding="utf-8")
    return grid.read(path, CPU)["x"].cells


@settings(max_examples=25)
@given(path=PATHS | ODD, target=PATHS | ODD | st.integers(-9, 9))
def test_any_text_goes_from_grid_to_shell_to_hydra_unchanged(tmp_path_factory, path, target):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "digest", lambda choice: "0" * 64)
        (planned,) = cells_of(
            tmp_path_factory.mktemp("g"),
            {"dataset": "csv", "dataset.path": path, "dataset.target": target},
        )
    assert (planned["dataset"]["path"], planned["dataset"]["target"]) == (path, target)
    words = shlex.split(shlex.join(grid.overrides(planned)))
    composed = compose.composed(words)
    assert {section: composed[section] for section in grid.SECTIONS} == planned


@pytest.mark.parametrize("mark", [",", ";", "\t", "|", " ", ":"])
def test_delimiters_go_to_hydra_unchanged(tmp_path, mark, monkeypatch):
    monkeypatch.setattr(csv_table, "digest", lambda choice: "0" * 64)
    csv = {"dataset": "csv", "dataset.path": "t", "dataset.target": "y", "dataset.delimiter": mark}
    (planned,) = cells_of(tmp_path, csv)
    assert compose.composed(grid.overrides(planned))["dataset"] == planned["dataset"]


@settings(max_examples=200)
@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_arguments_are_checked_without_another_error(arguments):
    try:
        overrides.read(arguments)
    except ConfigError as error:
        assert len(str(error).splitlines()) <= 1 + sum("\n" in argument for argument in arguments)
