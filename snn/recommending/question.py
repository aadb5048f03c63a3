"""Arguments of ``snn recommend``: a training job, given as for ``snn run``, budget, device and folder."""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from snn import datasets
from snn.analysis.verdicts import REFERENCE
from snn.config import compose, groups, overrides
from snn.config.cell import Cell
from snn.config.choices import BESIDE_THE_CELL
from snn.config.overrides import written
from snn.datasets import Table
from snn.errors import ConfigError, shown
from snn.files.regular import path_of
from snn.measurement.passes import job_of
from snn.models.network import MLP_DEFAULTS
from snn.models.optimizers import PLAIN
from snn.models.row_order import IN_FILE
from snn.strategies.base import PEERS
from snn.strategies.factory import own_runtime

USUAL: Mapping[str, tuple[str, Any]] = {
    "network.bias": ("true", False),
    "network.init": ("pytorch", None),
    "network.update_order": ("simultaneous", None),
    "training.optimizer": ("adam", PLAIN.name),
    "training.learning_rate": ("0.001", None),
    "training.shuffle": ("epoch", IN_FILE),
}
"""Defaults of ``snn train``, as in PyTorch, and the values that a cell omits (None: it has the key)."""

MOST_OF_BATCH = 64
"""Rows of a batch of a user's table, if the user doesn't give the batch size."""

_SECONDS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}
_LEAST = 20.0
"""Seconds; one round needs at least this many."""

_TABLES = (".csv", ".tsv", ".txt", ".data")
"""Endings of a table's file name."""

_NOT_OF_TRAINING = ("strategy", "protocol", "device", *BESIDE_THE_CELL)
"""Keys of ``snn run`` that a recommendation chooses itself."""

TAKES_IMAGES = re.compile(r"\[\W*(conv2d|batchnorm2d|(max|avg)pool2d)\b")
"""Matches the first layer of a network that needs images."""


@dataclass(frozen=True)
class Question:
    """``cell`` is what is trained; ``sweep`` has the settings that were given, in a grid's form.

    ``table`` is the user's CSV file, if any. ``budget`` is in seconds, ``device`` as in a grid or a GPU's
    name, ``choice`` the list of candidates, ``few`` or ``all``. ``baseline`` is the strategy that speedups
    are over, ``crossover`` what is varied instead of ranking strategies: width or batch.
    ``words``: the words of the command line that describe the table and the training job.
    """

    cell: Cell
    sweep: Mapping[str, Any]
    table: Table | None
    budget: float
    device: str
    choice: str
    output: Path
    baseline: str = REFERENCE
    crossover: str | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrainingJob:
    """A cell to train, the ``settings`` that it was composed from, and the user's table, if any.

    ``model``: the user's PyTorch model whose layers it has, if any; ``job``: that of a table.
    """

    cell: Cell
    settings: list[str]
    table: Table | None
    device: str
    model: Any = None
    job: Any = None


def ask_training(
    settings: Sequence[str],
    csv: str | None,
    target: str | None,
    classify: bool,
    drop: str | None,
    options: Mapping[str, str | None],
    usual: Mapping[str, str] | None = None,
    not_given: Sequence[str] = _NOT_OF_TRAINING,
) -> TrainingJob:
    """The training job that options and ``settings``, each KEY=VALUE, describe. The user's table is read.

    ``options``: those that are given of dataset, hidden, network, layers, model and device. ``usual``:
    settings that apply unless they are given; sections in ``not_given`` are rejected.
    """
    made, options = None, dict(options)
    hidden, layers, model = (options.pop(name, None) for name in ("hidden", "layers", "model"))
    chosen = {"--hidden": hidden, "--layers": layers, "--model": model}
    if len(both := [name for name, one in chosen.items() if one is not None]) > 1:
        raise ConfigError(f"{' and '.join(both)} each choose the network: leave out one")
    of_network = {
        "network.hidden": None if hidden is None else f"[{hidden}]",
        "network.layers": None if layers is None else f"[{layers.strip().strip('[]')}]",
    }
    if model is not None:
        from snn.training import torch_models

        made = torch_models.load_model(model)
        usual = {"network.init": "pytorch", "network.update_order": "simultaneous", **(usual or {})}
        of_network |= torch_models.settings_of(torch_models.layers_of(made), classify)
    base = _texts([*_table_settings(csv, target, drop), *_line(options | of_network), *settings], not_given)
    device = base.pop("device", "auto")
    lists_layers = of_network["network.layers"] is not None
    if lists_layers:
        base = _with_layers(base, classify)
    is_mlp = not _lists_layers(base)
    for key, text in (usual or {}).items():
        if is_mlp or key.partition(".")[2] not in MLP_DEFAULTS:
            base.setdefault(key, text)
    chooses = classify and not lists_layers
    given = _with_outputs(base, 2) if chooses else {**base}
    if "network.hidden" in given:
        given.setdefault("network", "mlp")  # the paper's initial weights are all positive, and diverge
    if _takes_images(given):
        given.setdefault("dataset", "patterns")
    cell, table, job = compose.composed(_line(given)), None, None
    if "target" in cell["dataset"]:
        table = datasets.make(cell["dataset"])
        if chooses:
            given = _with_outputs(base, _count_classes(table, cell["dataset"]))
        rows, _ = datasets.counts(len(table.values), cell["dataset"])
        given.setdefault("training.batch_size", str(min(MOST_OF_BATCH, 1 << (rows.bit_length() - 1))))
        cell = compose.composed(_line(given))
        job = job_of(cell, table)
    elif classify:
        raise ConfigError("--classify is for a table: give one as --csv FILE --target COLUMN")
    return TrainingJob(cell, _line(given), table, device, made, job)


