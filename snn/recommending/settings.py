"""The settings of ``snn recommend``: what is trained, where, for how long, and where results go."""

import argparse
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from yaml import YAMLError

from snn.config import groups, overrides
from snn.config.settings import RANGES
from snn.config.suggestions import meant
from snn.config.yaml_file import read_text
from snn.errors import ConfigError, shown
from snn.files.regular import path_of
from snn.recommending import command_line, own_table
from snn.recommending.words import OPTION_OF

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
"""The data set of a network that takes images, where none is named: it is made by a rule."""
_OWN_NETWORK = "mlp"
"""Where widths are given, or a table: the paper's initial weights are all positive, and diverge elsewhere."""


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


def parsed(arguments: Sequence[str]) -> Settings:
    """The settings of a command line. Raises ConfigError, naming option and value, and DataError for a table
    that cannot be read or whose classes cannot be counted; SystemExit for --help."""
    given = command_line.read(arguments)
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
    return Settings(
        grid,
        budget,
        given.device,
        "all" if given.all else "few",
        path_of(given.output or f"recommendation-{re.sub('[^A-Za-z0-9_]+', '-', name).strip('-') or 'csv'}"),
        frozenset(own),
    )


def with_batch_size(settings: Settings) -> Settings:
    """The settings, for a user's table with a batch size, where they have none; the table is read.

    Raises ConfigError and DataError as the grid and the table do.
    """
    if settings.grid.get("dataset") != "csv" or _BATCH_SIZE in settings.grid:
        return settings
    return replace(settings, grid={**settings.grid, _BATCH_SIZE: own_table.batch_size(settings.grid)})


def _of_options(given: argparse.Namespace) -> dict[str, Any]:
    """The settings that options stand for."""
    grid: dict[str, Any] = {}
    if given.csv is not None:
        if given.target is None:
            raise ConfigError("--csv is given without --target: name the column to predict, or its number")
        if given.target == "":
            raise ConfigError("--target is '': it must be the name of a column, or its number, as 0 or -1")
        grid |= {
            "dataset": "csv",
            "dataset.path": str(own_table.found(given.csv)),
            "dataset.target": _column(given.target),
        }
    elif given.target is not None:
        raise ConfigError(f"--target is {given.target!r}, but there is no --csv that it could be a column of")
    if given.dataset is not None:
        if given.csv is not None:
            raise ConfigError(f"--csv is {given.csv!r} and --dataset {given.dataset!r}: give one of the two")
        grid["dataset"] = _choice("dataset", given.dataset)
    if given.network is not None:
        grid["network"] = _choice("network", given.network)
    if given.hidden is not None:
        grid["network.hidden"] = [_widths(given.hidden)]
    for key, text, option in (
        (_BATCH_SIZE, given.batch_size, "--batch-size"),
        ("training.epochs", given.epochs, "--epochs"),
    ):
        if text is not None:
            grid[key] = _whole(text, option)
    if given.learning_rate is not None:
        grid["training.learning_rate"] = _real(given.learning_rate, "--learning-rate")
    return grid


def _takes_images(grid: Mapping[str, Any], network: str) -> bool:
    """Whether the first layer is one of those that need images."""
    given = grid.get("network.layers")
    layers = given[0] if isinstance(given, list) else groups.load("network", network).get("layers")
    return isinstance(layers, list) and str(layers[:1]).startswith(("['conv2d ", "['maxpool2d "))


def _check_given_once(grid: Mapping[str, Any], own: Mapping[str, Any], given: argparse.Namespace) -> None:
    """Raise ConfigError for a KEY=VALUE that an option says as well."""
    for key in own:
        option = "--csv" if given.csv is not None and key == "dataset" else OPTION_OF.get(key)
        if key in grid:
            raise ConfigError(f"{key} is given beside {option}, which sets it: give one of the two")
        if given.classify and key in ("network", "network.hidden", "network.layers", "network.loss"):
            raise ConfigError(
                f"{key} is given beside --classify, which chooses the network and its loss: leave out one "
                "of the two; widths of hidden layers are given as --hidden"
            )


def _own(settings: Sequence[str], grid: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given as KEY=VALUE, each once, beside those of options."""
    own: dict[str, Any] = {}
    for one in settings:
        key, value = _setting(one, {**grid, **own})
        if key in own:
            raise ConfigError(f"{shown(one)}: {key} is given twice: give it once")
        own[key] = value
    return own


def _classifier(given: argparse.Namespace, grid: Mapping[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """A network with an output per class of the table, and its loss, in place of one with a single output."""
    if given.csv is None or given.network is not None:
        other = "without --csv" if given.csv is None else f"beside --network {given.network}"
        raise ConfigError(
            f"--classify is given {other}: it is for a table, with fully connected layers (--hidden)"
        )
    widths = _widths(given.hidden) if given.hidden else groups.load("network", _OWN_NETWORK)["hidden"]
    layers = [layer for width in widths for layer in (f"linear {width}", "relu")]

    def with_outputs(count: int) -> dict[str, Any]:
        last = {"network.layers": [[*layers, f"linear {count}"]]}
        return {"network": "layers", "network.loss": "cross_entropy"} | last

    trial = {**grid, **with_outputs(2)}
    trial.pop("network.hidden", None)
    classes = own_table.classes(trial, keys)
    if len(classes) < 2:
        raise ConfigError(
            f"--classify: the column {given.target!r} of {given.csv} has one class alone ({classes[0]}): "
            "there is nothing to tell apart"
        )
    return with_outputs(len(classes))


def _column(text: str) -> str | int:
    """A column's name; digits are a number, as in a grid."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,6}", text) else text


def _choice(group: str, name: str) -> str:
    if name not in groups.names(group):
        hint = meant(name, groups.names(group))
        raise ConfigError(f"--{group} is {name!r}{hint}: it must be one of {', '.join(groups.names(group))}")
    return name


def _widths(text: str) -> list[int]:
    most = int(RANGES["network.hidden"].most)
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,7}", part) and 1 <= int(part) <= most for part in parts):
        raise ConfigError(
            f"--hidden is {shown(text)}: it must be widths of layers, 1 to {most}, with commas, as 64,64"
        )
    return [int(part) for part in parts]


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


def _setting(text: str, beside: Mapping[str, Any]) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)?", key):
        raise ConfigError(f"{shown(text)} is no setting: {_instead(text)}")
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


def _instead(text: str) -> str:
    """What would be right in place of what is no setting."""
    if text.lower().endswith(_OF_TABLES):
        return f"a table is given as --csv {shlex.quote(text)} --target COLUMN"
    return overrides.instead([text])


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in _SECONDS:
        raise ConfigError(f"--budget is {shown(text)}: it must be a time, as 90s, 2min or 1h")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not _LEAST <= seconds <= 7 * 24 * 3600:
        raise ConfigError(f"--budget is {text!r}: it must be from {_LEAST:.0f}s to 168h")
    return seconds
