"""The values of a command line, in the grammar of Hydra's overrides: read, written, and explained."""

import re
import shlex
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from snn.config import groups
from snn.config.suggestions import one_of_several
from snn.errors import ConfigError, shown

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_QUOTED = re.compile(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"", re.DOTALL)
_BRACKETS = re.compile(r"(?<!\\)[\[\](){}]")
_OPENING = "[({"

_MOST_SHOWN = 200
"""Characters of a text that a message repeats."""

TEXTS = (
    "output",
    "data",
    "dataset.path",
    "dataset.target",
    "dataset.encoding",
    "device.name",
    *(f"dataset.{key}" for key in ("delimiter", "decimal", "thousands", "comment")),
)
"""Keys whose value is a text of the user."""


def check_value(key: str, value: str) -> None:
    """Raise ConfigError, saying how it is written, unless Hydra reads the text of a value as one value."""
    bare = _QUOTED.sub("", value)
    opened = _opening(bare)
    several = _is_several(f"{key}={value}") if opened < 2 or _is_text(key, value) else None
    if several is False:
        return
    given = shown(f"{key}={value}")
    if key in TEXTS:
        raise ConfigError(f"{given}: {unread(key, value)}")
    if opened > 1:
        raise ConfigError(
            f"{given}: a value may be a list, as [256, 256], of numbers or of texts in quotes, '...'"
        )
    if several or ("," in bare and not opened):
        raise ConfigError(f"{given}: {_one_value(key, value)}")
    raise ConfigError(f"{given}: {unread(key, value)}")


@lru_cache  # Hydra takes a millisecond, and each is read twice: checked, and composed
def parsed(override: str) -> "Override":
    """An override as Hydra reads it, or, if it cannot read a text as one value, with the text in quotes.

    So paths with braces, commas or letters such as ü need no quotes. Raises HydraException for other keys,
    and for a text that begins with a quote itself.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser  # which is large
    from hydra.errors import HydraException

    parse = OverridesParser.create().parse_override
    key, _, value = override.partition("=")
    if not _is_text(key, value):
        return parse(override)
    if _opening(value) < 2:  # of many brackets, Hydra would take for ever
        with suppress(HydraException):
            if not (found := parse(override)).is_sweep_override():
                return found
    return parse(f"{key}={written(value)}")


def _is_text(key: str, value: str) -> bool:
    """Whether a value may be a text without quotes."""
    return key in TEXTS and value.isprintable() and not value.startswith(("'", '"'))


def _opening(value: str) -> int:
    """How many brackets of a value's text open."""
    return sum(mark in _OPENING for mark in _BRACKETS.findall(value))


def _is_several(override: str) -> bool | None:
    """Whether an override is of several values; None if Hydra cannot read it."""
    from hydra.errors import HydraException  # which is large

    try:
        return bool(parsed(override).is_sweep_override())
    except (HydraException, ValueError):  # Python reads no number of more than 4,300 digits
        return None


def written(value: Any) -> str:
    """A value in the grammar of Hydra's overrides.

    In quotes, a quote is escaped, and so are backslashes before a quote or at the end, and no others.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = re.sub(
            r"(\\*)('|\Z)", lambda found: found[1] * 2 + (f"\\{found[2]}" if found[2] else ""), value
        )
        return f"'{escaped}'"
    if isinstance(value, list):
        return "[" + ",".join(written(one) for one in value) + "]"
    return repr(value)


def missing_brackets(value: str) -> int:
    """How many brackets of a value's text are open at its end; negative where one is closed too often."""
    marks = _BRACKETS.findall(_QUOTED.sub("", value))
    return sum(1 if mark in _OPENING else -1 for mark in marks)


def _one_value(key: str, value: str) -> str:
    if key in groups.list_valued():
        return f"a list is written in brackets, as {key}=[{value}]"
    return one_of_several(key, value) if "(" not in value else one_of_several(key, "1, 2")


def unread(key: str, value: str) -> str:
    """Why a value's text cannot be read, and what would be right."""
    open_ = missing_brackets(value)
    if open_ and key not in TEXTS:
        return f"a bracket is {'not closed' if open_ > 0 else 'closed that was not opened'}"
    if key in groups.list_valued():
        return "the value cannot be read: a list is written in square brackets, with commas, as [256, 256]"
    right = _in_shell(f"{key}={written(value if len(value) < _MOST_SHOWN else '...')}")
    return f"the value cannot be read: text with such characters has quotes of its own, {right} in a shell"


def _in_shell(argument: str) -> str:
    """An argument as one types it into a shell."""
    return shlex.quote(argument) if re.search(r'["$`!]|\\\\', argument) else f'"{argument}"'
