"""The files of ``config/``: the choices of each Hydra group, and their contents."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snn.config.yaml_file import read_yaml
from snn.errors import ConfigError, shown

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
GROUPS = ("dataset", "network", "strategy", "kernel", "precision", "protocol", "device")

_DEFINING = {
    "dataset": ("shape",),
    "kernel": ("source", "fused", "pretransposed", "precisions"),
    "device": ("backend",),
}
"""Keys of a choice's file, beside ``_target_`` and ``name``, that make it this choice: no options."""


@cache
def names(group: str) -> list[str]:
    """The choices of a group: the names of the files in ``config/GROUP``."""
    return sorted(file.stem for file in (CONFIG / group).glob("*.yaml"))


@cache
def _file(group: str, name: str) -> Mapping[str, Any]:
    """All of a choice's file. Raises ConfigError where it holds no keys."""
    content = read_yaml(CONFIG / group / f"{name}.yaml")
    if not isinstance(content, dict):
        given = "empty" if content is None else shown(content)
        raise ConfigError(
            f"config/{group}/{name}.yaml is {given}: it must be keys with values, as KEY: VALUE"
        )
    return content


@cache
def _read(group: str, name: str) -> Mapping[str, Any]:
    return {key: value for key, value in _file(group, name).items() if key != "defaults"}


@cache
def _choices_beside(group: str, name: str) -> dict[str, str]:
    """The choices of other groups in the ``defaults`` of a choice's file, as Hydra reads them."""
    found = {}
    for entry in _file(group, name).get("defaults", ()):
        if isinstance(entry, dict):
            found.update({key.rpartition(".")[2]: choice for key, choice in entry.items()})
    return found


def load(group: str, name: str) -> dict[str, Any]:
    """The content of a choice's file. Raises ConfigError, with the choices, if there is no such file."""
    if name not in names(group):
        raise ConfigError(f"{group}: {name!r} is not a choice; it must be one of {', '.join(names(group))}")
    return dict(_read(group, name))


@cache
def list_valued() -> frozenset[str]:
    """Keys such as ``network.hidden`` whose value is itself a list, in the file of some choice."""
    return frozenset(
        f"{group}.{key}"
        for group in GROUPS
        for name in names(group)
        for key, value in _read(group, name).items()
        if isinstance(value, list)
    )


@cache
def _base() -> Mapping[str, Any]:
    return read_yaml(CONFIG / "config.yaml")


def default_choices() -> dict[str, str]:
    """The choice of each group that ``config/config.yaml`` names."""
    chosen = {}
    for entry in _base()["defaults"]:
        if isinstance(entry, dict):
            chosen.update(entry)
    return chosen


def chosen(given: Mapping[str, Any]) -> dict[str, Any]:
    """The choice of each group: one that is given, else that of the data set's file, else the default."""
    choices = default_choices()
    dataset = given.get("dataset", choices["dataset"])
    beside = _choices_beside("dataset", dataset) if dataset in names("dataset") else {}
    return choices | beside | {group: given[group] for group in GROUPS if group in given}


def default_training() -> dict[str, Any]:
    """The training section of ``config/config.yaml``."""
    return dict(_base()["training"])


@cache
def options(section: str, choice: str | None) -> tuple[str, ...]:
    """The keys of a section that may be set, of a group those of this choice of it."""
    if section == "training":
        return tuple(default_training())
    values = load(section, choice or default_choices()[section])
    return tuple(key for key, value in values.items() if not defines(section, key, value))


def with_value(section: str, choice: str | None, word: str) -> list[str]:
    """The options of a section that may be this word, as ``one | another`` in their comments says."""
    file = f"{section}/{choice or default_choices()[section]}" if section in GROUPS else "config"
    one = rf"\b{re.escape(word)}\b"
    has_word = re.compile(rf"\s*(\w+):.*#.*(?:\| *{one}|{one} *\|)")
    found = map(has_word.match, (CONFIG / f"{file}.yaml").read_text(encoding="utf-8").splitlines())
    return [line[1] for line in found if line and line[1] in options(section, choice)]


def defines(section: str, key: str, value: object = "") -> bool:
    """Whether a key, which the file of the choice gives this value, makes a choice what it is."""
    if section == "device" and key == "name":  # the device that a cell was planned for
        return False
    if section == "dataset" and value is None:  # the data say it
        return False
    return key in ("_target_", "name", *_DEFINING.get(section, ()))
