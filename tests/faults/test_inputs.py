"""The fuzzer's inputs, some of each door, those that once were met with a fault, and the fuzzer itself."""

import sys
import time
from pathlib import Path

import attempt
import command_lines
import data_files
import grids
import pytest
import records
import torture
from attempt import HERE, Input, met
from command_lines import TRAINED
from garbage import CSV
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torture import DOORS, knock
from wrong_settings import all_wrong

from snn.config.compose import composed
from snn.errors import ConfigError

_GRID = b"device: cpu\nsweeps: {mine: {strategy: [reference, combined]}}\n"
_DATA = ("training.batch_size=1", "output=t.npy")
_OF_CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=b", "dataset.held_out=0", *_DATA)
_WIDE = b"sweeps: {mine: {network: layers, network.layers: [linear 9999999, linear 1]}}"
_KEY = b"sweeps: {mine: {dataset: csv, dataset.path: t.csv, dataset.target: b, epochs: 3}}"
_LABELS = ("network=layers", "network.layers=['linear 2']", "network.loss=cross_entropy")
_LAYERS = ("training.batch_size=2", "network=layers", "network.layers=['linear 9999999', 'linear 1']")

KEPT = [
    Input("cli", ("merge", "a\nb"), {}, r"a\nb: cannot be read"),
    Input(
        "snn more-rounds", ("mine", "grid=g.yaml", "rounds=" + "9" * 5000), {"g.yaml": _GRID}, "rounds is '99"
    ),
    Input("snn", ("device=cpu", "round=" + "9" * 5000), {}, "round=999"),
    Input("grid", (f"{HERE}/g.yaml",), {"g.yaml": _WIDE}, f"{HERE}/g.yaml"),
    Input("snn prepare", ("output=r.npy", *_LAYERS), {}, "network.layers is 'linear 9999999'"),
    Input("cli", ("plan", "dataset=small", "--free", "1" * 400 + "GiB"), {}, "--free is '111"),
    Input(
        "snn", (*_OF_CSV[:-1], *_LABELS), {"t.csv": b"a,b\n1,0\n1,1e30\n1,5\n"}, "line 3, column 'b': 1e+30"
    ),
    Input("snn recommend", TRAINED, {"t.csv": "pipe"}, "t.csv: cannot be read: it is a pipe"),
    Input(
        "grid",
        ("g.yaml",),
        {"g.yaml": _KEY, "t.csv": CSV},
        "'epochs' is not a key here (did you mean training",
    ),
]
"""Inputs that were met with a fault: add what the fuzzer finds."""

VALID = {
    "command": lambda: Input("cli", ("list", "kernels")),
    "cell of a command": lambda: Input("cli", ("run", "device=cpu", "--strict", "output=r.json")),
    "command line": lambda: Input("snn", ("device=cpu", "output=r.json")),
    "recommendation": lambda: Input("snn recommend", TRAINED, {"t.csv": CSV}),
    "grid": lambda: Input("grid", ("g.yaml",), {"g.yaml": _GRID}),
    "CSV": lambda: Input("snn prepare", _OF_CSV, {"t.csv": CSV}),
    "images": lambda: Input("snn prepare", ("dataset=idx", "dataset.path=images", *_DATA), data_files.FOLDER),
    "archive": lambda: Input("snn retabulate", ("a", "out"), records.archive()),
    "two archives": lambda: Input("snn compare", ("a", "a", "out"), records.archive()),
    "plan of rounds": lambda: Input("plan", ("p.json",), {"p.json": b'{"x/y": 3}'}),
}
LISTS = {
    "kept": lambda: KEPT,
    "arguments": command_lines.of_modules,
    "commands": command_lines.of_commands,
    "options": command_lines.wrong_options,
    "grids": grids.known,
    "CSV files": data_files.known_csv,
    "images": data_files.known_images,
    "data sets": data_files.known_data_sets,
    "plans": data_files.known_plans,
    "records": records.known,
    **records.KNOWN,
}

