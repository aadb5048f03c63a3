"""Every setting of a cell, one line per key in ``KINDS``: its type, its range, and the reason for the range.

The files of ``config/`` hold each key's default next to its description. Grids, command lines, the schema for
editors and the reference pages all take a key's type from here. A key without a line, such as one of a new
strategy, has the type of its value in its choice's file.
"""

import codecs
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from snn import datasets
from snn.config import choices, groups
from snn.config.cell import ANY, NONE, SECTIONS, Cell
from snn.config.suggestions import meant
from snn.errors import ConfigError, shown
from snn.hardware.devices import BACKENDS
from snn.models import members, optimizers, remedies, row_order, schedules, storage, validation
from snn.models.gradients import GRADIENTS
from snn.models.gradients import of as gradient_of
from snn.models.layers import ACTIVATIONS, parse
from snn.models.losses import LOSSES, MEAN_SQUARED_ERROR, TASKS
from snn.models.network import (
    FIDELITIES,
    INITIALISERS,
    LEAN,
    REDUCTIONS,
    UPDATE_ORDERS,
    build,
    network_label,
    without_defaults,
)
from snn.models.row_order import SHUFFLES

MOST_MEMBERS = 10**5
"""Most networks that one launch trains: starts times the lengths of a strategy's lists."""

MOST_ROUNDS = 1000
"""Most rounds of a cell under any protocol; a round first draws the weights of all runs before it."""

MOST_TEXT = 4096
_MOST_ELEMENTS = 512
_MOST_LABEL = 200
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def error(key: str, value: object, right: str) -> ConfigError:
    """The error for an invalid value of a key, with what would be right."""
    return ConfigError(f"{key} is {shown(value)}: it must be {right}")


class Kind(ABC):
    """A type of values. Docs and messages quote ``right``, the description of a valid value."""

    right: str
    numbers: "Range | None" = None
    """The range of a number, or of each number of a list."""

    @abstractmethod
    def wrong(self, value: Any) -> str:
        """The description of a valid value if this one is invalid; else empty."""

    def check(self, key: str, value: object) -> None:
        """Raise ConfigError, with what would be right, if the key may not have this value."""
        if right := self.wrong(value):
            raise error(key, value, right)


@dataclass(frozen=True)
class Form(Kind):
    """Values that pass a check; ``right`` describes them, and ``allowed`` lists a fixed set."""

    right: str
    holds: Callable[[Any], bool]
    numbers: "Range | None" = None
    allowed: tuple[str, ...] = ()

    def wrong(self, value: Any) -> str:
        return "" if self.holds(value) else f"{self.right}{meant(str(value), self.allowed)}"


@dataclass(frozen=True)
class Range(Kind):
    """The numbers from ``least`` to ``most``, whole unless ``real``; ``reason`` is why others cannot work.

    ``or_word`` is also allowed, and so is null if ``or_null`` says what it means.
    """

    least: float
    most: float
    reason: str
    real: bool = False
    or_word: str | None = None
    or_null: str | None = None

    def holds(self, value: object) -> bool:
        """Whether the value has the right type and is in the range."""
        return self._is_number(value) and self.least <= value <= self.most  # type: ignore[operator]

    @property
    def numbers(self) -> "Range":  # type: ignore[override]
        return self

    @property
    def right(self) -> str:  # type: ignore[override]
        number = "a number" if self.real else "a whole number"
        right = f"{number} above 0" if self._is_above else f"{number}, at least {self.least:.12g}"
        if self.or_null:
            return f"{right} or null for {self.or_null}"
        return f"{right}, or {self.or_word}" if self.or_word else right

    def wrong(self, value: Any) -> str:
        if self.holds(value) or (value is None and self.or_null) or (self.or_word and value == self.or_word):
            return ""
        if self._is_number(value) and value > (0 if self._is_above else self.least - 1):
            number = "a number" if self.real else "a whole number"
            return f"{number} from {self.least:.12g} to {self.most:.12g}: {self.reason}"
        return self.right

    @property
    def _is_above(self) -> bool:
        return self.real and self.least > 0

    def _is_number(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float) if self.real else int):
            return False
        is_negative_zero = isinstance(value, float) and value == 0 and math.copysign(1, value) < 0
        return not is_negative_zero and (isinstance(value, int) or math.isfinite(value))


