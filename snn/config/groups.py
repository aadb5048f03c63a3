"""The files of ``config/``: the choices of each Hydra group, and their contents."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from snn.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config"
GROUPS = ("dataset", "network", "strategy", "kernel", "precision", "protocol", "device")


class _Loader(yaml.CSafeLoader):
    """A YAML loader that refuses duplicate keys, instead of silently dropping the first."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} appears twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file. Raises ConfigError, naming file and line, if it is not valid YAML."""
    try:
        with path.open(encoding="utf-8") as text:
            return yaml.load(text, Loader=_Loader)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise ConfigError(f"{path}{line}: {problem}") from error


@cache
def names(group: str) -> list[str]:
    """The choices of a group: the names of the files in ``config/GROUP``."""
    return sorted(file.stem for file in (CONFIG / group).glob("*.yaml"))


@cache
def _read(group: str, name: str) -> Mapping[str, Any]:
    return read_yaml(CONFIG / group / f"{name}.yaml")


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


def default_training() -> dict[str, Any]:
    """The training section of ``config/config.yaml``."""
    return dict(_base()["training"])
