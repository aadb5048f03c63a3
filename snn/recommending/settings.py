"""The command line of ``snn recommend``: what is trained, where, for how long, and where results go."""

import argparse
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yaml import YAMLError

from snn.config import groups
from snn.config.options import Options
from snn.config.suggestions import meant
from snn.config.yaml_file import read_text
from snn.errors import ConfigError, SnnError, shown
from snn.files.regular import path_of
from snn.recommending import SWEEP

if TYPE_CHECKING:
    from snn.datasets import Table
    from snn.grid.naming import Cell

DESCRIPTION = """Which strategy trains your network fastest on this device, and why.

Measures the candidates of config/recommend.yaml through the workflow, gives those in the lead more rounds
while there is time, and leaves a ranked table and a report. What was measured stays: the same command
continues, with a larger --budget for longer. Without a GPU it measures the CPU, and shows published
results of a GPU."""

EPILOG = """KEY=VALUE are settings as in a grid: training.reduction=sum, or a network of any layers:
network=layers 'network.layers=[linear 64, relu, linear 1]'
How a table is written is detected; dataset.header, delimiter, decimal, thousands, encoding, comment and
na_values set it, as in dataset.header=false"""

MOST_OF_BATCH = 64
"""Rows of a batch of a user's table, if the user doesn't give the batch size."""

_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_LEAST = 20.0
"""Seconds: less does not suffice for one round."""

_CHARACTERS = ("dataset.delimiter", "dataset.decimal", "dataset.thousands", "dataset.comment")
"""Keys of one character, which YAML may read as something else: `|` begins a text of several lines."""
_BATCH_SIZE = "training.batch_size"

_OF_TABLES = (".csv", ".tsv", ".txt", ".data")
"""What the name of a table ends with."""

_CHOSEN = ("strategy", "protocol", "device", "devices", "union", "on_cpu")
"""What is not a setting of the training."""

_OF_CLASSES = 0.02
"""Learning rate of cross-entropy, whose gradients are smaller than those of squared errors."""
_OF_IMAGES = "patterns"
"""The data set of a network that takes images, if none is named: it is made by a rule."""
_OWN_NETWORK = "mlp"
"""For given widths, or a table: the paper's initial weights are all positive, and diverge elsewhere."""


@dataclass(frozen=True)
class Settings:
    """``grid`` are the sweep's settings, ``budget`` is in seconds, ``device`` as in a grid or a GPU's name.

    ``choice`` is the list of candidates, ``few`` or ``all``, and ``output`` the folder of what is left.
    ``keys`` are those that were given as KEY=VALUE.
    """

    grid: Mapping[str, Any]
    budget: float
    device: str
    choice: str
    output: Path
    keys: frozenset[str] = frozenset()


def parser() -> Options:
    """The options, as they are read, helped with and completed."""
    images = "of images, if the network takes those, patterns"
    made = Options("recommend", DESCRIPTION, EPILOG)
    made.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings, as in a grid")

    def add(option: str, text: str) -> None:
        name, _, metavar = option.partition(" ")
        value: dict[str, Any] = {"metavar": metavar} if metavar else {"action": "store_true"}
        made.add_argument(name, help=text, **value)

    add("--csv FILE", "a CSV file to train on, one sample per row")
    add("--target COLUMN", "the column to predict: its name, or else its number from 0")
    add(
        "--dataset NAME", f"another data set (default: small; {images}): {', '.join(groups.names('dataset'))}"
    )
    add("--hidden N,N", "widths of the hidden layers, as 64,64 (fully connected, ReLU)")
    add("--classify", "the target of --csv is a class, a text or a whole number")
    add("--network NAME", f"another network: {', '.join(groups.names('network'))}")
    add(
        "--batch-size N", "rows per training step (default: 64 with --csv, fewer for a small table; else 256)"
    )
    add("--epochs N", "passes over the data in one training (default: 100)")
    add("--learning-rate R", "of plain gradient descent (default: 0.002; with --classify 0.02)")
    add(
        "--budget TIME",
        "how long it may take, as 90s (default: 2min); if whole trainings take too long, runs have fewer "
        "epochs, or fewer rows; one too short even for these is refused, and a first round that has begun "
        "is finished",
    )
    add(
        "--device NAME",
        "auto, cuda, cpu, or a GPU's name: for one not in this machine, only published results",
    )
    add("--all", "measure every strategy, not only the usual candidates")
    add("--output FOLDER", "for the table and the report, which are replaced (default: recommendation-NAME)")
    made.set_defaults(budget="2min", device="auto")
    return made


