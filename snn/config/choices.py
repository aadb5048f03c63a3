"""Checks that a group has a choice, that a choice has a key, and that a choice's file is valid."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from snn.config import groups
from snn.config.suggestions import any_of, meant, nearest, one_of_several
from snn.errors import ConfigError, shown
from snn.files import project

NAMED = ("dataset", "strategy", "kernel", "precision")
"""Groups whose files hold their choice's name, which a cell keeps."""

_CODE = {"dataset": "snn/datasets/{}.py", "kernel": "kernels/{}.cu", "strategy": "snn/strategies/*.py"}
"""Expected place of a choice's code; a strategy is a class in the file of its family."""

_MADE_BY = {
    "dataset": "function that makes the data, such as snn.datasets.patterns.make",
    "strategy": "strategy's class, such as snn.strategies.host_driven.Pinned",
}

BESIDE_THE_CELL = ("round", "data", "output", "weights", "profile")
"""Keys of the command line that belong to no section of a cell."""

_FILE = re.compile(r"[/\\]|\.\w+$")
_PAIR = re.compile(r"(\w+)\s*:\s*(\[[^\]]*\]|[^,{}\[\]]*?)\s*[,}]")
_WIDTHS = re.compile(r"[\[(]?[0-9]+([-x ]+[0-9]+)*[\])]?")


def known(chosen: Mapping[str, str] | None = None) -> list[str]:
    """Every key that may be set with these choices; other groups have their choice of config/config.yaml."""
    choices = groups.chosen(chosen or {})
    of_groups = [f"{group}.{key}" for group in groups.GROUPS for key in groups.options(group, choices[group])]
    of_training = [f"training.{key}" for key in groups.default_training()]
    return [*groups.GROUPS, *of_groups, *of_training, *BESIDE_THE_CELL]


def check_choice(group: str, name: str) -> None:
    """Raise ConfigError, with the valid choices, if a group has no choice of this name."""
    if name not in groups.names(group):
        given = f"{group}={shown(name)[1:-1]}: not a choice"
        if "," in name and not nested(group, name):
            raise ConfigError(f"{given}: {one_of_several(group, name)}")
        choices = ", ".join(groups.names(group))
        raise ConfigError(f"{given}{hint(group, name)}; {group} must be one of {choices}")
    check_file(group, name, groups.load(group, name))


def hint(group: str, value: object, sets: str = "=") -> str:
    """A suggestion for an invalid choice, in parentheses; ``sets`` goes between key and value."""
    text = str(value)
    if found := nested(group, text):
        return found
    if group == "dataset" and _FILE.search(text):
        own = {"dataset": "csv", "dataset.path": text, "dataset.target": "COLUMN"}
        return f" (your own file is {' '.join(f'{key}{sets}{one}' for key, one in own.items())})"
    if group == "network" and _WIDTHS.fullmatch(text):
        return f" (widths are network.hidden{sets}[{', '.join(re.findall('[0-9]+', text))}])"
    if code := _code_of(group, text):
        return f" ({code} exists, but a choice needs a file, config/{group}/{text}.yaml)"
    return meant(text, groups.names(group))


def _code_of(group: str, name: str) -> str | None:
    """The file with the code of this name, whether or not config/ has such a choice."""
    if group not in _CODE or not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        return None
    folder, _, pattern = _CODE[group].format(name).rpartition("/")
    files = project.locate(folder).glob(pattern)
    if group == "strategy":
        its_class = re.compile(rf"^class {name.replace('_', '')}\b", re.IGNORECASE | re.MULTILINE)
        files = (file for file in files if its_class.search(file.read_text(encoding="utf-8")))
    return next(map(project.path_in_clone, files), None)


def nested(section: str, value: str) -> str:
    """A hint to write the keys of a section with dots if it is given whole, ``{epochs: 5}``; else empty."""
    if section not in (*groups.GROUPS, "training") or not value.startswith("{"):
        return ""
    options = groups.options(section, None)
    dotted = [f"{section}.{key}={one}" for key, one in _PAIR.findall(value) if key in options]
    return f" (keys of {section} are written with a dot: {' '.join(dotted)})" if dotted else ""


