"""Reads, checks, writes and explains command lines, KEY=VALUE in the grammar of Hydra's overrides."""

import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from snn.config import choices, groups
from snn.config.settings import check_text
from snn.config.suggestions import meant, nearest, one_of_several
from snn.errors import ConfigError, shown

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_MOST_TEXT = 1 << 14
"""Most characters of a value: the length of the longest list that a cell may have."""

_OF_GRIDS = "a grid file is run by snakemake --cores 1 --config grid=FILE"

_OPTIONS = ("--help", "--strict")

_KEY = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
_LIKE_A_KEY = re.compile(r"[\s+~-]*(.*?)\s*(?:[=:]+\s*(.*))?", re.DOTALL)

_QUOTED = re.compile(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"", re.DOTALL)
_BRACKETS = re.compile(r"(?<!\\)[\[\](){}]")
_OPENING = "[({"

_MOST_SHOWN = 200
"""Most characters of a text that a message repeats."""

TEXTS = (
    "output",
    "data",
    "weights",
    "dataset.path",
    "dataset.target",
    "dataset.encoding",
    "device.name",
    *(f"dataset.{key}" for key in ("delimiter", "decimal", "thousands", "comment")),
)
"""Keys whose value is free text."""


def read(arguments: Sequence[str]) -> dict[str, Any]:
    """The values of a command line by key; choices are texts.

    Raises ConfigError, with what would be right, for Hydra's other syntax (``+key``, ``~key``,
    ``key@package``, ``${...}``), a key given twice, a key that cannot be set, such as ``kernel.name``, and
    several values for one key.
    """
    given: dict[str, str] = {}
    for number, argument in enumerate(arguments):
        key, equals, value = argument.partition("=")
        if not equals or not _KEY.fullmatch(key):
            raise ConfigError(f"{shown(argument)} is not an argument: {instead(arguments[number:])}")
        for end in range(number + 2, len(arguments) + 1) if _missing_brackets(value) > 0 else ():
            joined = " ".join(arguments[number:end])
            if _missing_brackets(joined.partition("=")[2]) == 0:
                cut = f"{shown(argument)} is cut off at a space, where the shell splits arguments"
                raise ConfigError(f"{cut}: put it in quotes, {shown(joined)}")
        check_text(key, value, _MOST_TEXT)
        if key in given:
            raise ConfigError(f"{argument}: {key} is given twice, {key}={given[key]} before: leave one out")
        given[key] = value
    chosen = groups.chosen(given)
    for group in groups.GROUPS:
        choices.check_choice(group, chosen[group])
    for key, value in given.items():
        section, dot, _ = key.partition(".")
        if dot and section in (*groups.GROUPS, "training"):
            choices.check_key(key, chosen.get(section))
        elif key not in (*groups.GROUPS, *choices.BESIDE_THE_CELL):
            hint = f" ({_OF_GRIDS})" if key in ("grid", "sweep") else choices.nested(key, value)
            raise ConfigError(f"{key}: {_no_key(key, choices.known(chosen), hint)}")
    return {key: text if key in groups.GROUPS else _value(key, text) for key, text in given.items()}


def instead(arguments: Sequence[str]) -> str:
    """A correction of the first of these arguments, which is not KEY=VALUE."""
    argument, *others = arguments
    known = choices.known()
    if argument in ("-m", "--multirun"):
        return "give the KEY=VALUE of one cell; for several cells, snakemake runs the sweep of a grid file"
    if argument.endswith((".yaml", ".yml")):
        return f"it must be KEY=VALUE; {_OF_GRIDS}"
    word, value = cast(re.Match[str], _LIKE_A_KEY.fullmatch(argument)).groups("")
    note = ""
    if argument.startswith(("+", "~")):
        note = "; keys cannot be added (+) or removed (~)"
    elif argument.startswith("-"):
        note = f"; the options are --help and --strict{meant(argument, _OPTIONS)}"
        value = value or next((one for one in others[:1] if "=" not in one), "")
    found = nearest(re.sub(r"[/\[]", ".", word).strip(".]"), known)
    if not found and "=" in argument and not note:
        return _no_key(word, known)
    value = value or groups.default_choices().get(str(found), "VALUE")
    value = f"[{value.strip('[]')}]" if found in groups.list_valued() else shown(value)[1:-1]
    right = f" (did you mean {found}={value}?)" if found else ", such as training.epochs=10"
    return f"it must be KEY=VALUE{right}{note}"


def _no_key(key: str, known: Sequence[str], hint: str = "") -> str:
    """Error text for an unknown key, with the valid ones."""
    of_training = [f"training.{key}" for key in groups.default_training()]
    there = ", ".join([*groups.GROUPS, *of_training, *choices.BESIDE_THE_CELL])
    return f"unknown key{hint or meant(key, known)}; the keys are {there}"


def _value(key: str, text: str) -> Any:
    """The value of a text, as Hydra reads it; ``TEXTS``, such as paths with braces, need no quotes."""
    from hydra.errors import HydraException  # which is large

    bare, is_several = _QUOTED.sub("", text), False
    opened = sum(mark in _OPENING for mark in _BRACKETS.findall(bare))
    forms = [text] if opened < 2 else []  # Hydra would take for ever with many brackets
    if key in TEXTS and text.isprintable() and not text.startswith(("'", '"')):
        forms.append(written(text))
    for form in forms:
        with suppress(HydraException, ValueError):  # Python cannot read a number of more than 4,300 digits
            found = _parse(f"{key}={form}")
            if not found.is_sweep_override():
                return found.value()
            is_several = True
    if key not in TEXTS and opened > 1:
        why = "a value may be a list such as [256, 256], of numbers or of texts in quotes, '...'"
    elif key in TEXTS or (not is_several and (opened or "," not in bare)):
        why = _unread(key, text)
    elif key in groups.list_valued():
        why = f"write a list in brackets: {key}=[{text}]"
    else:
        why = one_of_several(key, "1, 2" if "(" in text else text)
    raise ConfigError(f"{shown(f'{key}={text}')}: {why}")


@lru_cache(1000)  # Hydra takes a millisecond, and the commands of many cells share most of their overrides
def _parse(override: str) -> "Override":
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create().parse_override(override)


def written(value: Any) -> str:
    """A value in the grammar of Hydra's overrides."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # Only quotes, and backslashes before a quote or at the end, are escaped.
        escaped = re.sub(
            r"(\\*)('|\Z)", lambda found: found[1] * 2 + (f"\\{found[2]}" if found[2] else ""), value
        )
        return f"'{escaped}'"
    if isinstance(value, list):
        return "[" + ",".join(written(one) for one in value) + "]"
    return repr(value)


def _missing_brackets(value: str) -> int:
    """The number of brackets still open at the end of a text; negative if too many are closed."""
    marks = _BRACKETS.findall(_QUOTED.sub("", value))
    return sum(1 if mark in _OPENING else -1 for mark in marks)


def _unread(key: str, value: str) -> str:
    """Error text for a value that cannot be read, with a correction."""
    open_ = _missing_brackets(value)
    if open_ and key not in TEXTS:
        return f"a bracket is {'not closed' if open_ > 0 else 'closed but was not opened'}"
    if key in groups.list_valued():
        return "the value cannot be read: write a list in square brackets with commas, such as [256, 256]"
    argument = f"{key}={written(value if len(value) < _MOST_SHOWN else '...')}"
    right = shlex.quote(argument) if re.search(r'["$`!]|\\\\', argument) else f'"{argument}"'
    return f"the value cannot be read: text with such characters needs quotes, in a shell {right}"