def ask(
    settings: Sequence[str],
    *,
    csv: str | None,
    target: str | None,
    classify: bool,
    drop: str | None,
    dataset: str | None,
    hidden: str | None,
    layers: str | None,
    network: str | None,
    model: str | None,
    budget: str | None,
    device: str | None,
    all: bool,
    output: str | None,
    baseline: str,
    crossover: str | None,
) -> Question:
    """The question that options and ``settings``, each KEY=VALUE, ask. The user's table is read.

    Raises ConfigError, naming option or key and the value, and DataError for a table that cannot be used.
    """
    if output == "":
        raise ConfigError("--output is '': it must be a folder, for the table and the report")
    default = "10min" if crossover else "3min"
    seconds = _seconds(default if budget is None else budget)
    of_network = {"dataset": dataset, "hidden": hidden, "layers": layers, "network": network, "model": model}
    asked = ask_training(settings, csv, target, classify, drop, of_network | {"device": device})
    cell, table, device = asked.cell, asked.table, asked.device
    sweep = overrides.read(asked.settings)
    if path := cell["dataset"].get("path"):
        sweep["dataset.path"] = str(path_of(path).absolute())  # the workflow runs in another folder
    sweep = {key: [value] if isinstance(value, list) else value for key, value in sweep.items()}  # no axis
    name = re.sub("[^A-Za-z0-9_]+", "-", Path(csv).stem if csv else cell.dataset).strip("-")
    folder = path_of(output or f"recommendation-{name or 'csv'}")
    if package := own_runtime(groups.load("strategy", baseline)):
        _check_package(baseline, package)
    chosen = {"--csv": csv, "--target": target, "--drop": drop, "--hidden": hidden, "--layers": layers}
    chosen["--model"] = model
    words = [word for name, text in chosen.items() if text is not None for word in (name, text)]
    words += [*["--classify"] * classify, *([f"network={network}"] if network else []), *settings]
    choice = "all" if all else "few"
    return Question(cell, sweep, table, seconds, device, choice, folder, baseline, crossover, tuple(words))


def _check_package(baseline: str, package: str) -> None:
    """Raise ConfigError, with the command that installs it, if a baseline's package cannot be imported."""
    if not find_spec(package):
        raise ConfigError(
            f"--baseline is {baseline}, but Python cannot import {package}: `{PEERS}` installs it"
        )


def _seconds(budget: str) -> float:
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([a-z]*)", budget.strip().lower())
    if not found or found[2] not in _SECONDS:
        raise ConfigError(f"--budget is {shown(budget)}: it must be a time, such as 90s, 2min or 1h")
    seconds = float(found[1]) * _SECONDS[found[2]]
    if not _LEAST <= seconds <= 7 * 24 * 3600:
        raise ConfigError(f"--budget is {budget!r}: it must be from {_LEAST:.0f}s to 168h")
    return seconds


def _table_settings(csv: str | None, target: str | None, drop: str | None) -> list[str]:
    """The settings of a table."""
    if csv is None and target is None:
        if drop is not None:
            raise ConfigError("--drop is given without --csv: it leaves out columns of a table")
        return []
    if csv is None or target is None:
        given, lacking = ("--csv", "--target COLUMN") if target is None else ("--target", "--csv FILE")
        raise ConfigError(f"{given} is given without {lacking}: a table needs both")
    left_out = [] if drop is None else [f"dataset.drop=[{','.join(map(_column, drop.split(',')))}]"]
    return ["dataset=csv", f"dataset.path={written(csv)}", f"dataset.target={_column(target)}", *left_out]