def one_of(allowed: Iterable[str]) -> Form:
    """Values of a fixed set."""
    listed = tuple(allowed)
    return Form(f"one of {', '.join(listed)}", listed.__contains__, allowed=listed)


def list_of(what: str, each: Callable[[Any], bool], numbers: Range | None = None) -> Form:
    """Lists without duplicates, of as many elements as a command line can carry."""

    def holds(value: object) -> bool:
        if not isinstance(value, list) or len(value) > _MOST_ELEMENTS or not all(map(each, value)):
            return False
        return all(element not in value[:i] for i, element in enumerate(value))

    return Form(f"a list of at most {_MOST_ELEMENTS} {what}, or []", holds, numbers)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_column(value: object) -> bool:
    return _is_whole(value) or (isinstance(value, str) and value != "")


def _has(numbers: Range, count: int | None, value: object) -> bool:
    """Whether a value is a list of so many numbers of a range, or of one or more."""
    return (
        isinstance(value, list)
        and len(value) == (count or len(value) or 1)
        and all(map(numbers.holds, value))
    )


def _is_mark(value: object) -> bool:
    """Whether a value is one character that is not part of a plain number, a quote or a line's end."""
    return (
        isinstance(value, str)
        and bool(re.fullmatch(r'[^\w"+\-]', value))
        and (value.isprintable() or value in "\t\u00a0\u2009\u202f")
    )


def _is_encoding(name: object) -> bool:
    """Whether Python knows a text encoding of this name."""
    try:
        return isinstance(name, str) and codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        return False


_IN_32_BITS = "kernels count in 32 bits"
_SEEDS = "a seed of NumPy's random numbers has 32 bits"
_DAY = "a limit of more than a day limits nothing"
_ROWS = Range(1, 10**9, "more rows do not fit into the machines that this is for")
_RUNS = Range(1, 10**5, "more runs would make a record too large to read")
_RAND = Range(1, 2**31 - 1, "the C library's rand() accepts no others")
_FLOAT32 = (
    1.1754944e-38,
    3.4028234e38,
    "training computes in float32, where others are 0, infinite or imprecise",
)
_ABOVE_0 = Range(*_FLOAT32, real=True)
_BELOW_1 = 1 - 2**-24
_MEANS = "a mean of earlier steps that gave them more weight would grow without bound"
_USUAL = "PyTorch's default"
_STEPS = "a schedule counts steps in float32"
_DECAY = Range(0, 1e30, _FLOAT32[2], real=True)
_SIDE = Range(1, 4096, "larger images are not meant for such networks")
_WIDTH = Range(1, 2**20, _IN_32_BITS)
_THREADS = Range(1, 1024, "a block has at most 1024 threads")
_WORK = Range(1, 64, "a thread has no registers for more elements")

FLAG = Form("true or false", lambda value: isinstance(value, bool))
TEXT = Form("text", lambda value: isinstance(value, str))
ANYTHING = Form(
    "text, a number, true, false or null, or a list of them", lambda value: not isinstance(value, dict)
)
_WHOLE = Range(1, 2**31 - 1, _IN_32_BITS)
_REAL = Range(0, 1e30, _FLOAT32[2], real=True)
_LIST = list_of("values, each once", lambda element: True)
_DEVICE = "the name of a device, in quotes if it looks like a number or a list, or null"
_FILE = "the path of a file, in quotes if it looks like a number or a list, or null"