def check_key(where: str, choice: str | None) -> None:
    """Raise ConfigError unless a key, such as ``kernel.block``, may be set with this choice of its group."""
    section, _, key = where.partition(".")
    options = groups.options(section, choice)
    if key in options:
        return
    place = f"{section}={choice}" if choice else section
    if not groups.defines(section, key):
        raise ConfigError(
            f"{where}: {place} has no such key{_key_hint(section, key, options)}; it has "
            f"{', '.join(options) or 'none'}"
        )
    raise ConfigError(
        f"{where} cannot be set, because it is part of {place}: choose with {section}=..., "
        f"one of {', '.join(groups.names(section))}"
    )


def _key_hint(section: str, key: str, options: Sequence[str]) -> str:
    """A suggestion for an unknown key: choices that have it, a similar key, or a key with it as a value."""
    from snn.config.settings import KINDS  # which imports this module

    others = groups.names(section) if section in groups.GROUPS else ()
    if having := [f"{section}={name}" for name in others if key in groups.options(section, name)]:
        return f" (it is one of {', '.join(having)})"
    kinds = {name: KINDS.get(f"{section}.{name}") for name in options}
    valued = [name for name, kind in kinds.items() if key in getattr(kind, "allowed", ())]
    return meant(key, options, f"{section}.{{}}") or any_of(valued, f"{section}.{{}}")


def check_file(group: str, choice: str, content: Mapping[str, Any]) -> None:
    """Raise ConfigError, naming the file and its key, if a choice's file is invalid.

    The file holds its own name. All files of a group have the same keys; data sets and strategies need only a
    ``_target_``.
    """
    file, name = f"config/{group}/{choice}.yaml", content.get("name")
    if group in NAMED and name != choice:
        given = "missing" if name is None else shown(name)
        raise ConfigError(f"{file}: name is {given}: it must be {choice}, the name of the file")
    if group in _MADE_BY:
        _check_target(file, group, choice, content.get("_target_"))
        return
    like = "layers" if group == "network" and "layers" in content else groups.default_choices()[group]
    keys = groups.load(group, like)
    for key in content:
        if key not in keys:
            hint = meant(str(key), keys)
            raise ConfigError(
                f"{file}: {shown(key)} is not a key of a {group}{hint}: one of {', '.join(keys)}"
            )
    if missing := [key for key in keys if key not in content]:
        raise ConfigError(
            f"{file}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing: a {group} has "
            f"{', '.join(keys)}, which config/{group}/{like}.yaml explains"
        )
    if group == "kernel":
        from snn.config.settings import KINDS  # which imports this module

        for key in ("source", "fused", "pretransposed", "precisions"):
            KINDS[f"kernel.{key}"].check(f"{file}: {key}", content[key])


def _check_target(file: str, group: str, choice: str, target: object) -> None:
    """Check that ``_target_`` names a class or function of a file of ``snn``; others are not looked up."""
    if not isinstance(target, str) or "." not in target:
        given = "missing" if target is None else shown(target)
        raise ConfigError(f"{file}: _target_ is {given}: it must name the {_MADE_BY[group]}")
    module, _, name = target.rpartition(".")
    if not module.startswith("snn."):
        return
    file_of_code = groups.module_file(module)
    if file_of_code is None:
        path = f"{module.replace('.', '/')}.py"
        raise ConfigError(f"{file}: _target_ is {shown(target)}, but {path} does not exist")
    if not _is_named_in(file_of_code, name):
        text = project.locate(file_of_code).read_text(encoding="utf-8")
        near = nearest(name, re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE))
        hint = f" (did you mean {module}.{near}?)" if near else ""
        lacks = f"but {file_of_code} has no {shown(name)[1:-1]}{hint}"
        raise ConfigError(f"{file}: _target_ is {shown(target)}, {lacks}")


@cache
def _is_named_in(file: str, name: str) -> bool:
    text = project.locate(file).read_text(encoding="utf-8")
    return re.search(rf"\b{re.escape(name)}\b", text) is not None
