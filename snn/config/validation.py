"""Checks of a cell's values, whether they come from the grid or from the command line."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from snn.config import groups
from snn.datasets.csv_table import is_delimiter, is_target
from snn.errors import ConfigError
from snn.hardware.devices import BACKENDS
from snn.models.layers import parse
from snn.models.losses import LOSSES
from snn.models.network import INITIALISERS, UPDATE_ORDERS, build

PROFILES = ("none", "nvtx")
"""Instrumented passes that may be asked for beside those of every cell."""

_OR_WORD = {"strategy.tile_rows": "auto"}
"""Keys with an integer value that may also be this word."""

_ONE_OF = {"strategy.mode": ("default", "max-autotune-no-cudagraphs")}
"""Keys with a fixed set of values: PyTorch's modes that do not capture a graph of their own."""

_OF_CSV: dict[str, tuple[Callable[[object], bool], str]] = {
    "dataset.path": (
        lambda path: isinstance(path, str) and path != "" and min(path) >= " ",
        "the path of a file: text without control characters",
    ),
    "dataset.target": (is_target, "the target column's name, or its number, as 0 or -1"),
    "dataset.delimiter": (
        is_delimiter,
        "one character that no number has, as ',' or ';', and no quote or line break",
    ),
    "dataset.sha256": (
        lambda digest: digest is None or re.fullmatch("[0-9a-f]{64}", str(digest)) is not None,
        "64 hexadecimal digits, or null",
    ),
}
"""Keys of a user's file: a check of the value, and what it must be."""

_LISTS: dict[str, tuple[Callable[[object], bool], str]] = {
    "strategy.seeds": (lambda seed: _is_count(seed), "whole numbers, each at least 1, as [1, 2, 3]"),
    "strategy.initialisers": (
        lambda name: name in INITIALISERS,
        f"initialisers, each one of {', '.join(INITIALISERS)}",
    ),
    "strategy.learning_rates": (
        lambda rate: _is_positive(rate),
        "numbers above 0, as [1.0e-4, 1.0e-3] (not 1e-3: YAML reads that as text)",
    ),
}
"""Keys with a list value: a check of each element, and what it must be."""


def check_cell(cell: Mapping[str, Any]) -> None:
    """Raise ConfigError for the first wrong value of a cell, naming key, value and what would be right."""
    for group in ("dataset", "strategy"):
        _check_choice(group, cell[group])
    training, protocol = cell["training"], cell["protocol"]
    _check_network(cell["network"], cell["dataset"])
    for key in ("epochs", "batch_size"):
        _at_least(f"training.{key}", training[key], 1)
    _positive("training.learning_rate", training["learning_rate"])
    rows = cell["dataset"].get("rows")
    if rows is not None and training["batch_size"] > rows:
        right = f"at most {rows}, the number of rows of dataset={cell['dataset']['name']}"
        raise _error("training.batch_size", training["batch_size"], right)
    _check_protocol(protocol)
    _one_of("device.backend", cell["device"]["backend"], BACKENDS)
    block = cell["kernel"]["block"]
    if len(block) != 2 or not all(_is_count(side) for side in block) or math.prod(block) > 1024:
        raise _error("kernel.block", block, "the block size [x, y], at most 1024 threads in all, as [16, 16]")
    _check_work(cell["kernel"])


