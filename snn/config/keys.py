"""Whether there is a key, or a choice of a group, and what may have been meant where there is none."""

import re
from collections.abc import Mapping

from snn.config import choice_files, groups
from snn.config.suggestions import any_of, meant, one_of_several
from snn.errors import ConfigError, shown

BESIDE_THE_CELL = ("round", "data", "output", "profile")
"""Keys of the command line that are of no section of a cell."""

_FILE = re.compile(r"[/\\]|\.\w+$")
_PAIR = re.compile(r"(\w+)\s*:\s*(\[[^\]]*\]|[^,{}\[\]]*?)\s*[,}]")
_WIDTHS = re.compile(r"[\[(]?[0-9]+([-x ]+[0-9]+)*[\])]?")


def known(chosen: Mapping[str, str] | None = None) -> list[str]:
    """Every key that may be given beside these choices, and those of config/config.yaml of other groups."""
    choices = groups.chosen(chosen or {})
    of_groups = [f"{group}.{key}" for group in groups.GROUPS for key in groups.options(group, choices[group])]
    of_training = [f"training.{key}" for key in groups.default_training()]
    return [*groups.GROUPS, *of_groups, *of_training, *BESIDE_THE_CELL]


def check_choice(group: str, name: str) -> None:
    """Raise ConfigError, with the choices, if a group has none of this name."""
    if name not in groups.names(group):
        given = f"{group}={shown(name)[1:-1]}: not a choice"
        if "," in name and not nested(group, name):
            raise ConfigError(f"{given}: {one_of_several(group, name)}")
        choices = ", ".join(groups.names(group))
        raise ConfigError(f"{given}{hint(group, name)}; {group} must be one of {choices}")
    choice_files.check(group, name, groups.load(group, name))


def hint(group: str, value: object, sets: str = "=") -> str:
    """What may have been meant by what is no choice of a group, in parentheses; else empty.

    ``sets`` stands between a key and its value.
    """
    text = str(value)
    if found := nested(group, text):
        return found
    if group == "dataset" and _FILE.search(text):
        own = {"dataset": "csv", "dataset.path": text, "dataset.target": "COLUMN"}
        return f" (your own file is {' '.join(f'{key}{sets}{one}' for key, one in own.items())})"
    if group == "network" and _WIDTHS.fullmatch(text):
        return f" (widths are network.hidden{sets}[{', '.join(re.findall('[0-9]+', text))}])"
    return choice_files.without(group, value) or meant(text, groups.names(group))


def nested(section: str, value: str) -> str:
    """How a key of a section is written that is given whole, ``{epochs: 5}``, in parentheses; else empty."""
    if section not in (*groups.GROUPS, "training") or not value.startswith("{"):
        return ""
    options = groups.options(section, None)
    dotted = [f"{section}.{key}={one}" for key, one in _PAIR.findall(value) if key in options]
    return f" (keys of {section} are written with a dot: {' '.join(dotted)})" if dotted else ""


def check_key(where: str, choice: str | None, of_choice: bool = False) -> None:
    """Raise ConfigError unless a key, as ``kernel.block``, may be set beside this choice of its group.

    ``of_choice``: it has the value that the choice's file gives it, so that nothing is set.
    """
    section, _, key = where.partition(".")
    options = groups.options(section, choice)
    if key in options:
        return
    place = f"{section}={choice}" if choice else section
    if not groups.defines(section, key):
        hint = _having(section, key) or meant(key, options, f"{section}.{{}}")
        hint = hint or any_of(groups.with_value(section, choice, key), f"{section}.{{}}")
        raise ConfigError(f"{where}: {place} has no such key{hint}; it has {', '.join(options) or 'none'}")
    if not of_choice:
        raise ConfigError(
            f"{where} cannot be set, for it is part of {place}: choose with {section}=..., "
            f"one of {', '.join(groups.names(section))}"
        )


def _having(section: str, key: str) -> str:
    """Which choices of a group have a key, for the middle of a message; empty if none has."""
    if section not in groups.GROUPS:
        return ""
    having = [f"{section}={name}" for name in groups.names(section) if key in groups.options(section, name)]
    return f" (it is one of {', '.join(having)})" if having else ""