def parse(arguments: Sequence[str]) -> Settings:
    """The settings of a command line. Raises ConfigError, naming option and value, and DataError for a table
    that cannot be read or whose classes cannot be counted."""
    from snn.config import overrides  # with NumPy, for which neither the help nor the completion waits

    given = parser().read(arguments)
    grid = _of_options(given)
    own = _own(given.settings, grid)
    _check_given_once(grid, own, given)
    grid |= own
    if given.csv is not None or given.hidden is not None:
        grid.setdefault("network", _OWN_NETWORK)
    network = grid.get("network", _OWN_NETWORK)
    if given.hidden is not None and "hidden" not in groups.options("network", network):
        raise ConfigError(
            f"--hidden is {given.hidden!r}, but the network {network} has its own layers: give one of the two"
        )
    if _takes_images(grid, network) and grid.setdefault("dataset", _OF_IMAGES) == "csv":
        raise ConfigError(
            f"the network {network} has convolutions, which need images, but the data set is a table: leave "
            "it out for fully connected layers, whose widths are given as --hidden"
        )
    if given.dataset == "csv" and "dataset.path" not in grid:
        raise ConfigError("--dataset is 'csv': give the table as --csv FILE --target COLUMN")
    if given.output == "":
        raise ConfigError("--output is '': it must be a folder, for the table and the report")
    budget = _seconds(given.budget)
    for key in own:
        overrides.check_key(key, str(grid[key]), groups.chosen(grid))
    if given.classify:
        grid |= {"training.learning_rate": _OF_CLASSES} | grid | _classifier(given, grid, frozenset(own))
        grid.pop("network.hidden", None)
    name = Path(given.csv).stem if given.csv else str(grid.get("dataset", "small"))
    output = given.output or f"recommendation-{re.sub('[^A-Za-z0-9_]+', '-', name).strip('-') or 'csv'}"
    choice = "all" if given.all else "few"
    return Settings(grid, budget, given.device, choice, path_of(output), frozenset(own))


def with_batch_size(settings: Settings) -> Settings:
    """The settings, for a user's table with a batch size, if they have none; the table is read.

    That is ``MOST_OF_BATCH``, or of a table with fewer training rows the largest power of two that they fill.
    Raises ConfigError and DataError as the grid and the table do.
    """
    if settings.grid.get("dataset") != "csv" or _BATCH_SIZE in settings.grid:
        return settings
    from snn import datasets

    cell, table = _table_of(settings.grid)
    rows, _ = datasets.counts(len(table.values), cell["dataset"])
    size = min(MOST_OF_BATCH, 1 << (rows.bit_length() - 1))
    return replace(settings, grid={**settings.grid, _BATCH_SIZE: size})


def _table_of(grid: Mapping[str, Any]) -> "tuple[Cell, Table]":
    """A cell of these settings, and its table."""
    from snn import datasets
    from snn.grid import sweeps
    from snn.hardware.devices import Device

    reader = sweeps.Reader(Path(SWEEP), {"sweeps": {SWEEP: {**grid, "strategy": "reference"}}})
    (cell,) = reader.sweeps([SWEEP], Device("cpu", "any"), None)[SWEEP].cells
    return cell, datasets.make(cell["dataset"])


# ---- options


def _of_options(given: argparse.Namespace) -> dict[str, Any]:
    """The settings that options stand for."""
    grid: dict[str, Any] = {}
    if given.csv is not None:
        if given.target is None:
            raise ConfigError("--csv is given without --target: name the column to predict, or its number")
        if given.target == "":
            raise ConfigError("--target is '': it must be the name of a column, or its number, as 0 or -1")
        is_number = re.fullmatch(r"-?[0-9]{1,6}", given.target)  # as in a grid
        grid["dataset"], grid["dataset.path"] = "csv", str(_find_table(given.csv))
        grid["dataset.target"] = int(given.target) if is_number else given.target
    elif given.target is not None:
        raise ConfigError(f"--target is {given.target!r}, but there is no --csv that it could be a column of")
    if given.csv is not None and given.dataset is not None:
        raise ConfigError(f"--csv is {given.csv!r} and --dataset {given.dataset!r}: give one of the two")
    for key, (option, read) in _OPTIONS.items():
        text = getattr(given, option[2:].replace("-", "_"))
        if read is not None and text is not None:
            grid[key] = read(text, option)
    return grid


