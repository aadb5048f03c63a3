"""The arguments of a command line, KEY=VALUE, checked by name before Hydra reads them."""

import re
from collections.abc import Mapping, Sequence

from snn.config import grammar, groups, keys
from snn.config.suggestions import meant, nearest
from snn.config.validation import check_text
from snn.errors import ConfigError, shown

_MOST_TEXT = 1 << 14
"""Characters of a value: those of the longest list that a cell may have."""

_OF_GRIDS = "a grid file is run by snakemake --cores 1 --config grid=FILE"

_OPTIONS = ("--help", "--strict", "--version")

_KEY = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
_INSIDE = re.compile(r"([a-z_]\w*(?:\.[a-z_]\w*)?)[.\[].*", re.DOTALL)
_LIKE_A_KEY = re.compile(r"\s*([A-Za-z_][\w.-]*?)\s*[=:]{1,2}\s*(.*)", re.DOTALL)


def check(arguments: Sequence[str]) -> None:
    """Raise ConfigError for the first argument that is none, with what would be right.

    Refused are what Hydra would read as more than a key and its value (``+key``, ``~key``, ``key@package``,
    ``${...}``), keys twice, keys that cannot be set, such as ``kernel.name``, and values that are several.
    """
    given: dict[str, str] = {}
    for number, argument in enumerate(arguments):
        key, equals, value = argument.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise ConfigError(f"{shown(argument)} is no argument: {instead(arguments[number:])}")
        if grammar.missing_brackets(value) > 0:
            _check_split(arguments[number:])
        check_text(key, value, _MOST_TEXT)
        if key in given:
            raise ConfigError(f"{argument}: {key} is given twice, {key}={given[key]} before: leave one out")
        given[key] = value
    chosen = groups.chosen(given)
    for key, value in sorted(given.items(), key=lambda one: one[0] not in groups.GROUPS):
        check_key(key, value, chosen)
    for key, value in given.items():
        if key not in groups.GROUPS:
            grammar.check_value(key, value)


def _check_split(arguments: Sequence[str]) -> None:
    """Raise ConfigError where the shell split a list at a space: into the first of these and others."""
    for count in range(2, len(arguments) + 1):
        joined = " ".join(arguments[:count])
        if grammar.missing_brackets(joined.partition("=")[2]) == 0:
            raise ConfigError(
                f"{shown(arguments[0])} is cut off where the shell found a space: "
                f"put it in quotes, {shown(joined)}"
            )


def instead(arguments: Sequence[str]) -> str:
    """What would be right in place of the first of these arguments."""
    argument, *others = arguments
    known = keys.known()
    if argument.startswith(("+", "~")):
        name, _, value = argument.lstrip("+~").partition("=")
        found = nearest(name, known)
        hint = f", as {found}={value or 'VALUE'}" if found else ""
        return f"a setting is replaced, with KEY=VALUE{hint}; none is added (+) or removed (~)"
    if argument in ("-m", "--multirun"):
        return "several cells are a sweep of a grid file, which snakemake runs; here is one, of KEY=VALUE"
    if argument.startswith("-"):
        name, equals, value = argument.lstrip("-").partition("=")
        if not equals and others and "=" not in others[0]:
            value = others[0]
        hint = meant(name, known, f"{{}}={value or 'VALUE'}")
        right = hint or ", as training.epochs=10"
        option = meant(argument, _OPTIONS)
        return f"settings are KEY=VALUE{right}; the options are --help, --strict and --version{option}"
    like = _LIKE_A_KEY.fullmatch(argument.replace("/", ".", 1))
    word, value = like.groups() if like else (argument, "")
    if word.lower() in known:
        value = value or groups.default_choices().get(word.lower(), "VALUE")
        return f"it must be KEY=VALUE (did you mean {word.lower()}={shown(value)[1:-1]}?)"
    if argument.endswith((".yaml", ".yml")):
        return f"it must be KEY=VALUE; {_OF_GRIDS}"
    key, equals, value = argument.partition("=")
    if not equals or not key:
        return "it must be KEY=VALUE, as training.epochs=10 (no + ~ @)"
    inside = _INSIDE.fullmatch(key)
    if inside and inside[1] in groups.list_valued():
        return f"a list is given whole, as {inside[1]}=[{value.strip('[]') or 'VALUE'}]"
    if inside and inside[1] in groups.GROUPS:
        return _no_key(key.replace("[", ".").replace("]", ""), known)
    if inside and inside[1] in known:
        return f"{inside[1]} has no keys of its own: it is given as {inside[1]}={value or 'VALUE'}"
    return _no_key(key, known)


def _no_key(key: str, known: Sequence[str], hint: str = "") -> str:
    """That there is no such key, and which there are."""
    there = ", ".join([*groups.GROUPS, *(f"training.{key}" for key in groups.default_training())])
    return (
        f"there is no such key{hint or meant(key, known)}; "
        f"the keys are {there}, {', '.join(keys.BESIDE_THE_CELL)}"
    )


def check_key(key: str, value: str, chosen: Mapping[str, str]) -> None:
    """Raise ConfigError, with the keys that there are, for one that cannot be set beside these choices."""
    section, dot, _ = key.partition(".")
    if dot and section in (*groups.GROUPS, "training"):
        keys.check_key(key, chosen.get(section))
    elif key in groups.GROUPS:
        keys.check_choice(key, value)
    elif key not in keys.BESIDE_THE_CELL:
        hint = f" ({_OF_GRIDS})" if key in ("grid", "sweep") else keys.nested(key, value)
        raise ConfigError(f"{key}: {_no_key(key, keys.known(chosen), hint)}")
