"""What a user may write, and the words in which it is refused: ours, with what would be right."""

import shlex

import pytest
import yaml
from conftest import ROOT

from snn import run
from snn.config import groups, keys
from snn.config.compose import composed
from snn.config.suggestions import meant, nearest
from snn.errors import ConfigError
from snn.grid import notes, sweeps
from snn.hardware.devices import Device
from snn.measurement import cell

CSV = ("dataset=csv", "dataset.path=a.csv", "dataset.target=y")
SPLIT = "is cut off where the shell found a space: put it in quotes, "
SEVERAL = "several are an axis of a sweep in a grid file, "
OF_HYDRA = ("hydra", "--multirun to your", "override_grammar", "convert", "Exception", "viable", "Optional")

COMMAND_LINES = [
    (
        ["--epochs", "10"],
        "'--epochs' is no argument: settings are KEY=VALUE (did you mean training.epochs=10?)",
    ),
    (["--epochs=10"], "settings are KEY=VALUE (did you mean training.epochs=10?); the options are --help"),
    (["--batch-size", "64"], "did you mean training.batch_size=64?"),
    (["--colour"], "settings are KEY=VALUE, as training.epochs=10; the options are --help, --strict and"),
    (["--multirun"], "several cells are a sweep of a grid file, which snakemake runs"),
    (["-m", "strategy=a"], "several cells are a sweep of a grid file"),
    (["network.hidden=[64,", "64]"], f"{SPLIT}'network.hidden=[64, 64]'"),
    (["network.layers=[linear", "8,", "relu]"], f"{SPLIT}'network.layers=[linear 8, relu]'"),
    (["network.hidden=[64"], "'network.hidden=[64': a bracket is not closed"),
    (["network.hidden=64]"], "a bracket is closed that was not opened"),
    (["network.hidden=256"], "network.hidden is 256: it must be a list of one or more widths"),
    (["network.hidden=256,128"], "a list is written in brackets, as network.hidden=[256,128]"),
    (["network.hidden=(64,64)"], "a list is written in square brackets"),
    (["network.hidden=[64;64]"], "a list is written in square brackets"),
    (["strategy=combined,reference"], f"a cell has one strategy; {SEVERAL}strategy: [combined, reference]"),
    (["strategy=[combined,reference]"], f"a cell has one strategy; {SEVERAL}strategy: [combined, reference]"),
    (["training.batch_size=64,128"], f"{SEVERAL}training.batch_size: [64, 128]"),
    (["training.epochs=range(1,5)"], f"a cell has one training.epochs; {SEVERAL}"),
    (["training.epochs=glob(*)"], f"a cell has one training.epochs; {SEVERAL}"),
    (["dataset.path=x"], "dataset.path: dataset=small has no such key (it is one of dataset=csv, "),
    (["strategy.tile_rows=3"], "(it is one of strategy=combined, strategy=streams); it has none"),
    (
        ["protocol.runs=1", "protocol.min_runs=5"],
        "protocol.min_runs is 5: it must be at most protocol.runs, wh",
    ),
    (["protocol.min_runs=11"], "protocol.min_runs is 11: it must be at most protocol.runs, which is 10"),
    (["+colour=1"], "a setting is replaced, with KEY=VALUE; none is added (+) or removed (~)"),
    (["++training.epochs=1"], "with KEY=VALUE, as training.epochs=1; none is added"),
    (["~strategy"], "with KEY=VALUE, as strategy=VALUE; none is added (+) or removed (~)"),
    (["strategy:combined"], "it must be KEY=VALUE (did you mean strategy=combined?)"),
    (["strategy =combined"], "it must be KEY=VALUE (did you mean strategy=combined?)"),
    (["training/epochs=1"], "it must be KEY=VALUE (did you mean training.epochs=1?)"),
    (["Training.epochs=1"], "it must be KEY=VALUE (did you mean training.epochs=1?)"),
    (["strategy"], "it must be KEY=VALUE (did you mean strategy=reference?)"),
    (["config/grid.yaml"], "a grid file is run by snakemake --cores 1 --config grid=FILE"),
    (["grid=g.yaml"], "grid: there is no such key (a grid file is run by snakemake"),
    (["epochs=10"], "epochs: there is no such key (did you mean training.epochs?); the keys are"),
    (["hidden=[64]"], "(did you mean network.hidden?)"),
    (["lr=0.1"], "(did you mean training.learning_rate?)"),
    (["strateg=combined"], "(did you mean strategy?)"),
    (["trainig.epochs=10"], "(did you mean training.epochs?)"),
    (["training.epoch=10"], "training has no such key (did you mean training.epochs?); it has epochs"),
    (["network.hiden=[3]"], "network=one_hidden has no such key (did you mean network.hidden?)"),
    (
        ["strategy=combind"],
        "strategy=combind: not a choice (did you mean combined?); strategy must be one of",
    ),
    (["strategy=Combined"], "(did you mean combined?)"),
    (["device=gpu"], "device=gpu: not a choice (did you mean cuda?); device must be one of auto, cpu, cuda"),
    (["precision=fp16"], "precision=fp16: not a choice; precision must be one of bf16, fp32, tf32"),
    (["dataset=data/wine.csv"], "dataset=csv dataset.path=data/wine.csv dataset.target=COLUMN)"),
    (["network=128"], "network=128: not a choice (widths are network.hidden=[128])"),
    (["network.init=uniform"], "network.init is 'uniform': it must be one of uniform01, he_uniform"),
    (
        ["dataset=csv"],
        "dataset.path and dataset.target are missing: dataset=csv needs them; set them with data",
    ),
    (["training.epochs=many"], "training.epochs is 'many': it must be a whole number, at least 1"),
    (["training.epochs=1.5"], "training.epochs is 1.5: it must be a whole number"),
    (["training.epochs='10'"], "training.epochs is '10': it must be a whole number"),
    (["training.epochs="], "training.epochs is '': it must be a whole number"),
    (["training.epochs=null"], "training.epochs is None: it must be a whole number"),
    (["training.epochs=[1,2]"], "training.epochs is [1, 2]: it must be a whole number"),
    (["training.epochs={a:1}"], "training.epochs is {'a': 1}: it must be a whole number"),
    (["training.learning_rate=fast"], "training.learning_rate is 'fast': it must be a number above 0"),
    (["protocol.max_seconds=x"], "protocol.max_seconds is 'x': it must be a number above 0 or null"),
    (["protocol.neighbour=[a]"], "protocol.neighbour is ['a']: it must be one of any, none"),
    (["protocol.neighbour=referenc"], "workspace (did you mean reference?)"),
    (["kernel.block=16"], "kernel.block is 16: it must be the block size [x, y]"),
    (["kernel.block=[a,b]"], "kernel.block is ['a', 'b']: it must be the block size"),
    (["kernel.work=x"], "kernel.work is 'x': it must be the rows and columns"),
    (["round=x"], "round is 'x': it must be from 1 to 1000"),
    (["output=[a]"], "output is ['a']: it must be the path of a file"),
    (["output=3"], "output is 3: it must be the path of a file, in quotes if it looks like a number"),
    (["data={a:1}"], "data is {'a': 1}: it must be the path of a file"),
    (["device=cpu", "device.name=3"], "device.name is 3: it must be the name of a device, in quotes"),
    (["output='a b"], "the value cannot be read: text with such characters has quotes of its own"),
]


