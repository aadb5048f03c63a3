"""The keys of a cell on the command line: what is composed, and what is refused with which words."""

import json
import subprocess
import sys

import hydra
import jsonschema
import pytest
from conftest import ROOT
from hydra import initialize_config_dir
from idx_files import image_set, write
from omegaconf import OmegaConf

from snn import prepare
from snn.config import compose, grammar, groups
from snn.errors import ConfigError


def test_defaults_are_the_papers():
    cell = compose.composed([])
    assert cell["network"] == {
        "hidden": [256],
        "init": "uniform01",
        "update_order": "sequential",
        "clip_norm": None,
        "recompute": [],
        "seed": 1,
    }
    assert cell["training"] == {
        "epochs": 100,
        "batch_size": 256,
        "accumulate": 1,
        "learning_rate": 0.002,
        "reduction": "mean",
        "gradient": "exact",
        "drop_last": False,
    }
    assert cell["protocol"]["runs"] == 10
    assert cell["protocol"]["rounds"] == 10
    assert (cell["dataset"]["name"], cell["strategy"]["name"], cell["kernel"]["name"]) == (
        "small",
        "reference",
        "naive",
    )


def test_what_one_cell_is_given_is_not_in_the_next():
    """Hydra composes the same choices once."""
    first = compose.composed([])
    given = compose.composed(["network.hidden=[4]", "training.epochs=3"])
    given["network"]["hidden"].append(5)
    given["kernel"]["precisions"].clear()
    assert compose.composed([]) == first != given


@pytest.mark.parametrize("group", groups.GROUPS)
def test_every_choice_is_named_as_its_file_and_composes(group, tmp_path):
    of_idx = [f"dataset.path={write(tmp_path, image_set())}", "training.batch_size=2"]
    for name in groups.names(group):
        values = groups.load(group, name)
        if group in ("dataset", "strategy", "kernel"):
            assert values["name"] == name
        extra = {
            "csv": ["dataset.path=t.csv", "dataset.target=y"],
            "idx": of_idx,
            "cnn": ["dataset=patterns"],
            "cnn_pytorch": ["dataset=patterns"],
        }
        assert compose.composed([f"{group}={name}", *extra.get(name, [])])


CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=y")
DELIMITERS = ("", ",,", '"', "1", "e", ".", "-", "\ufeff")