def _column(given: str) -> str:
    """A column as a setting gives it: its number, or its name in quotes."""
    return given.strip() if re.fullmatch(r"\s*-?[0-9]{1,6}\s*", given) else written(given.strip())


def _texts(settings: Sequence[str], not_given: Sequence[str]) -> dict[str, str]:
    """The text of each value by key. Raises ConfigError for anything but settings of the training job."""
    found: dict[str, str] = {}
    for one in settings:
        key, equals, text = one.partition("=")
        if not equals:
            is_table = one.lower().endswith(_TABLES)
            as_option = f"a table is given as --csv {shlex.quote(one)} --target COLUMN"
            raise ConfigError(
                f"{shown(one)} is not a setting: {as_option if is_table else overrides.instead([one])}"
            )
        if key.partition(".")[0] in not_given and key != "device":
            why = "snn train measures nothing, and writes one file: see --save and --device"
            if "strategy" in not_given:
                why = (
                    "snn recommend chooses strategies, the protocol and the device: see --all, --budget, "
                    "--device and --output; a grid compares what you choose"
                )
            raise ConfigError(f"{shown(one)}: {why}")
        if key in found:
            raise ConfigError(f"{one}: {key} is given twice, {key}={found[key]} before: leave one out")
        found[key] = text
    return found


def _line(texts: Mapping[str, str | None]) -> list[str]:
    return [f"{key}={text}" for key, text in texts.items() if text is not None]


def _takes_images(texts: Mapping[str, str]) -> bool:
    """Whether the network's first layer needs images. Raises ConfigError if the data set has none."""
    network, dataset = texts.get("network"), texts.get("dataset")
    layers = texts.get("network.layers", "")
    if not layers and network in groups.names("network"):
        layers = str(groups.load("network", network).get("layers", ""))
    if not TAKES_IMAGES.match(layers):
        return False
    images = [name for name in groups.names("dataset") if "shape" in groups.load("dataset", name)]
    if dataset in groups.names("dataset") and dataset not in images:
        raise ConfigError(
            f"network={network} has convolutions, which need images, and dataset={dataset} has none: "
            f"leave out one of the two, or choose dataset={', '.join(images)}"
        )
    return True


def _with_layers(texts: Mapping[str, str], classify: bool) -> dict[str, str]:
    """The settings for a list of layers. Raises ConfigError if they choose another network, too."""
    for key in ("network", "network.hidden"):
        if texts.get(key, "layers") != "layers":
            raise ConfigError(f"{key}={texts[key]}: --layers and --model choose the network: leave out one")
    loss = {"network.loss": "cross_entropy"} if classify else {}
    return {**loss, **texts, "network": "layers"}


def _lists_layers(texts: Mapping[str, str]) -> bool:
    """Whether the network is a list of layers, rather than a perceptron."""
    name = texts.get("network")
    is_choice = name in groups.names("network")
    return "network.layers" in texts or (is_choice and "layers" in groups.load("network", str(name)))


def _with_outputs(texts: Mapping[str, str], count: int) -> dict[str, str]:
    """The settings for ``count`` classes: cross-entropy, an output each, and a larger learning rate.

    Gradients of the cross-entropy are smaller than those of squared errors. Raises ConfigError if the
    settings choose a network.
    """
    for key in ("network", "network.layers", "network.loss"):
        if key in texts:
            raise ConfigError(
                f"{key}={texts[key]}: --classify chooses the network and its loss: leave out one of the two; "
                "widths of hidden layers are given as --hidden"
            )
    widths = texts.get("network.hidden", str(groups.load("network", "mlp")["hidden"])).strip("[] ").split(",")
    if texts.get("network.bias", "true").lower() != "true":
        raise ConfigError(
            f"network.bias={texts['network.bias']}: with --classify linear layers have biases: leave it out"
        )
    activation = texts.get("network.activation", "relu")
    hidden = [layer for width in widths for layer in (f"linear {width.strip()}", activation)]
    layers = f"[{', '.join([*hidden, f'linear {count}'])}]"
    of_mlp = ("network.hidden", *(f"network.{key}" for key in MLP_DEFAULTS))
    others = {key: text for key, text in texts.items() if key not in of_mlp}
    chosen = {"network": "layers", "network.loss": "cross_entropy", "network.layers": layers}
    return {"training.learning_rate": "0.02"} | others | chosen


def _count_classes(table: Table, dataset: Mapping[str, Any]) -> int:
    """Number of a table's classes. Raises ConfigError for fewer than two."""
    classes: list[str] = table.facts["classes"]
    if len(classes) < 2:
        raise ConfigError(
            f"--classify: the column {dataset['target']!r} of {dataset['path']} has only one "
            f"class ({classes[0]}): there is nothing to learn"
        )
    return len(classes)
