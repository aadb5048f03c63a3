"""The arguments of a command line, KEY=VALUE, checked by name before Hydra reads them."""

import re
from collections.abc import Sequence

from snn.config import groups
from snn.config.validation import check_text
from snn.errors import ConfigError, shown

BESIDE_THE_CELL = ("round", "data", "output", "profile")
"""Keys of the command line that are of no section of a cell."""

_MOST_TEXT = 1 << 14
"""Characters of a value: those of the longest list that a cell may have."""

_KEY = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
_QUOTED = re.compile(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"", re.DOTALL)
_OPENING = re.compile(r"(?<!\\)[\[({]")


def check(arguments: Sequence[str]) -> None:
    """Raise ConfigError for the first argument that is none, with what would be right.

    Refused are what Hydra would read as more than a key and its value (``+key``, ``~key``, ``key@package``,
    ``${...}``), keys twice, and keys that cannot be set, such as ``kernel.name``.
    """
    given: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise ConfigError(
                f"{shown(argument)} is no argument: it must be KEY=VALUE, as training.epochs=10 (no + ~ @)"
            )
        check_text(key, value, _MOST_TEXT)
        if key in given:
            raise ConfigError(f"{argument}: {key} is given twice, {key}={given[key]} before: leave one out")
        if len(_OPENING.findall(_QUOTED.sub("", value))) > 1:
            raise ConfigError(
                f"{argument}: a value may be a list, as [256, 256], of numbers or of texts in quotes, '...'"
            )
        given[key] = value
    chosen = groups.chosen(given)
    for key, value in given.items():
        _check_key(key, value, chosen)


def _check_key(key: str, value: str, chosen: dict[str, str]) -> None:
    section, dot, _ = key.partition(".")
    if dot and section in (*groups.GROUPS, "training"):
        groups.check_key(key, chosen.get(section))
    elif key in groups.GROUPS:
        if value not in groups.names(key):
            raise ConfigError(
                f"{key}={value}: not a choice; {key} must be one of {', '.join(groups.names(key))}"
            )
    elif key not in BESIDE_THE_CELL:
        known = ", ".join([*groups.GROUPS, *(f"training.{key}" for key in groups.default_training())])
        raise ConfigError(f"{key}: there is no such key; the keys are {known}, {', '.join(BESIDE_THE_CELL)}")
