"""The command line of ``snn recommend``: what is trained, where, for how long, and where results go."""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from snn import datasets
from snn.config import groups
from snn.config.options import Options
from snn.errors import ConfigError

DESCRIPTION = """Which strategy trains your network fastest on this device, and why.

Measures the candidates of config/recommend.yaml through the workflow, gives those in the lead more rounds
while there is time, and leaves a ranked table and a report. What was measured stays: the same command with a
larger --budget continues. Without a GPU it measures the CPU, and shows what is published of a GPU."""

EPILOG = """KEY=VALUE are settings as in a grid: training.reduction=sum, or a network of any layers:
network=layers 'network.layers=[linear 64, relu, linear 1]'"""

_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_LEAST = 20.0
"""Seconds: less does not suffice for one round."""

_OWN_TABLE = {"dataset": "csv", "training.batch_size": 64}
_OWN_NETWORK = "mlp"
"""Where widths are given, or a table: the paper's initial weights are all positive, and diverge elsewhere."""


@dataclass(frozen=True)
class Settings:
    """``grid`` are the sweep's settings, ``budget`` is in seconds, ``device`` as in a grid or a GPU's name.

    ``choice`` is the list of candidates, ``few`` or ``all``, and ``output`` the folder of what is left.
    """

    grid: Mapping[str, Any]
    budget: float
    device: str
    choice: str
    output: Path


def parsed(arguments: Sequence[str]) -> Settings:
    """The settings of a command line. Raises ConfigError, naming option and value."""
    given = _parser().read(arguments)
    grid: dict[str, Any] = {}
    if given.csv is not None:
        if given.target is None:
            raise ConfigError("--csv is given without --target: name the column to predict, or its number")
        grid |= _OWN_TABLE | {"dataset.path": str(_file(given.csv)), "dataset.target": _column(given.target)}
    elif given.target is not None:
        raise ConfigError(f"--target is {given.target!r}, but there is no --csv that it could be a column of")
    if given.dataset is not None:
        if given.csv is not None:
            raise ConfigError(f"--csv is {given.csv!r} and --dataset {given.dataset!r}: give one of the two")
        grid["dataset"] = _choice("dataset", given.dataset)
    if given.network is not None:
        grid["network"] = _choice("network", given.network)
    elif given.csv is not None or given.hidden is not None:
        grid["network"] = _OWN_NETWORK
    if given.hidden is not None:
        grid["network.hidden"] = [_widths(given.hidden)]
    for key, text, option in (
        ("training.batch_size", given.batch_size, "--batch-size"),
        ("training.epochs", given.epochs, "--epochs"),
        ("training.learning_rate", given.learning_rate, "--learning-rate"),
    ):
        if text is not None:
            grid[key] = _number(text, option)
    for one in given.settings:
        key, value = _setting(one)
        grid[key] = value
    if given.classify:
        grid |= _classifier(given, grid)
        grid.pop("network.hidden", None)
    name = Path(given.csv).stem if given.csv else str(grid.get("dataset", "small"))
    return Settings(
        grid,
        _seconds(given.budget),
        given.device,
        "all" if given.all else "few",
        Path(given.output or f"recommendation-{re.sub('[^A-Za-z0-9_]+', '-', name).strip('-') or 'csv'}"),
    )


def helped() -> str:
    """The options, each with what it means."""
    return _parser().format_help()