KINDS: Mapping[str, Kind] = {
    "dataset.rows": _ROWS,
    "dataset.test_rows": _ROWS,
    "dataset.shape": Form(
        "[channels, height, width] of an image, such as [1, 28, 28], each from 1 to 4096",
        lambda shape: _has(_SIDE, 3, shape),
        _SIDE,
    ),
    "dataset.features": Range(1, 10**6, "larger samples are not meant for such networks"),
    "dataset.noise": Range(0, 1e18, "the squares of errors must be float32 numbers", real=True),
    "dataset.seed": Range(0, 2**32 - 1, _SEEDS),
    "dataset.held_out": Range(0, 0.9, "some rows must be left to train on", real=True),
    "dataset.shuffle_seed": Range(0, 2**32 - 1, _SEEDS, or_null="the rows in the order of the file"),
    "dataset.path": Form(
        "the path of a file or folder: text without control characters",
        lambda path: isinstance(path, str) and path != "",
    ),
    "dataset.target": Form(
        "the target column's name, or its number, such as 0 or -1",
        _is_column,
    ),
    "dataset.header": Form(
        "true, false, the number of its line, from 1, or null",
        lambda header: isinstance(header, bool) or (_is_whole(header) and header > 0),
    ),
    "dataset.delimiter": Form(
        r"one character that no number has, such as ',' or ';', no quote or line break, or '\s+' for blanks",
        lambda mark: mark == r"\s+" or (_is_mark(mark) and mark not in ".'"),
    ),
    "dataset.decimal": one_of((".", ",")),
    "dataset.thousands": Form("one character, such as ',' or '.', and no double quote", _is_mark),
    "dataset.comment": Form("one character, such as '#' or '%', and no double quote", _is_mark),
    "dataset.encoding": Form("an encoding of text, such as utf-8, cp1252 or utf-16", _is_encoding),
    "dataset.na_values": list_of(
        "texts and numbers that are missing values, each once, such as [-999, '#DIV/0!']",
        lambda value: isinstance(value, (str, int, float)) and not isinstance(value, bool),
    ),
    "dataset.text_columns": one_of(("error", "one_hot", "drop")),
    "dataset.missing": one_of(("error", "drop_rows")),
    "dataset.drop": list_of("names or numbers of columns, each once, such as [id, 3]", _is_column),
    "dataset.task": one_of(TASKS),
    "dataset.sha256": Form(
        "64 hexadecimal digits, or null",
        lambda digest: isinstance(digest, str) and bool(re.fullmatch("[0-9a-f]{64}", digest)),
    ),
    "network.hidden": Form(
        "a list of one or more widths, each at least 1 (to 2^20), such as [256]",
        lambda hidden: _has(_WIDTH, None, hidden),
        _WIDTH,
    ),
    "network.bias": FLAG,
    "network.activation": one_of(ACTIVATIONS),
    "network.layers": Form(
        "a list of layers, such as [linear 8, relu, linear 1]",
        lambda layers: isinstance(layers, list) and layers != [],
    ),
    "network.loss": one_of(LOSSES),
    "network.init": one_of(INITIALISERS),
    "network.update_order": one_of(UPDATE_ORDERS),
    "network.clip_norm": Range(*_FLOAT32, real=True, or_null="no clipping"),
    "network.recompute": Form(
        "a list of layers, each once, such as [1, 3], or [] for none", lambda layers: isinstance(layers, list)
    ),
    "network.seed": _RAND,
    # PyTorch's versions that are not separate CUDA graphs
    "strategy.mode": one_of(("default", "max-autotune-no-cudagraphs")),
    "strategy.streams": Range(1, 1024, "a device works on fewer streams at a time"),
    "strategy.tile_rows": Range(1, 2**24, _IN_32_BITS, or_word="auto"),
    "strategy.devices": Range(2, 64, "no host has more GPUs", or_null="all GPUs that the process sees"),
    "strategy.buffers": Range(1, 4096, "more batches than this never wait for each other"),
    "strategy.data": one_of(("staged", "registered")),
    "strategy.hints": one_of(("both", "advice", "prefetches")),
    "strategy.host": one_of(("pinned", "pageable")),
    "strategy.threads": Range(1, 65536, "no host has more CPUs"),
    "strategy.workers": Range(0, 1024, "each is a separate process"),
    "strategy.unroll": Range(1, 10**4, "a compiler would take hours for a longer loop body"),
    "strategy.starts": Range(1, MOST_MEMBERS, f"a launch trains at most {MOST_MEMBERS} networks"),
    "strategy.seeds": list_of(
        "whole numbers from 1 to 2147483647, each once, such as [1, 2, 3]", _RAND.holds, _RAND
    ),
    "strategy.initialisers": list_of(
        f"initialisers, each once, of {', '.join(INITIALISERS)}", INITIALISERS.__contains__
    ),
    "strategy.learning_rates": list_of(
        "numbers above 0 and finite in float32, each once, such as [1.0e-4, 1.0e-3]", _ABOVE_0.holds, _ABOVE_0
    ),
    "strategy.weight_decays": list_of(
        "numbers of at least 0, each once, such as [0, 1.0e-4]", _DECAY.holds, _DECAY
    ),
    "strategy.folds": Range(0, 10**4, "every fold trains all combinations once more"),
    "strategy.bootstraps": Range(0, MOST_MEMBERS, f"a launch trains at most {MOST_MEMBERS} networks"),
    "kernel.block": Form(
        "the block size [x, y], at most 1024 threads in all, such as [16, 16]",
        lambda block: _has(_THREADS, 2, block) and math.prod(block) <= 1024,
        _THREADS,
    ),
    "kernel.source": Form(
        "a file, such as kernels/naive.cu, or null",
        lambda source: source is None or (isinstance(source, str) and (groups.ROOT / source).is_file()),
    ),
    "kernel.fused": FLAG,
    "kernel.pretransposed": FLAG,
    "kernel.precisions": Form(
        "a list of one or more of the precisions, such as [fp32]",
        lambda given: isinstance(given, list) and set() < {*map(str, given)} <= {*groups.names("precision")},
    ),
    "kernel.work": Form(
        "the rows and columns of a product that a thread computes, such as [2, 4]",
        lambda work: _has(_WORK, 2, work),
        _WORK,
    ),
    "training.epochs": Range(1, 10**6, "a run of more would take days"),
    "training.batch_size": Range(1, 2**24, _IN_32_BITS),
    "training.learning_rate": _ABOVE_0,
    "training.reduction": one_of(REDUCTIONS),
    "training.gradient": one_of(GRADIENTS),
    "training.fidelity": one_of(FIDELITIES),
    "training.storage": one_of(storage.STORAGES),
    "training.loss_scale": Range(1, 2**24, "FP16 ends at 65504", or_null="1024 with FP16, else none"),
    "training.drop_last": FLAG,
    "training.shuffle": one_of(SHUFFLES),
    "training.validation": Range(0, 0.9, "some rows must be left to train on", real=True),
    "training.patience": Range(1, 10**6, "a run has no more epochs", or_null="training all epochs"),
    "training.accumulate": Range(1, 2**24, _IN_32_BITS),
    "training.optimizer": one_of(optimizers.OPTIMIZERS),
    "training.momentum": Range(0, 1, _MEANS, real=True, or_null=_USUAL),
    "training.nesterov": Form("true, false or null", lambda value: value is None or isinstance(value, bool)),
    "training.beta1": Range(0, _BELOW_1, _MEANS, real=True, or_null=_USUAL),
    "training.beta2": Range(0, _BELOW_1, _MEANS, real=True, or_null=_USUAL),
    "training.eps": Range(*_FLOAT32, real=True, or_null=_USUAL),
    "training.weight_decay": replace(_DECAY, or_null=_USUAL),
    "training.clip_norm": Range(*_FLOAT32, real=True, or_null="no clipping"),
    "training.schedule": one_of(schedules.SCHEDULES),
    "training.warmup_steps": Range(0, schedules.MOST_STEPS, _STEPS, or_null="none"),
    "training.step_size": Range(1, schedules.MOST_STEPS, _STEPS, or_null="none"),
    "training.gamma": Range(0, 1, "the rate would grow without bound", real=True, or_null=_USUAL),
    "training.end_factor": Range(0, 1e6, _FLOAT32[2], real=True, or_null="its default, 0"),
    "protocol.runs": _RUNS,
    "protocol.min_runs": _RUNS,
    "protocol.rounds": Range(1, MOST_ROUNDS, "each round is a job of the workflow"),
    "protocol.relative_error": Range(
        1e-6, 1, "no clock tells smaller differences", real=True, or_null="no such rule"
    ),
    "protocol.max_seconds": Range(1e-3, 86400, _DAY, real=True, or_null="no limit"),
    "protocol.warmup_seconds": Range(0, 86400, _DAY, real=True),
    "protocol.max_warmup_seconds": Range(0, 86400, _DAY, real=True),
    "protocol.neighbour": one_of((ANY, NONE, *groups.names("strategy"))),
    "protocol.energy": FLAG,
    "device.backend": one_of(BACKENDS),
    "device.name": Form(_DEVICE, lambda name: name is None or isinstance(name, str)),
    # Keys of the command line, which belong to no section of a cell.
    "round": Form(
        f"from 1 to {MOST_ROUNDS}, or null for all runs of the protocol",
        lambda number: number is None or (_is_whole(number) and 1 <= number <= MOST_ROUNDS),
    ),
    "data": Form(_FILE, lambda path: path is None or isinstance(path, str)),
    "output": Form(_FILE, lambda path: path is None or isinstance(path, str)),
    "weights": Form(_FILE, lambda path: path is None or isinstance(path, str)),
    "profile": one_of(("none", "nvtx")),
}

