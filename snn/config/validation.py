"""Checks of a cell's values, whether they come from the grid or from the command line."""

import codecs
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from snn.config import choice_files, groups, keys
from snn.config.neighbour import ANY, NONE
from snn.config.ranges import MOST_MEMBERS, RANGES, error, of
from snn.config.suggestions import meant
from snn.errors import ConfigError
from snn.hardware.devices import BACKENDS
from snn.models import remedies
from snn.models.gradients import GRADIENTS
from snn.models.gradients import of as gradient_of
from snn.models.layers import parse
from snn.models.losses import LOSSES, TASKS
from snn.models.network import INITIALISERS, REDUCTIONS, UPDATE_ORDERS, build, network_label

PROFILES = ("none", "nvtx")
"""Instrumented passes that may be asked for beside those of every cell."""

MOST_ROUNDS = 1000
"""Rounds that a cell may have, whatever its protocol; a draw of weights precedes each run of those before."""

MOST_TEXT = 4096
_MOST_ELEMENTS = 512
_MOST_LABEL = 200

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SHA256 = re.compile(r"[0-9a-f]{64}")

_ONE_OF = {
    "strategy.mode": ("default", "max-autotune-no-cudagraphs"),  # PyTorch's without a graph of their own
    "dataset.decimal": (".", ","),
    "dataset.text_columns": ("error", "one_hot", "drop"),
    "dataset.missing": ("error", "drop_rows"),
    "dataset.task": TASKS,
}
"""Keys with a fixed set of values."""

_LISTS: dict[str, tuple[Callable[[object], bool], str]] = {
    "dataset.na_values": (
        lambda value: isinstance(value, (str, int, float)) and not isinstance(value, bool),
        "texts and numbers that are missing values, as [-999, '#DIV/0!']",
    ),
    "strategy.seeds": (
        RANGES["strategy.seeds"].holds,
        "whole numbers, each from 1 to 2147483647, as [1, 2, 3]",
    ),
    "strategy.initialisers": (
        lambda name: name in INITIALISERS,
        f"initialisers, each one of {', '.join(INITIALISERS)}",
    ),
    "strategy.learning_rates": (
        RANGES["strategy.learning_rates"].holds,
        "numbers above 0, as [1.0e-4, 1.0e-3] (not 1e-3: YAML reads that as text), each finite in float32",
    ),
}
"""Keys with a list value: a check of each element, and what it must be."""

_SIDES = RANGES["dataset.shape"]

_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "dataset.path": (
        lambda path: isinstance(path, str) and path != "",
        "the path of a file or folder: text without control characters",
    ),
    "dataset.shape": (
        lambda shape: isinstance(shape, list) and len(shape) == 3 and all(map(_SIDES.holds, shape)),
        "[channels, height, width] of an image, as [1, 28, 28], each from 1 to 4096",
    ),
    "dataset.target": (
        lambda target: _is_whole(target) or (isinstance(target, str) and target != ""),
        "the target column's name, or its number, as 0 or -1",
    ),
    "dataset.delimiter": (
        lambda mark: mark == r"\s+" or (_is_mark(mark) and mark not in ".'"),
        r"one character that no number has, as ',' or ';', and no quote or line break, or '\s+' for blanks",
    ),
    "dataset.thousands": (lambda mark: _is_mark(mark), "one character, as ',' or '.', and no double quote"),
    "dataset.comment": (lambda mark: _is_mark(mark), "one character, as '#' or '%', and no double quote"),
    "dataset.encoding": (
        lambda name: _is_encoding(name),
        "an encoding of text, such as utf-8, cp1252 or utf-16",
    ),
    "dataset.header": (
        lambda header: isinstance(header, bool) or (_is_whole(header) and header > 0),
        "true, false, the number of its line, from 1, or null",
    ),
    "dataset.sha256": (
        lambda digest: digest is None or (isinstance(digest, str) and bool(_SHA256.fullmatch(digest))),
        "64 hexadecimal digits, or null",
    ),
}
"""Keys whose file does not show what they may be: a check, and what they must be."""


