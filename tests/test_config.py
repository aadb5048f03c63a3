"""The keys of a cell on the command line: what is composed, and from a grid to a shell to Hydra unchanged."""

import json
import shlex
import subprocess
import sys

import hydra
import jsonschema
import numpy as np
import pytest
from conftest import ROOT, as_command
from hydra import initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from idx_files import image_set, write
from omegaconf import OmegaConf
from strangers import CPUS, GPUS
from test_grid import CPU, GPU, one_cell, whole

from snn import __main__ as snn
from snn import cli
from snn.config import choices, compose, groups, overrides, sizes
from snn.config.cell import SECTIONS
from snn.config.overrides import written as in_hydra
from snn.config.settings import check_cell
from snn.config.suggestions import meant, nearest
from snn.datasets import csv_table
from snn.errors import ConfigError
from snn.grid import sweeps
from snn.hardware.devices import Device
from snn.measurement import cell as measured


def test_defaults_are_the_papers():
    cell = compose.composed([])
    network = {"hidden": [256], "init": "uniform01", "update_order": "sequential", "clip_norm": None}
    assert cell["network"] == network | {"recompute": [], "seed": 1}
    training = {"epochs": 100, "batch_size": 256, "accumulate": 1, "learning_rate": 0.002}
    assert cell["training"] == training | {"reduction": "mean", "gradient": "exact", "drop_last": False}
    assert (cell["protocol"]["runs"], cell["protocol"]["rounds"]) == (10, 10)
    names = [cell[section]["name"] for section in ("dataset", "strategy", "kernel")]
    assert names == ["small", "reference", "naive"]


def test_what_one_cell_is_given_is_not_in_the_next():
    """Hydra composes the same choices once."""
    first = compose.composed([])
    given = compose.composed(["network.hidden=[4]", "training.epochs=3"])
    given["network"]["hidden"].append(5)
    given["kernel"]["precisions"].clear()
    assert compose.composed([]) == first != given
    compose.composed(["network.hidden=[4]"])["network"]["hidden"].append(5)
    assert compose.composed(["network.hidden=[4]"])["network"]["hidden"] == [4]


CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=y")


@pytest.mark.parametrize("group", groups.GROUPS)
def test_every_choice_is_named_as_its_file_composes_and_has_options(group, tmp_path):
    """What a choice lets one set is what is no part of it."""
    of_idx = [f"dataset.path={write(tmp_path, image_set())}", "training.batch_size=2"]
    images = ["dataset=patterns"]
    extra = {"csv": CSV[1:], "idx": of_idx, "cnn": images, "cnn_pytorch": images}
    for name in groups.names(group):
        content, options = groups.load(group, name), groups.options(group, name)
        assert content.get("name", name) == name or group not in choices.NAMED
        assert compose.composed([f"{group}={name}", *extra.get(name, [])])
        for key in options:
            choices.check_key(f"{group}.{key}", name)
        for key in content.keys() - set(options):
            with pytest.raises(ConfigError, match="cannot be set"):
                choices.check_key(f"{group}.{key}", name)


WRITTEN = {"header": (3, True, None), "decimal": (",",), "thousands": ("\u00a0", "'"), "comment": ("#",)}
WRITTEN |= {"encoding": ("utf-16",), "na_values": ([-999, "#DIV/0!", "\\N", ""],)}
WRITTEN |= {"delimiter": (r"\s+", ",", ";", "\t", "|", " ", ":")}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRITTEN for value in WRITTEN[key]])
def test_how_a_table_is_written(key, value):
    assert compose.composed([*CSV, f"dataset.{key}={in_hydra(value)}"])["dataset"][key] == value


@pytest.mark.parametrize(
    "text",
    ["a {b} ü/c", "a b(c)", "it's", "a,b", ";", "[x", "[a] (b)", 'x"y,', "$(x)", "{a}", "a;`b`", "a=b"],
)
def test_a_text_needs_no_quotes(text):
    cell = compose.composed([*CSV[:2], f"dataset.target={text}", f"output={text}"])
    assert cell["output"] == cell["dataset"]["target"] == text