@pytest.mark.parametrize(("arguments", "said"), COMMAND_LINES, ids=lambda value: str(value)[:50])
def test_a_command_line_is_refused_in_our_words(capsys, monkeypatch, arguments, said):
    monkeypatch.setattr(cell, "run", lambda settings: pytest.fail("it was measured"))
    assert run.main(arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("snn: ") and shown.count("\n") == 1
    assert said in shown
    assert not any(word in shown for word in OF_HYDRA), shown


@pytest.mark.parametrize(
    "text",
    ["a {b} ü/c", "a b(c)", "it's", "a,b", ";", "[x", "[a] (b)", 'x"y,', "$(x)", "{a}", "a;`b`", "a=b"],
)
def test_a_text_needs_no_quotes(text):
    assert composed([f"output={text}"])["output"] == text
    csv = ["dataset=csv", "dataset.path=x", f"dataset.target={text}"]
    assert composed(csv)["dataset"]["target"] == text


@pytest.mark.parametrize("text", ["'a", "'it's'", '"a" b'])
def test_what_a_message_says_to_write_is_read(text):
    """By a shell, and by Hydra."""
    with pytest.raises(ConfigError) as caught:
        composed([f"output={text}"])
    right = str(caught.value).partition("has quotes of its own, ")[2].removesuffix(" in a shell")
    assert composed(shlex.split(right))["output"] == text


def test_fewest_runs_of_a_protocol_may_be_more_than_the_runs_that_are_set():
    """They are then of the file, and the runs decide."""
    assert composed(["protocol.runs=3"])["protocol"]["min_runs"] == 10
    assert composed(["protocol.runs=5", "protocol.min_runs=5"])["protocol"]["min_runs"] == 5


@pytest.mark.parametrize("protocol", groups.names("protocol"))
def test_the_command_line_of_a_planned_cell_is_its_own_whatever_its_protocol(tmp_path, protocol):
    sweep = {"protocol": protocol, "protocol.runs": 2, "protocol.max_seconds": 7}
    (planned,) = grid_of(tmp_path, {"x": sweep})["x"].cells
    again = composed(sweeps.overrides(planned))
    assert {section: again[section] for section in planned} == planned


# ---- grids


def grid_of(folder, sweeps_, **others):
    path = folder / "grid.yaml"
    path.write_text(yaml.safe_dump({"sweeps": sweeps_, **others}))
    return sweeps.read(path, Device("cpu", "AMD EPYC"))


GRIDS = [
    (
        {"network": {"hidden": [64]}},
        "x.network: {'hidden': [64]} is not right: keys of network are written wi",
    ),
    ({"network": {"hidden": [64]}}, "are written with a dot: network.hidden: [64]"),
    (
        {"training": {"epochs": 3}},
        "not a key here (keys of training are written with a dot: training.epochs: 3)",
    ),
    (
        {"training": {"epochs": 3}, "stratgy": "graph", "tune": 3},
        "'stratgy' (did you mean strategy?), 'training' (keys of training are written with a dot: "
        "training.epochs: 3), 'tune' are not keys here: one of",
    ),
    ({"dataset": {"path": "x"}}, "keys of dataset are written with a dot: dataset.path: 'x'"),
    (
        {"dataset": "wine.csv"},
        "(your own file is dataset: csv dataset.path: wine.csv dataset.target: COLUMN)",
    ),
    ({"dataset": "csv"}, "dataset.path and dataset.target are missing"),
    (
        {"strategy": ["combined", "referense"]},
        "strategy.1: 'referense' is not a choice (did you mean reference?)",
    ),
    ({"strategy": "combined,reference"}, "(a list is written in brackets, [combined,reference])"),
    ({"epochs": 3}, "'epochs' is not a key here (did you mean training.epochs?)"),
    ({"stratgy": "graph"}, "'stratgy' is not a key here (did you mean strategy?)"),
    ({"network": 128}, "128 is not right (widths are network.hidden: [128])"),
    ({"strategy.tile_rows": 3}, "(it is one of strategy=combined, strategy=streams)"),
    (
        {"protocol.runs": 1, "protocol.min_runs": 5},
        "protocol.min_runs is 5: it must be at most protocol.runs",
    ),
]


@pytest.mark.parametrize(("sweep", "said"), GRIDS, ids=str)
def test_a_grid_is_refused_with_what_would_be_right(tmp_path, sweep, said):
    with pytest.raises(ConfigError) as caught:
        grid_of(tmp_path, {"x": sweep})
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_grid_without_sweeps_says_what_one_is(tmp_path):
    path = tmp_path / "grid.yaml"
    for text, said in (
        ("strategy: graph", ": a grid has sweeps, as"),
        ("sweep: {}", "(is sweep meant to be it?)"),
    ):
        path.write_text(text)
        with pytest.raises(ConfigError) as caught:
            sweeps.read(path, Device("cpu", "x"))
        assert "the key sweeps is missing" in str(caught.value) and said in str(caught.value)


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
    grid_of(tmp_path, settings)
    found = list(notes.notes(tmp_path / "grid.yaml"))
    assert [note.partition(":")[0] for note in found] == [
        "sweeps.flat",
        "sweeps.inside.union.1",
        "sweeps.on_cpu.on_cpu",
    ]
    assert found[0] == (
        "sweeps.flat: network.hidden: [128, 256] is one network with 2 hidden layers; "
        "2 networks are [[128], [256]], and [[128, 256]] says that one is meant"
    )
    assert not list(notes.notes(ROOT / "config/grid.yaml"))


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
    for key in keys.known():
        if "." in key:
            keys.check_key(key, None)
    assert {"strategy", "network.hidden", "training.epochs", "output"} <= {*keys.known()}
    assert "network.layers" in keys.known({"network": "layers"})