OMITTED: Mapping[str, Mapping[str, Any]] = {
    "async_pool": {"host": "pageable"},
    "managed_prefetch": {"hints": "both"},
    "pipelined": {"data": "staged"},
    "pool": {"host": "pinned"},
    "preallocated": {"streams": 1},
}
"""By strategy: keys that a cell has only if they differ from these values, as before there was a choice."""

RANGES = {key: kind.numbers for key, kind in KINDS.items() if kind.numbers}
"""The range of each key that holds a number, or of the elements if it holds a list."""


def find_kind(key: str, usual: object) -> Kind:
    """The type of a key; ``usual`` is its value in the choice's file."""
    if key in KINDS:
        return KINDS[key]
    by_type = {bool: FLAG, int: _WHOLE, float: _REAL, list: _LIST, str: ANYTHING if usual == "???" else TEXT}
    return by_type.get(type(usual), ANYTHING)


def check_text(key: str, value: object, most: int = MOST_TEXT) -> None:
    """Raise ConfigError for text, also in lists, that a command line or a path would change."""
    if isinstance(value, list):
        for element in value[:_MOST_ELEMENTS]:
            check_text(key, element)
    if not isinstance(value, str):
        return
    if len(value) > most:
        raise error(key, value, f"at most {most} characters")
    if "${" in value:
        raise error(key, value, "written out, because ${...} is not replaced by a value")
    if _UNPRINTABLE.search(value.replace("\t", "") if key == "dataset.delimiter" else value):
        raise error(key, value, "text without control characters, line ends and bytes that are not UTF-8")