_OF_USERS = ("command line", "commands", "grid", "CSV")
_MOST, _FEW = 28, 10
"""Inputs for each of these doors, and for each of the others, beside those of LISTS; a quarter is garbage."""


@pytest.mark.parametrize("inputs", LISTS.values(), ids=LISTS)
def test_what_a_list_has_is_refused(inputs, share, tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    found = inputs()
    for number, one in enumerate(found if found is KEPT else share(found)):
        (folder / str(number)).mkdir()
        assert met(one, folder / str(number)) == ("refused", ""), one


def test_every_wrong_value_of_a_setting_is_refused_with_its_key(share):
    wrong = all_wrong()
    assert len(wrong) > 2000
    for one in share(wrong):
        with pytest.raises(ConfigError, match=one.key.partition(".")[0]):
            composed(command_lines.with_setting(one, "snn").arguments)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("number", [0, 1], ids=["malformed", "garbage"])
def test_every_input_is_refused_or_valid(door, number, share, tmp_path_factory):
    count = _MOST if door in _OF_USERS else _FEW
    count = max(1, len(share(range(count // 4 if number else count - count // 4))))

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(DOORS[door][number]())
    def run(one):
        how, seen = met(one, tmp_path_factory.mktemp("input"))
        assert how in ("refused", "valid"), seen

    run()


@pytest.mark.parametrize("make", VALID.values(), ids=VALID)
def test_what_the_inputs_are_made_of_is_accepted(tmp_path, make):
    """Else they would be refused for another reason."""
    assert met(make(), tmp_path)[0] == "accepted"


# ---- the fuzzer sees what it looks for


def says(*lines, status=2):
    def main(arguments):
        print(*lines, sep="\n", file=sys.stderr)
        return status

    return main


def raises(arguments):
    raise KeyError(arguments[0])


def writes_elsewhere(arguments):
    Path("../elsewhere").write_text("")
    return says(f"snn: {arguments[0]}")(arguments)


PROGRAMS = [
    (raises, "traceback"),
    (lambda arguments: sys.exit(1), "traceback"),
    (says("Traceback (most recent call last):"), "traceback"),
    (lambda arguments: time.sleep(60), "hang"),
    (lambda arguments: 0, "accepted"),
    (says("snn: x.json is wrong", status=1), "not named"),
    (says("x.json is wrong"), "not named"),
    (says("snn: x.json", "is wrong"), "not named"),
    (says("snn: it is wrong"), "not named"),
    (writes_elsewhere, "written elsewhere"),
    (says("snn: x.json is wrong"), "refused"),
]


@pytest.mark.parametrize(("program", "how"), PROGRAMS)
def test_each_fault_is_seen_and_counted(tmp_path, monkeypatch, program, how):
    monkeypatch.setitem(attempt.COMMANDS, "snn", program)
    monkeypatch.setattr(attempt, "HANGS_AFTER", 0.2 if how == "hang" else 10)
    one = Input("snn", ("x.json",), {}, "x.json")
    assert met(one, tmp_path)[0] == how
    monkeypatch.setitem(DOORS, "new", (lambda: st.just(one), lambda: st.just(one)))
    told = []
    assert knock("new", 1, 1, told.append) == {"inputs": 1, "known to be malformed": 1, how: 1}
    assert len(told) == (how != "refused")


def test_garbage_that_is_accepted_has_to_be_valid(tmp_path, monkeypatch):
    monkeypatch.setitem(attempt.COMMANDS, "snn", lambda arguments: 0)
    for valid, how in ((True, "valid"), (False, "accepted")):
        one = Input("snn", (), is_wrong=False, really_valid=lambda here, valid=valid: valid)
        assert met(one, tmp_path / how)[0] == how


def test_the_same_seed_gives_the_same_inputs(monkeypatch):
    """A run of the fuzzer prints it, to be repeated."""
    seen = []
    monkeypatch.setattr(torture.attempt, "met", lambda one, folder: seen.append(repr(one)) or ("refused", ""))
    for _ in range(2):
        knock("plan of rounds", 20, 7, print)
    assert seen[:20] == seen[20:]