def check_cell(cell: Mapping[str, Any]) -> None:
    """Raise ConfigError for the first wrong value of a cell, naming key, value and what would be right."""
    for section, values in cell.items():
        if isinstance(values, Mapping):
            for key, value in values.items():
                if isinstance(value, (str, list)):
                    check_text(f"{section}.{key}", value)
        else:
            check_text(section, values)
    for group in choice_files.NAMED:
        _check_choice(group, cell[group])
    _check_members(cell["strategy"])
    training = cell["training"]
    _check_network(cell["network"], cell["dataset"])
    for section in ("training", "protocol"):
        for key, value in cell[section].items():
            if f"{section}.{key}" in RANGES:
                RANGES[f"{section}.{key}"].check(f"{section}.{key}", value)
    neighbour = cell["protocol"].get("neighbour", ANY)
    _one_of("protocol.neighbour", neighbour, (ANY, NONE, *groups.names("strategy")))
    _one_of("training.reduction", training["reduction"], REDUCTIONS)
    _one_of("training.gradient", training["gradient"], GRADIENTS)
    if not isinstance(training["drop_last"], bool):
        raise error("training.drop_last", training["drop_last"], "true or false")
    rows = cell["dataset"].get("rows")
    if rows is not None and training["batch_size"] > rows:
        right = f"at most {rows}, the number of rows of dataset={cell['dataset']['name']}"
        raise error("training.batch_size", training["batch_size"], right)
    _one_of("device.backend", cell["device"]["backend"], BACKENDS)
    check_path("device.name", cell["device"]["name"], "the name of a device")
    _check_block(cell["kernel"])
    _check_remedies(cell)


def _check_block(kernel: Mapping[str, Any]) -> None:
    """Check the block size, and the elements per thread."""
    block = kernel["block"]
    if not _is_pair("kernel.block", block) or math.prod(block) > 1024:
        raise error("kernel.block", block, "the block size [x, y], at most 1024 threads in all, as [16, 16]")
    _check_work(kernel)


def _check_remedies(cell: Mapping[str, Any]) -> None:
    """That a batch can be divided, and the network be trained in micro-batches, or outputs computed again."""
    training, network = cell["training"], cell["network"]
    remedies.check_divides(training["accumulate"], training["batch_size"])
    gradient = gradient_of(training["gradient"], cell["kernel"]["block"])
    remedies.check(training["accumulate"], remedies.layers(network), network["update_order"], gradient)


def check_text(key: str, value: object, most: int = MOST_TEXT) -> None:
    """Raise ConfigError for text that a command line or a path would not carry unchanged.

    Texts in lists are checked, too. ``${`` would be an interpolation: of a variable of the environment, say.
    """
    if isinstance(value, list):
        for element in value[:_MOST_ELEMENTS]:
            check_text(key, element)
    if not isinstance(value, str):
        return
    if len(value) > most:
        raise error(key, value, f"at most {most} characters")
    if "${" in value:
        raise error(key, value, "written out: there is no interpolation ${...}")
    if _UNPRINTABLE.search(value.replace("\t", "") if key == "dataset.delimiter" else value):
        raise error(key, value, "text without control characters, line ends and bytes that are not UTF-8")