def _find_table(path: str) -> Path:
    """Where the file of --csv is. Raises ConfigError if there is none."""
    try:
        exists = bool(path) and path_of(path).exists()
    except OSError as error:
        raise ConfigError(f"--csv is {shown(path)}: it cannot be read: {error.strerror}") from error
    if not exists:
        raise ConfigError(f"--csv is {shown(path)}: there is no such file")
    return path_of(path).absolute()


def _choice(name: str, option: str) -> str:
    names = groups.names(option[2:])
    if name not in names:
        raise ConfigError(f"{option} is {name!r}{meant(name, names)}: it must be one of {', '.join(names)}")
    return name


def _widths(text: str, option: str) -> list[list[int]]:
    """One network, not an axis of several."""
    from snn.config.settings import RANGES  # with NumPy

    most = int(RANGES["network.hidden"].most)
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,7}", part) and 1 <= int(part) <= most for part in parts):
        raise ConfigError(
            f"{option} is {shown(text)}: it must be widths of layers, 1 to {most}, with commas, as 64,64"
        )
    return [[int(part) for part in parts]]


def _whole(text: str, option: str) -> int:
    if not re.fullmatch(r"[0-9]{1,18}", text) or not int(text):
        raise ConfigError(f"{option} is {shown(text)}: it must be a whole number, at least 1")
    return int(text)


def _real(text: str, option: str) -> float:
    digits = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?", text)
    number = float(text) if digits else 0.0
    if not (isfinite(number) and number > 0):
        raise ConfigError(f"{option} is {shown(text)}: it must be a number above 0, as 0.002")
    return number


_OPTIONS: Mapping[str, tuple[str, Callable[[str, str], Any] | None]] = {
    "dataset.path": ("--csv", None),
    "dataset.target": ("--target", None),
    "dataset": ("--dataset", _choice),
    "network": ("--network", _choice),
    "network.hidden": ("--hidden", _widths),
    _BATCH_SIZE: ("--batch-size", _whole),
    "training.epochs": ("--epochs", _whole),
    "training.learning_rate": ("--learning-rate", _real),
}
"""The option that sets a key, and how its text becomes the value; a table needs two options at once."""


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in _SECONDS:
        raise ConfigError(f"--budget is {shown(text)}: it must be a time, as 90s, 2min or 1h")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not _LEAST <= seconds <= 7 * 24 * 3600:
        raise ConfigError(f"--budget is {text!r}: it must be from {_LEAST:.0f}s to 168h")
    return seconds


def _takes_images(grid: Mapping[str, Any], network: str) -> bool:
    """Whether the first layer is one of those that need images."""
    given = grid.get("network.layers")
    layers = given[0] if isinstance(given, list) else groups.load("network", network).get("layers")
    return isinstance(layers, list) and str(layers[:1]).startswith(("['conv2d ", "['maxpool2d "))