def with_csv(setting):
    """The arguments of a CSV file with one of them set otherwise."""
    key = setting.partition("=")[0]
    return [setting if one.startswith(f"{key}=") else one for one in CSV]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("header", 3),
        ("header", True),
        ("header", None),
        ("decimal", ","),
        ("thousands", "\u00a0"),
        ("thousands", "'"),
        ("comment", "#"),
        ("encoding", "utf-16"),
        ("na_values", [-999, "#DIV/0!", "\\N", ""]),
        ("delimiter", r"\s+"),
    ],
)
def test_how_a_table_is_written(key, value):
    assert compose.composed([*CSV, f"dataset.{key}={grammar.written(value)}"])["dataset"][key] == value


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
def test_a_delimiter(delimiter):
    assert compose.composed([*CSV, f"dataset.delimiter='{delimiter}'"])["dataset"]["delimiter"] == delimiter


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["dataset=smal"], "one of csv, fashion, idx, large, medium, mnist, patterns, small"),
        (["device=gpu"], "one of auto, cpu, cuda"),
        (["dataset.pth=x"], "dataset=small has no such key; it has rows, features, noise, seed"),
        (["dataset.path=x"], "dataset=small has no such key (it is one of dataset=csv, dataset=fashion, "),
        (
            ["network.hiden=[3]"],
            "no such key (did you mean network.hidden?); it has hidden, init, update_order",
        ),
        (["trainin.epochs=3"], "the keys are dataset, network"),
        (["training.epoch=3"], "(did you mean training.epochs?); it has epochs, batch_size, learning_rate"),
        (["strategy.tile_rows=3"], "(it is one of strategy=combined, strategy=streams); it has none"),
        (["training.epochs=many"], "training.epochs is 'many': it must be a whole number, at least 1"),
        (["training.epochs=1.5"], "training.epochs is 1.5: it must be a whole number, at least 1"),
        (["training.epochs=0"], "training.epochs is 0: it must be a whole number, at least 1"),
        (["training.learning_rate=-1"], "training.learning_rate is -1: it must be a number above 0"),
        (["training.learning_rate=nan"], "training.learning_rate is nan"),
        (["network.hidden=3"], "network.hidden is 3: it must be a list"),
        (
            ["network.layers=[relu]"],
            "has no such key (it is one of network=cnn, network=cnn_pytorch, network=layers)",
        ),
        (["network=layers", "network.layers=[linear]"], "'linear' is not right: it must be linear WIDTH"),
        (["network=layers", "network.layers=[]"], "network.layers is []: it must be a list of layers"),
        (["network=layers", "network.loss=mse"], "network.loss is 'mse': it must be one of mean_squared"),
        (["network=layers", "network.layers=[conv2d 4 3,linear 1]"], "conv2d needs images"),
        (["network.hidden=[]"], "network.hidden is []: it must be a list of one or more widths"),
        (["network.hidden=[0]"], "network.hidden is [0]"),
        (["network.init=zeros"], "one of uniform01, he_uniform, kaiming_uniform"),
        (["network.update_order=none"], "one of sequential, simultaneous"),
        (["network.clip_norm=0"], "above 0 or null for no clipping"),
        (["protocol.runs=0"], "protocol.runs is 0"),
        (["protocol.warmup_seconds=-1"], "protocol.warmup_seconds is -1: it must be a number, at least 0"),
        (["protocol.max_seconds=0"], "above 0 or null for no limit"),
        (["strategy=streams", "strategy.tile_rows=0"], "strategy.tile_rows is 0"),
        (["strategy=combined", "strategy.streams=0"], "strategy.streams is 0"),
        (["strategy=streams", "strategy.streams=x"], "strategy.streams is 'x'"),
        (["strategy=ensemble", "strategy.starts=0"], "strategy.starts is 0: it must be a whole number"),
        (["strategy=ensemble", "strategy.seeds=3"], "strategy.seeds is 3: it must be a list of whole"),
        (["strategy=ensemble", "strategy.seeds=[1,1]"], "a list without duplicates"),
        (["strategy=ensemble", "strategy.learning_rates=[0]"], "a list of numbers above 0, as [1.0e-4"),
        (
            ["strategy=ensemble", "strategy.initialisers=[ones]"],
            "initialisers, each one of uniform01, he_uniform, kaiming_uniform",
        ),
        (["dataset.noise=loud"], "dataset.noise is 'loud': it must be a number"),
        (
            ["dataset=csv"],
            "dataset.path and dataset.target are missing: dataset=csv needs them; set them with",
        ),
        (["dataset=csv", "dataset.path=x"], "dataset.target is missing: dataset=csv needs it; set it with"),
        *(([*CSV, f"dataset.delimiter='{one}'"], "text without control") for one in "\n\r\x00"),
        *(
            (["dataset=csv", "dataset.path=x", "dataset.target=0", f"dataset.{wrong}"], f"dataset.{key} is")
            for wrong in (
                "header=0",
                "header=-1",
                "header=1.5",
                "header=x",
                "decimal=:",
                "decimal=1",
                "thousands=ab",
                "thousands=0",
                "comment=a",
                "comment='\"'",
                "encoding=klingon",
                "encoding=base64",
                "encoding=1",
                "na_values=1",
                "na_values=[true]",
                "na_values=[null]",
            )
            for key in [wrong.partition("=")[0]]
        ),
        (
            with_csv("dataset.target=true"),
            "dataset.target is True: it must be the target column",
        ),
        (with_csv("dataset.target=1.5"), "dataset.target is 1.5: it must be the target column's name"),
        (with_csv("dataset.target=null"), "dataset.target is None: it must be"),
        (with_csv("dataset.target=[y]"), "dataset.target is ['y']: it must be"),
        (with_csv("dataset.path=3"), "dataset.path is 3: it must be the path of a file"),
        (with_csv("dataset.path="), "dataset.path is '': it must be the path of a file"),
        (with_csv("dataset.path='a\nb'"), "it must be text without control characters"),
        *(([*CSV, f"dataset.delimiter='{one}'"], "it must be one character that no") for one in DELIMITERS),
        ([*CSV, "dataset.sha256=12"], "dataset.sha256 is 12: it must be 64 hexadecimal digits, or null"),
        (["kernel.block=[64,64]"], "at most 1024 threads"),
        (["[["], "no argument: it must be KEY=VALUE"),
    ],
)
def test_refuses(overrides, said):
    with pytest.raises(ConfigError) as caught:
        compose.composed(overrides)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dataset=nope"], "snn: dataset=nope: not a choice"),
        (["training.batch_size=300"], "it must be at most 256, the number of rows of dataset=small"),
        (["device=cpu", "device.name=Abacus"], "device.name is 'Abacus'"),
    ],
)
def test_errors_on_the_command_line_are_one_line_without_a_traceback(arguments, said):
    done = subprocess.run([sys.executable, "-m", "snn", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_shows_the_choices():
    done = subprocess.run([sys.executable, "-m", "snn", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "|combined|" in done.stdout


def test_help_of_preparing_a_data_set(capsys):
    assert prepare.main(["--help"]) == 0
    assert "dataset=NAME ... output=FILE.npy" in capsys.readouterr().out
