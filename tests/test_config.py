"""The keys of a cell on the command line: what is composed, in which words, and what may have been meant."""

import json
import shlex
import subprocess
import sys

import hydra
import jsonschema
import pytest
from conftest import ROOT
from hydra import initialize_config_dir
from idx_files import image_set, write
from omegaconf import OmegaConf
from test_grid import sweeps_of

from snn.config import choices, compose, groups
from snn.config.overrides import written as in_hydra
from snn.config.suggestions import meant, nearest
from snn.errors import ConfigError
from snn.grid import sweeps
from snn.grid.grid_file import notes


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


CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=y")


@pytest.mark.parametrize("group", groups.GROUPS)
def test_every_choice_is_named_as_its_file_and_composes(group, tmp_path):
    of_idx = [f"dataset.path={write(tmp_path, image_set())}", "training.batch_size=2"]
    images = ["dataset=patterns"]
    extra = {"csv": CSV[1:], "idx": of_idx, "cnn": images, "cnn_pytorch": images}
    for name in groups.names(group):
        if group in choices.NAMED:
            assert groups.load(group, name)["name"] == name
        assert compose.composed([f"{group}={name}", *extra.get(name, [])])


WRITTEN = {"header": (3, True, None), "decimal": (",",), "thousands": ("\u00a0", "'"), "comment": ("#",)}
WRITTEN |= {"encoding": ("utf-16",), "na_values": ([-999, "#DIV/0!", "\\N", ""],)}
WRITTEN |= {"delimiter": (r"\s+", ",", ";", "\t", "|", " ")}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key in WRITTEN for value in WRITTEN[key]])
def test_how_a_table_is_written(key, value):
    assert compose.composed([*CSV, f"dataset.{key}={in_hydra(value)}"])["dataset"][key] == value


@pytest.mark.parametrize(
    "text",
    ["a {b} ü/c", "a b(c)", "it's", "a,b", ";", "[x", "[a] (b)", 'x"y,', "$(x)", "{a}", "a;`b`", "a=b"],
)
def test_a_text_needs_no_quotes(text):
    assert compose.composed([f"output={text}"])["output"] == text
    csv = ["dataset=csv", "dataset.path=x", f"dataset.target={text}"]
    assert compose.composed(csv)["dataset"]["target"] == text


@pytest.mark.parametrize("text", ["'a", "'it's'", '"a" b'])
def test_what_a_message_says_to_write_is_read(text):
    """By a shell, and by Hydra."""
    with pytest.raises(ConfigError) as caught:
        compose.composed([f"output={text}"])
    right = str(caught.value).partition("has quotes of its own, ")[2].removesuffix(" in a shell")
    assert compose.composed(shlex.split(right))["output"] == text


def test_fewest_runs_of_a_protocol_may_be_more_than_the_runs_that_are_set():
    """They are then of the file, and the runs decide."""
    assert compose.composed(["protocol.runs=3"])["protocol"]["min_runs"] == 10
    assert compose.composed(["protocol.runs=5", "protocol.min_runs=5"])["protocol"]["min_runs"] == 5


@pytest.mark.parametrize("protocol", groups.names("protocol"))
def test_the_command_line_of_a_planned_cell_is_its_own_whatever_its_protocol(tmp_path, protocol):
    sweep = {"protocol": protocol, "protocol.runs": 2, "protocol.max_seconds": 7}
    (planned,) = sweeps_of(tmp_path, {"x": sweep})["x"].cells
    again = compose.composed(sweeps.overrides(planned))
    assert {section: again[section] for section in planned} == planned


def test_hydras_own_groups_are_left_out():
    """They are half of the work of a composition."""
    compose.composed([])
    with initialize_config_dir(config_dir=str(groups.CONFIG), version_base="1.3"):
        found = hydra.compose("config", return_hydra_config=True)["hydra"]
    assert all(OmegaConf.is_missing(found, group) for group in ("launcher", "sweeper", "job_logging"))


def test_a_cell_from_the_command_line(tmp_path):
    output = tmp_path / "deep" / "cell.json"
    arguments = [
        "dataset=small",
        "strategy=combined",
        "network.hidden=[8]",
        "training.epochs=2",
        "device=cpu",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "snn", *arguments, "protocol.runs=3", f"output={output}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(output.read_text())
    jsonschema.validate(record, json.loads((ROOT / "snn/records/record.schema.json").read_text()))
    assert record["status"] == "ok"
    assert [set(run) for run in record["runs"]] == [{"seconds", "final_loss", "final_mse"}] * 3
    assert record["summary"]["mean_seconds"] > 0
    assert record["ledger"]["mallocs"] == record["ledger"]["frees"] > 0
    assert record["provenance"]["backend"] == "cpu"
    assert record["provenance"]["device"]
    assert list(output.parent.iterdir()) == [output]


def test_an_error_on_the_command_line_is_one_line_without_a_traceback():
    arguments = ["device=cpu", "device.name=Abacus"]
    done = subprocess.run([sys.executable, "-m", "snn", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "device.name is 'Abacus'" in done.stderr and len(done.stderr.splitlines()) == 1


def test_help_shows_the_choices():
    done = subprocess.run([sys.executable, "-m", "snn", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "|combined|" in done.stdout


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
    assert [note.partition(":")[0] for note in found] == [
        "sweeps.flat",
        "sweeps.inside.union.1",
        "sweeps.on_cpu.on_cpu",
    ]
    assert found[0] == (
        "sweeps.flat: network.hidden: [128, 256] is one network with 2 hidden layers; "
        "2 networks are [[128], [256]], and [[128, 256]] says that one is meant"
    )
    assert not list(notes(ROOT / "config/grid.yaml"))


# ---- suggestions


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("combind", "combined"),
        ("COMBINED", "combined"),
        ("pcu", "cpu"),
        ("upc", None),
        ("gpu", None),
        ("zzz", None),
        ("", None),
        ("x" * 10_000, None),
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