def _check_network(network: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
    """The keys of a network, and that its layers fit each other where the data set says its shape."""
    if "hidden" in network:
        hidden = network["hidden"]
        if not isinstance(hidden, list) or not hidden or not all(map(_is_count, hidden)):
            raise _error("network.hidden", hidden, "a list of one or more widths, each at least 1, as [256]")
    else:
        if not isinstance(network["layers"], list) or not network["layers"]:
            raise _error(
                "network.layers", network["layers"], "a list of layers, as [linear 8, relu, linear 1]"
            )
        _one_of("network.loss", network["loss"], tuple(LOSSES))
    _one_of("network.init", network["init"], INITIALISERS)
    _one_of("network.update_order", network["update_order"], UPDATE_ORDERS)
    if network["clip_norm"] is not None:
        _positive("network.clip_norm", network["clip_norm"], "or null for no clipping")
    _at_least("network.seed", network["seed"], 1)
    if "features" in dataset or "shape" in dataset:
        build(network, tuple(dataset.get("shape") or [dataset["features"]]))
    else:  # the shape is known once the data are read
        for layer in network.get("layers", ()):
            parse(layer)


def _check_work(kernel: Mapping[str, Any]) -> None:
    """Check the elements per thread: one, unless the kernel's file says otherwise."""
    work, usual = kernel["work"], groups.load("kernel", kernel["name"])["work"]
    if work is not None and (len(work) != 2 or not all(_is_count(side) for side in work)):
        raise _error(
            "kernel.work", work, "the rows and columns of a product that a thread computes, as [2, 4]"
        )
    if usual == [1, 1] != work:
        raise _error(
            "kernel.work", work, f"[1, 1], since each thread of kernel={kernel['name']} computes one element"
        )


def check_round(number: object, protocol: Mapping[str, Any]) -> None:
    """Raise ConfigError if a protocol has no round of this number."""
    if number is not None and number not in range(1, protocol["rounds"] + 1):
        raise _error(
            "round", number, f"from 1 to protocol.rounds ({protocol['rounds']}), or null for all runs"
        )


def check_profile(profile: object) -> None:
    """Raise ConfigError, naming the choices, where there is no such pass."""
    _one_of("profile", profile, PROFILES)


def settle(cell: Mapping[str, Any]) -> None:
    """Reduce a checked cell's rounds to its runs, since each round has at least one run."""
    cell["protocol"]["rounds"] = min(cell["protocol"]["rounds"], cell["protocol"]["runs"])


def _check_protocol(protocol: Mapping[str, Any]) -> None:
    for key in ("runs", "min_runs", "rounds"):
        _at_least(f"protocol.{key}", protocol[key], 1)
    for key in ("warmup_seconds", "max_warmup_seconds"):
        if not _is_number(protocol[key]) or protocol[key] < 0:
            raise _error(f"protocol.{key}", protocol[key], "a number, at least 0")
    if protocol["max_seconds"] is not None:
        _positive("protocol.max_seconds", protocol["max_seconds"], "or null for no limit")
    if protocol["relative_error"] is not None:
        _positive(
            "protocol.relative_error",
            protocol["relative_error"],
            "as 0.01, or null to disable this stopping rule",
        )


def _check_choice(group: str, values: Mapping[str, Any]) -> None:
    """Check a choice against its file, which is the schema: the same keys, values of the same types."""
    defaults = groups.load(group, values["name"])
    for key, value in values.items():
        where = f"{group}.{key}"
        if key not in defaults:
            raise ConfigError(
                f"{where}: there is no such key; {group}={values['name']} has {', '.join(defaults)}"
            )
        if value == "???":
            raise ConfigError(
                f"{where} is missing: {group}={values['name']} needs it; set it with {where}=..."
            )
        if where in _OF_CSV:
            is_right, right = _OF_CSV[where]
            if not is_right(value):
                raise _error(where, value, right)
        kind = type(defaults[key])
        if kind is int:
            _at_least(where, value, 0 if key == "seed" else 1, _OR_WORD.get(where))
        elif kind is float:
            if not _is_number(value) or value < 0:
                raise _error(where, value, "a number, at least 0")
        elif kind is bool and not isinstance(value, bool):
            raise _error(where, value, "true or false")
        elif kind is list:
            _check_list(where, value)
        elif where in _ONE_OF:
            _one_of(where, value, _ONE_OF[where])
        elif kind is str and defaults[key] != "???" and not isinstance(value, str):
            raise _error(where, value, "text")


def _check_list(key: str, value: object) -> None:
    is_right, right = _LISTS.get(key, (lambda element: True, ""))
    if not isinstance(value, list) or not all(map(is_right, value)):
        raise _error(key, value, f"a list of {right}, or [] for the cell's own" if right else "a list")
    if any(element in value[:i] for i, element in enumerate(value)):
        raise _error(key, value, "a list without duplicates")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _at_least(key: str, value: object, least: int, or_word: str | None = None) -> None:
    if or_word is not None and value == or_word:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        right = f"a whole number, at least {least}"
        raise _error(key, value, f"{right}, or {or_word}" if or_word else right)


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


def _positive(key: str, value: object, also: str = "") -> None:
    if not _is_positive(value):
        raise _error(key, value, f"a number above 0 {also}".strip())


def _one_of(key: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise _error(key, value, f"one of {', '.join(allowed)}")


def _error(key: str, value: object, right: str) -> ConfigError:
    return ConfigError(f"{key} is {value!r}: it must be {right}")