@pytest.mark.parametrize("text", ["'a", "'it's'", '"a" b'])
def test_what_a_message_says_to_write_is_read(text):
    """By a shell, and by Hydra."""
    with pytest.raises(ConfigError) as caught:
        compose.composed([f"output={text}"])
    right = str(caught.value).partition("needs quotes, in a shell ")[2]
    assert compose.composed(shlex.split(right))["output"] == text


def test_fewest_runs_of_a_protocol_may_be_more_than_the_runs_that_are_set():
    """They are then of the file, and the runs decide."""
    assert compose.composed(["protocol.runs=3"])["protocol"]["min_runs"] == 10
    assert compose.composed(["protocol.runs=5", "protocol.min_runs=5"])["protocol"]["min_runs"] == 5


def test_layers_to_compute_again_in_another_order_are_the_same_cell():
    layers = ("network=layers", "network.layers=[linear 8, relu, linear 4, linear 1, relu]")
    one, other = (compose.composed([*layers, f"network.recompute={given}"]) for given in ("[3,1]", "[1,3]"))
    assert one["network"] == other["network"] and one["network"]["recompute"] == [1, 3]


def test_networks_of_an_ensemble_may_be_many():
    ensemble = ("strategy=ensemble", "strategy.seeds=[1,2]", "strategy.learning_rates=[1,2]")
    assert compose.composed(["strategy.starts=1000", *ensemble])


@pytest.mark.parametrize("number", ["0", "-1", "1001", "1.5", "true", "one"])
def test_a_round_beyond_the_protocols_may_be_measured_and_others_are_refused(number):
    assert compose.composed(["protocol.rounds=3", "round=4"])["round"] == 4
    with pytest.raises(ConfigError, match="round"):
        compose.composed([f"round={number}"])


def test_hydras_own_groups_are_left_out():
    """They are half of the work of a composition."""
    compose.composed([])
    with initialize_config_dir(config_dir=str(groups.CONFIG), version_base="1.3"):
        found = hydra.compose("config", return_hydra_config=True)["hydra"]
    assert all(OmegaConf.is_missing(found, group) for group in ("launcher", "sweeper", "job_logging"))


@settings(max_examples=30)
@given(
    st.fixed_dictionaries(
        {}, optional={group: st.sampled_from(groups.names(group)) for group in groups.GROUPS}
    )
)
def test_sections_that_were_composed_before_are_what_hydra_composes(chosen):
    first = {group: compose._compose_choices(((group, name),))[group] for group, name in chosen.items()}
    found = compose._compose_choices(tuple(chosen.items()))
    assert found == compose._by_hydra([f"{group}={name}" for group, name in chosen.items()])
    assert found.items() >= first.items()


def test_a_choice_that_chooses_in_another_group_is_composed_with_it():
    assert not groups.is_alone("dataset", "csv") and groups.is_alone("dataset", "small")
    usual = compose.composed([])["network"]
    assert compose.composed(CSV)["network"] != usual
    assert compose.composed([*CSV, "network=one_hidden"])["network"] == usual