def check_cell(cell: Mapping[str, Any]) -> None:
    """Raise ConfigError for the first wrong value of a cell, naming key, value and what would be right."""
    for section in SECTIONS:
        _check_section(section, cell[section])
    strategy, kernel, network, training = (cell[key] for key in ("strategy", "kernel", "network", "training"))
    lists = {key: value for key, value in strategy.items() if isinstance(value, list)}
    folds, samples = (strategy.get(key, 0) for key in ("folds", "bootstraps"))
    if folds == 1 or (folds and samples):
        right = "0, or at least 2" if folds == 1 else "0, since strategy.bootstraps is not 0"
        raise error("strategy.folds", folds, right)
    count = strategy.get("starts", 1) * max(folds, samples, 1)
    count *= math.prod(max(len(value), 1) for value in lists.values())
    if count > MOST_MEMBERS:
        raise ConfigError(
            f"strategy.starts: {strategy['starts']} starts of each combination of {', '.join(lists)} are "
            f"{count} networks: there must be at most {MOST_MEMBERS} in a launch"
        )
    if groups.load("kernel", kernel["name"])["work"] == [1, 1] != kernel["work"]:
        right = f"[1, 1], since each thread of kernel={kernel['name']} computes one element"
        raise error("kernel.work", kernel["work"], right)
    _check_network(network, cell["dataset"])
    batch, rows = training["batch_size"], cell["dataset"].get("rows")
    if rows is not None and batch > rows:
        right = f"at most {rows}, the number of rows of dataset={cell['dataset']['name']}"
        raise error("training.batch_size", batch, right)
    validation.check_patience(training)
    if rows is not None:
        validation.count_trained(cell, rows - validation.count_rows(training, rows))
    remedies.check_divides(training["accumulate"], batch)
    remedies.check_divisible(training["accumulate"], list(map(parse, network.get("layers", ()))))
    storage.check(training)
    gradient = gradient_of(training["gradient"], kernel["block"])
    remedies.check(training["accumulate"], remedies.layers(network), network["update_order"], gradient)
    limit = network["clip_norm"]
    optimizers.check(optimizers.of(training), gradient.name, network["update_order"], limit)


def _check_section(section: str, values: Mapping[str, Any]) -> None:
    """Check the keys and values of a section, against the choice's file if the choice has a name."""
    choice = values["name"] if section in choices.NAMED else None
    if missing := [f"{section}.{key}" for key, value in values.items() if value == "???"]:
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        to_set = " ".join(f"{key}=..." for key in missing)
        said = f"{section}={choice} needs {them}; set {them} with {to_set}"
        raise ConfigError(f"{' and '.join(missing)} {are} missing: {said}")
    usual = groups.load(section, choice) if choice else {}
    for key, value in values.items():
        where = f"{section}.{key}"
        if isinstance(value, (str, list)):
            check_text(where, value)
        if choice:
            if key not in usual or value != usual[key]:
                choices.check_key(where, choice)
            if value is None and usual[key] is None:
                continue
        find_kind(where, usual.get(key)).check(where, value)