def _classifier(given: argparse.Namespace, grid: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """A network with an output per class of the table, and its loss, instead of one with a single output."""
    if given.csv is None or given.network is not None:
        other = "without --csv" if given.csv is None else f"beside --network {given.network}"
        raise ConfigError(
            f"--classify is given {other}: it is for a table, with fully connected layers (--hidden)"
        )
    widths = grid.get("network.hidden", [groups.load("network", _OWN_NETWORK)["hidden"]])[0]
    layers = [layer for width in widths for layer in (f"linear {width}", "relu")]

    def with_outputs(count: int) -> dict[str, Any]:
        last = {"network.layers": [[*layers, f"linear {count}"]]}
        return {"network": "layers", "network.loss": "cross_entropy"} | last

    trial = {**grid, **with_outputs(2)}
    trial.pop("network.hidden", None)
    with in_options(keys):
        classes = list(_table_of(trial)[1].facts["classes"])
    if len(classes) < 2:
        raise ConfigError(
            f"--classify: the column {given.target!r} of {given.csv} has one class alone ({classes[0]}): "
            "there is nothing to tell apart"
        )
    return with_outputs(len(classes))


# ---- KEY=VALUE


def _own(settings: Sequence[str], grid: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given as KEY=VALUE, each once, beside those of options."""
    own: dict[str, Any] = {}
    for one in settings:
        key, value = _setting(one, {**grid, **own})
        if key in own:
            raise ConfigError(f"{shown(one)}: {key} is given twice: give it once")
        own[key] = value
    return own


def _check_given_once(grid: Mapping[str, Any], own: Mapping[str, Any], given: argparse.Namespace) -> None:
    """Raise ConfigError for a KEY=VALUE that an option says as well."""
    for key in own:
        if key in grid:
            option = "--csv" if given.csv is not None and key == "dataset" else _OPTIONS[key][0]
            raise ConfigError(f"{key} is given beside {option}, which sets it: give one of the two")
        if given.classify and key in ("network", "network.hidden", "network.layers", "network.loss"):
            raise ConfigError(
                f"{key} is given beside --classify, which chooses the network and its loss: leave out one "
                "of the two; widths of hidden layers are given as --hidden"
            )


def _setting(text: str, beside: Mapping[str, Any]) -> tuple[str, Any]:
    from snn.config import overrides

    key, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)?", key):
        is_table = text.lower().endswith(_OF_TABLES)
        as_option = f"a table is given as --csv {shlex.quote(text)} --target COLUMN"
        raise ConfigError(
            f"{shown(text)} is no setting: {as_option if is_table else overrides.instead([text])}"
        )
    if key == "output":
        raise ConfigError(f"{shown(text)}: the folder for the table and the report is given as --output")
    if key.partition(".")[0] in _CHOSEN:
        raise ConfigError(
            f"{shown(text)}: the strategies, the protocol and the device are chosen by "
            "config/recommend.yaml, --all, --budget and --device; to choose them yourself, write a grid"
        )
    if key in _CHARACTERS and len(value) == 1:
        return key, value
    try:
        read = read_text(value, key)
    except ConfigError as error:
        overrides.check_key(key, value, groups.chosen(beside))
        if isinstance(error.__cause__, YAMLError):
            raise ConfigError(f"{key}: {overrides.unread(key, value)}") from error
        raise ConfigError(re.sub(rf"^{key}, line \d+", key, str(error))) from error
    if isinstance(read, list):
        if key not in groups.list_valued():
            raise ConfigError(f"{shown(text)}: it must be one value: strategies are compared on one training")
        read = [read]  # one network, not an axis
    if key == "dataset.path" and isinstance(read, str) and read:
        read = str(Path.cwd() / path_of(read))  # the workflow runs in another folder
    return key, read


# ---- errors of a grid, a data set or a cell, in the words of the command line

_IN_OPTIONS = {
    r"say network=layers network\.loss=cross_entropy, and end network\.layers in as many outputs": (
        "say --classify"
    ),
    r"since the loss is cross_entropy; a number is predicted with mean_squared_error": (
        "as --classify has classes; without --classify a number is predicted"
    ),
    rf"^{SWEEP}: ": "",
    rf"^sweeps\.{SWEEP}(: |\.)": "",
    r"\bdevice=(auto|cuda|cpu)\b": r"--device \1",
    r" \(write 1\.0e-3, not 1e-3: YAML reads that as text\)": "",
    r"; set it with dataset\.path=\.\.\.": ": add dataset.path=... (of a table: --csv FILE --target COLUMN)",
    r"^(conv2d needs images, .*)": (
        r"--network has convolutions: \1; choose --dataset patterns, mnist or fashion"
    ),
}


@contextmanager
def in_options(keys: Collection[str] = ()) -> Iterator[None]:
    """A context whose errors name options instead of a grid's keys, but for ``keys`` given as KEY=VALUE."""
    try:
        yield
    except SnnError as error:
        message = str(error)
        for pattern, words in _IN_OPTIONS.items():
            message = re.sub(pattern, words, message)
        if "is not a key here" not in message:  # it lists the keys that there are
            for key in _OPTIONS.keys() - {"dataset", "network", "dataset.path", *keys}:
                message = re.sub(rf"(?<![\w.]){re.escape(key)}(?![\w=])", _OPTIONS[key][0], message)
        raise type(error)(message) from error