def test_a_cell_from_the_command_line(tmp_path):
    output = tmp_path / "deep" / "cell.json"
    settings = ("dataset=small", "strategy=combined", "network.hidden=[8]", "training.epochs=2", "device=cpu")
    settings += ("protocol.runs=3", "protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0")
    command = [sys.executable, "-m", "snn", *settings, f"output={output}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    record = json.loads(output.read_text())
    jsonschema.validate(record, json.loads((ROOT / "snn/records/record.schema.json").read_text()))
    assert record["status"] == "ok"
    assert [set(run) for run in record["runs"]] == [{"seconds", "final_loss", "final_mse"}] * 3
    assert record["summary"]["mean_seconds"] > 0
    assert record["ledger"]["mallocs"] == record["ledger"]["frees"] > 0
    assert record["provenance"]["backend"] == "cpu" and record["provenance"]["device"]
    assert list(output.parent.iterdir()) == [output]


def test_a_device_of_another_name_is_refused(capsys):
    assert "device.name is 'Abacus'" in refused(capsys, snn.main, ["device=cpu", "device.name=Abacus"])


@pytest.mark.parametrize(
    ("main", "said"), [(snn.main, "|combined|"), (as_command("prepare"), "dataset=NAME [KEY=VALUE]")]
)
def test_help_shows_what_may_be_given(capsys, main, said):
    assert main(["--help"]) == 0
    assert said in capsys.readouterr().out


# ---- a cell of a grid, as its command line composes it


def recomposed(cell):
    """The cell that its command line composes."""
    composed = compose.composed(shlex.split(shlex.join(sweeps.overrides(cell))))
    return {section: composed[section] for section in SECTIONS}


DEVICES = [*(Device("cpu", name) for name in CPUS.values() if name), *(Device("cuda", name) for name in GPUS)]
LAYERS = {"network": "layers", "network.layers": [["linear 2", "relu", "linear 1"]]}


@pytest.mark.parametrize(
    ("sweep", "device"),
    [
        *(({}, device) for device in DEVICES),
        *(
            ({"protocol": name, "protocol.runs": 2, "protocol.max_seconds": 7}, GPU)
            for name in groups.names("protocol")
        ),
        ({**LAYERS, "network.loss": "cross_entropy", "training.epochs": 3}, GPU),
    ],
    ids=str,
)
def test_a_cells_command_line_is_its_own(tmp_path, sweep, device):
    cell = one_cell(tmp_path, sweep, device)
    assert recomposed(cell) == cell


@pytest.mark.parametrize("network", [None, "one_hidden", "two_hidden", "layers"])
def test_a_planned_cell_of_a_table_keeps_the_network_of_its_plan(tmp_path, network):
    """Of its own, a table chooses another default than other data sets."""
    (tmp_path / "t.csv").write_text("x,y\n" + "1,2\n" * 9)
    sweep = {"dataset": "csv", "dataset.path": str(tmp_path / "t.csv"), "dataset.target": "y"}
    cell = one_cell(tmp_path, sweep | ({"network": network} if network else {}))
    assert cell["dataset"]["task"] == "regression"
    assert recomposed(cell) == cell


def test_hydra_composes_the_very_same_cell():
    seen = set()
    for cell in sorted(
        sweeps.all_cells(whole(GPU, CPU)).values(), key=lambda cell: -len(sweeps.overrides(cell))
    ):
        overrides = [one for one in sweeps.overrides(cell) if "seed" not in one]
        if not seen.issuperset(overrides):  # each override once: composing takes its time
            seen.update(sweeps.overrides(cell))
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
    cell = one_cell(tmp_path_factory.mktemp("g"), sweep | {"training.epochs": epochs})
    assert recomposed(cell) == cell


PATHS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1, max_size=40)
ODD = st.text("\\'\"$%{}[]()=,:;#&|<>*?!~@+- \u00e9", min_size=1, max_size=12)
TEXTS = (PATHS | ODD).filter(lambda text: "${" not in text and text != "???")


@settings(max_examples=25)
@given(path=TEXTS, target=TEXTS | st.integers(-9, 9), mark=st.sampled_from(WRITTEN["delimiter"]))
def test_any_text_goes_from_grid_to_shell_to_hydra_unchanged(tmp_path_factory, path, target, mark):
    csv = {"dataset": "csv", "dataset.path": path, "dataset.target": target, "dataset.delimiter": mark}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "digest", lambda choice: "0" * 64)
        planned = one_cell(tmp_path_factory.mktemp("g"), csv)
    assert [planned["dataset"][key] for key in ("path", "target", "delimiter")] == [path, target, mark]
    assert recomposed(planned) == planned