def _parser() -> Options:
    parser = Options("recommend", DESCRIPTION, EPILOG)
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further settings, as in a grid")
    add = parser.add_argument
    add("--csv", metavar="FILE", help="a table of numbers to train on, one sample per row, with a header")
    add("--target", metavar="COLUMN", help="the column to predict: its name, or its number from 0")
    add("--dataset", metavar="NAME", help=f"another data set: {', '.join(groups.names('dataset'))}")
    add("--hidden", metavar="N,N", help="widths of the hidden layers, as 64,64 (fully connected, ReLU)")
    add("--classify", action="store_true", help="the target of --csv is a class, a text or a whole number")
    add("--network", metavar="NAME", help=f"another network: {', '.join(groups.names('network'))}")
    add("--batch-size", metavar="N", help="rows per training step (default: 64 with --csv, else 256)")
    add("--epochs", metavar="N", help="passes over the data in one training (default: 100)")
    add("--learning-rate", metavar="R", help="of plain gradient descent (default: 0.002)")
    add(
        "--budget",
        metavar="TIME",
        default="2min",
        help="how long it may take, as 90s (default: 2min)",
    )
    add(
        "--device",
        metavar="NAME",
        default="auto",
        help="auto, cuda, cpu, or a GPU's name: of one that is not here, only what is published is shown",
    )
    add("--all", action="store_true", help="measure every strategy, not only the usual candidates")
    add("--output", metavar="FOLDER", help="for the table and the report (default: recommendation-NAME)")
    return parser


def _file(path: str) -> Path:
    file = Path(path)
    if not file.exists():
        raise ConfigError(f"--csv is {path!r}: there is no such file")
    return file.resolve()


def _classifier(given: argparse.Namespace, grid: Mapping[str, Any]) -> dict[str, Any]:
    """A network with an output per class of the table, and its loss, in place of one with a single output."""
    if given.csv is None or given.network is not None:
        other = "without --csv" if given.csv is None else f"beside --network {given.network}"
        raise ConfigError(
            f"--classify is given {other}: it is for a table, with fully connected layers (--hidden)"
        )
    own = {key.partition(".")[2]: value for key, value in grid.items() if key.startswith("dataset.")}
    choice = datasets.completed(groups.load("dataset", "csv") | own | {"task": "classification"})
    classes = datasets.make(choice).facts["classes"]
    widths = _widths(given.hidden) if given.hidden else groups.load("network", _OWN_NETWORK)["hidden"]
    layers = [layer for width in widths for layer in (f"linear {width}", "relu")]
    return {
        "network": "layers",
        "network.layers": [[*layers, f"linear {len(classes)}"]],
        "network.loss": "cross_entropy",
    }


def _column(text: str) -> str | int:
    """A column's name; digits are a number, as in a grid."""
    return int(text) if re.fullmatch(r"-?\d{1,6}", text) else text


def _choice(group: str, name: str) -> str:
    if name not in groups.names(group):
        raise ConfigError(f"--{group} is {name!r}: it must be one of {', '.join(groups.names(group))}")
    return name


def _widths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,7}", part) and int(part) for part in parts):
        raise ConfigError(f"--hidden is {text!r}: it must be widths of layers with commas, as 64,64")
    return [int(part) for part in parts]


def _number(text: str, option: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{option} is {text!r}: it must be a number") from None


def _setting(text: str) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    if not sign or not re.fullmatch(r"[a-z_]+(\.[a-z0-9_]+)?", key):
        raise ConfigError(f"{text!r} is no setting: it must be KEY=VALUE, as training.reduction=sum")
    if key.partition(".")[0] in ("strategy", "protocol", "device"):
        raise ConfigError(
            f"{text!r}: the strategies, the protocol and the device are chosen by config/recommend.yaml, "
            "--all, --budget and --device; to choose them yourself, write a grid"
        )
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError:
        raise ConfigError(f"{text!r}: the value cannot be read as YAML; put a text in quotes") from None
    if key in groups.list_valued() and isinstance(read, list):
        read = [read]  # one network, not an axis
    return key, read


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if not found or found[2] not in _SECONDS:
        raise ConfigError(f"--budget is {text!r}: it must be a time, as 90s, 2min or 1h")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not _LEAST <= seconds <= 7 * 24 * 3600:
        raise ConfigError(f"--budget is {text!r}: it must be from {_LEAST:.0f}s to 168h")
    return seconds