def _check_network(network: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
    """The keys of a network, and that its layers fit each other where the data set says its shape."""
    if "hidden" in network:
        hidden = network["hidden"]
        if not isinstance(hidden, list) or not hidden or not all(map(RANGES["network.hidden"].holds, hidden)):
            raise error(
                "network.hidden", hidden, "a list of one or more widths, each at least 1 (to 2^20), as [256]"
            )
    else:
        if not isinstance(network["layers"], list) or not network["layers"]:
            raise error(
                "network.layers", network["layers"], "a list of layers, as [linear 8, relu, linear 1]"
            )
        _one_of("network.loss", network["loss"], tuple(LOSSES))
        for layer in network["layers"][:_MOST_ELEMENTS]:
            _check_layer(layer)
    label = network_label(network)
    if len(label) > _MOST_LABEL:
        key = "network.hidden" if "hidden" in network else "network.layers"
        right = f"of fewer layers: in paths it has {len(label)} characters, and at most {_MOST_LABEL} fit"
        raise error(key, network.get("hidden", network.get("layers")), right)
    _one_of("network.init", network["init"], INITIALISERS)
    _one_of("network.update_order", network["update_order"], UPDATE_ORDERS)
    for key in ("clip_norm", "seed"):
        RANGES[f"network.{key}"].check(f"network.{key}", network[key])
    shape = dataset.get("shape") or [dataset.get("features")]
    if None not in shape:  # else it is known once the data are read
        build(network, tuple(shape))


def _check_layer(text: object) -> None:
    """Check a layer's text, and its numbers: at most a hidden layer's width."""
    most = RANGES["network.hidden"].most
    if any(number > most for number in vars(parse(text)).values() if _is_whole(number)):
        raise error(
            "network.layers", text, f"a layer of numbers to {most}: {RANGES['network.hidden'].reason}"
        )


def _check_work(kernel: Mapping[str, Any]) -> None:
    """Check the elements per thread: one, unless the kernel's file says otherwise."""
    work, usual = kernel["work"], groups.load("kernel", kernel["name"])["work"]
    if work is not None and not _is_pair("kernel.work", work):
        raise error(
            "kernel.work", work, "the rows and columns of a product that a thread computes, as [2, 4]"
        )
    if usual == [1, 1] != work:
        raise error(
            "kernel.work", work, f"[1, 1], since each thread of kernel={kernel['name']} computes one element"
        )


def check_round(number: object) -> None:
    """Raise ConfigError if no cell can have a round of this number; it may be one beyond the protocol's."""
    if number is not None and not (_is_whole(number) and 1 <= number <= MOST_ROUNDS):  # type: ignore[operator]
        raise error("round", number, f"from 1 to {MOST_ROUNDS}, or null for all runs of the protocol")


def check_path(key: str, value: object, right: str = "the path of a file") -> None:
    """Raise ConfigError where the value of a key is neither text nor null."""
    if value is not None and not isinstance(value, str):
        raise error(key, value, f"{right}, in quotes if it looks like a number or a list, or null")


def check_profile(profile: object) -> None:
    """Raise ConfigError, naming the choices, where there is no such pass."""
    _one_of("profile", profile, PROFILES)


def _check_choice(group: str, values: Mapping[str, Any]) -> None:
    """Check a choice against its file, which is the schema: the same keys, values of the same types."""
    name = values["name"]
    usual = groups.load(group, name)
    missing = [f"{group}.{key}" for key, value in values.items() if value == "???"]
    if missing:
        are, them = ("is", "it") if len(missing) == 1 else ("are", "them")
        to_set = " ".join(f"{key}=..." for key in missing)
        raise ConfigError(
            f"{' and '.join(missing)} {are} missing: {group}={name} needs {them}; set {them} with {to_set}"
        )
    for key, value in values.items():
        where = f"{group}.{key}"
        keys.check_key(where, name, of_choice=value == usual.get(key))
        kind = type(usual[key])
        if value is None and usual[key] is None:
            continue
        if where in _FORMS:
            is_right, right = _FORMS[where]
            if not is_right(value):
                raise error(where, value, right)
        elif where in _ONE_OF:
            _one_of(where, value, _ONE_OF[where])
        elif group == "kernel":  # its lists have checks of their own
            continue
        elif kind in (int, float) or (kind is type(None) and where in RANGES):
            of(where, usual[key]).check(where, value)
        elif kind is bool and not isinstance(value, bool):
            raise error(where, value, "true or false")
        elif kind is list:
            _check_list(where, value)
        elif kind is str and usual[key] != "???" and not isinstance(value, str):
            raise error(where, value, "text")


def _check_list(key: str, value: object) -> None:
    is_right, right = _LISTS.get(key, (lambda element: True, ""))
    if not isinstance(value, list) or not all(map(is_right, value)):
        raise error(key, value, f"a list of {right}, or []" if right else "a list")
    if len(value) > _MOST_ELEMENTS:
        raise error(key, value, f"at most {_MOST_ELEMENTS} elements, which a command line can carry")
    if any(element in value[:i] for i, element in enumerate(value)):
        raise error(key, value, "a list without duplicates")


def _check_members(strategy: Mapping[str, Any]) -> None:
    lists = {key: value for key, value in strategy.items() if isinstance(value, list)}
    members = strategy.get("starts", 1) * math.prod(max(len(value), 1) for value in lists.values())
    if members > MOST_MEMBERS:
        raise ConfigError(
            f"strategy.starts: {strategy['starts']} starts of each combination of {', '.join(lists)} are "
            f"{members} networks: there must be at most {MOST_MEMBERS} in a launch"
        )


def _is_encoding(name: object) -> bool:
    """Whether Python knows a text encoding of this name."""
    try:
        return isinstance(name, str) and codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        return False


def _is_mark(value: object) -> bool:
    """Whether a value is one character that is not part of a plain number, a quote or a line's end."""
    return (
        isinstance(value, str)
        and bool(re.fullmatch(r'[^\w"+\-]', value))
        and (value.isprintable() or value in "\t\u00a0\u2009\u202f")
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_pair(key: str, value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(RANGES[key].holds, value))


def _one_of(key: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise error(key, value, f"one of {', '.join(allowed)}{meant(str(value), allowed)}")