def test_overrides_are_what_differs_from_the_files(tmp_path):
    cell = one_cell(tmp_path, {"strategy": "streams", "strategy.tile_rows": 7, "network.clip_norm": 2.5}, GPU)
    assert sweeps.overrides(cell) == [
        *("dataset=small", "strategy=streams", "kernel=naive", "precision=fp32", "device=cuda"),
        *("device.name='NVIDIA H200'", "network.clip_norm=2.5", "strategy.tile_rows=7"),
    ]
    found = sweeps.overrides(one_cell(tmp_path, LAYERS | {"training.epochs": 3}))
    assert found[4] == "device=cpu" and found[5].startswith("network=")
    assert groups.load("network", found[5].removeprefix("network=")).keys() >= {"layers", "loss"}
    assert "network.layers=['linear 2','relu','linear 1']" in found and "training.epochs=3" in found


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "null"), (True, "true"), (False, "false"), (3, "3"), (0.5, "0.5"), ("a b", "'a b'")),
        *(("", "''"), ("it's", r"'it\'s'"), ("a\\", r"'a\\'"), ("a\\b", r"'a\b'"), ("a\\'b", r"'a\\\'b'")),
        *(([1, "x", [None]], "[1,'x',[null]]"), ([], "[]")),
    ],
)
def test_values_in_the_grammar_of_hydra(value, text):
    assert in_hydra(value) == text


# ---- wrong, hostile or too large


@settings(max_examples=200)
@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_arguments_are_checked_without_another_error(arguments):
    try:
        overrides.read(arguments)
    except ConfigError as error:
        assert len(str(error).splitlines()) <= 1 + sum("\n" in argument for argument in arguments)


@pytest.mark.parametrize("key", ["kernel.source", "kernel.fused", "strategy._target_", "dataset._target_"])
def test_a_cell_that_is_not_what_its_choice_says_is_refused(key):
    """Wherever it comes from: its values are compared with the choice's file."""
    config = compose.composed([])
    section, _, leaf = key.partition(".")
    config[section][leaf] = "other"
    with pytest.raises(ConfigError, match=f"{key} cannot be set"):
        check_cell(config)


def refused(capsys, main, arguments):
    """The one line that a command line is refused with."""
    assert main(arguments) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1, printed
    return printed


def test_a_cell_larger_than_the_machine_is_refused_before_any_work(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**8)
    large = ["dataset.rows=1000000", "dataset.features=32"]
    said = refused(capsys, snn.main, large)
    assert "at least 0.264 GB of memory (0.264 GB for dataset=small of 1000000 rows and 33 columns" in said
    assert "but this machine has 0.1 GB" in said
    assert "of memory" in refused(
        capsys, lambda paths: cli.main(["prepare", *paths]), [*large, f"output={tmp_path}/x.npy"]
    )
    assert "GB for network 8192-8192" in refused(capsys, snn.main, ["network.hidden=[8192,8192]"])


def test_a_table_larger_than_the_machine_is_refused_once_it_is_read(monkeypatch):
    config = compose.composed(["device=cpu"])
    config["dataset"] = {"name": "csv", "_target_": "snn.datasets.csv_table.make", "path": "x", "target": 0}
    monkeypatch.setattr(sizes, "usable_bytes", lambda: 10**6)
    table = measured.datasets.Table(np.zeros((10**4, 33), np.float32))
    monkeypatch.setattr(measured.datasets, "make", lambda choice: table)
    with pytest.raises(ConfigError, match="10000 rows and 33 columns"):
        measured.run(config)


# ---- suggestions


@pytest.mark.parametrize(
    ("word", "found"),
    [
        *(("combind", "combined"), ("COMBINED", "combined"), ("pcu", "cpu"), ("upc", None), ("gpu", None)),
        *(("zzz", None), ("", None), ("x" * 10_000, None)),
    ],
)
def test_only_what_is_like_a_word_is_suggested(word, found):
    known = ["combined", "reference", "cpu"]
    assert nearest(word, known) == found
    assert meant(word, known) == (f" (did you mean {found}?)" if found else "")


def test_every_key_that_is_known_may_be_given():
    for key in choices.known():
        if "." in key:
            choices.check_key(key, None)
    assert {"strategy", "network.hidden", "training.epochs", "output"} <= {*choices.known()}
    assert "network.layers" in choices.known({"network": "layers"})