def _check_network(network: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
    """Check that the layers fit into a name, and that they match if the data set's shape is known."""
    for text in network.get("layers", ())[:_MOST_ELEMENTS]:
        if any(number > _WIDTH.most for number in vars(parse(text)).values() if _is_whole(number)):
            raise error("network.layers", text, f"a layer of numbers to {_WIDTH.most}: {_WIDTH.reason}")
    label = network_label(network)
    if len(label) > _MOST_LABEL:
        key = "network.hidden" if "hidden" in network else "network.layers"
        right = f"of fewer layers: in paths it has {len(label)} characters, and at most {_MOST_LABEL} fit"
        raise error(key, network.get("hidden", network.get("layers")), right)
    shape = dataset.get("shape") or [dataset.get("features")]
    if None not in shape:  # else the shape is known once the data are read
        build(network, tuple(shape))


def complete(cell: dict[str, Any], given: Collection[str]) -> Cell:
    """The cell of these settings: checked, with its values in one form and the data's shape filled in.

    ``given`` holds the keys that the user set: one that has no effect is an error. If ``min_runs`` was not
    set and is larger than ``runs``, ``runs`` decides. Raises ConfigError, and DataError for a data file.
    """
    check_cell(cell)
    protocol = cell["protocol"]
    if "protocol.min_runs" in given and protocol["min_runs"] > protocol["runs"]:
        right = f"at most protocol.runs, which is {protocol['runs']}"
        raise error("protocol.min_runs", protocol["min_runs"], right)
    _settle(cell)
    sized = datasets.completed(cell["dataset"])
    if sized != cell["dataset"]:
        cell["dataset"] = sized
        check_cell(cell)
    return Cell((section, dict(sorted(cell[section].items()))) for section in SECTIONS)


def _settle(cell: dict[str, Any]) -> None:
    """Bring the values of a checked cell into one form, however they were written.

    Each round has at least one run; 5 and 5.0 are 5.0; a data set's task may follow from the network's loss.
    """
    cell["protocol"]["rounds"] = min(cell["protocol"]["rounds"], cell["protocol"]["runs"])
    if cell["protocol"].get("neighbour") == ANY:
        del cell["protocol"]["neighbour"]
    if not cell["protocol"].get("energy"):
        cell["protocol"].pop("energy", None)
    cell["training"] = settled_training(cell["training"])
    cell["strategy"] = settled_strategy(cell["strategy"])
    network = cell["network"] = without_defaults(cell["network"])
    network["recompute"] = sorted(network["recompute"])
    if not cell["dataset"].get("drop", True):
        del cell["dataset"]["drop"]
    if cell["dataset"].get("task", "") is None:
        cell["dataset"]["task"] = LOSSES[network.get("loss", MEAN_SQUARED_ERROR.name)].task
    for section in SECTIONS:
        values = cell[section]
        for key in _real_keys(section, values["name"] if section in choices.NAMED else None):
            if (value := values.get(key)) is not None:
                values[key] = [*map(float, value)] if isinstance(value, list) else float(value)


def settled_training(training: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's section ``training`` without keys that have their values of before there was a choice."""
    found = validation.settled(optimizers.settled(row_order.settled(storage.settled(training))))
    return {key: value for key, value in found.items() if (key, value) != ("fidelity", LEAN)}


def settled_strategy(strategy: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's section ``strategy`` without keys that have their values of before there was a choice."""
    usual = OMITTED.get(strategy["name"], {})
    return members.settled({key: value for key, value in strategy.items() if usual.get(key) != value})


@cache
def _real_keys(section: str, choice: str | None) -> list[str]:
    """The keys of a section that hold real numbers, or lists of them."""
    usual = groups.load(section, choice) if choice else {}
    known = {*usual, *(key.partition(".")[2] for key in KINDS if key.startswith(f"{section}."))}
    numbers = {key: find_kind(f"{section}.{key}", usual.get(key)).numbers for key in known}
    return [key for key, its in numbers.items() if its and its.real]
