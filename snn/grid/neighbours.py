"""Which strategies a neighbour slows down, a cell on another GPU of the machine: config/neighbours.yaml."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snn.config import groups
from snn.errors import ConfigError, shown

FILE = groups.CONFIG / "neighbours.yaml"


def touches(strategy: Mapping[str, Any]) -> bool:
    """Whether a busy neighbour may change the times of a choice of ``config/strategy``.

    Raises ConfigError as ``untouched`` does.
    """
    return strategy["name"] not in untouched()


@cache
def untouched(file: Path = FILE) -> frozenset[str]:
    """The strategies that keep their times beside a busy neighbour.

    Raises ConfigError, naming file, key and value, where the file says something else.
    """
    content = groups.read_yaml(file)
    if not isinstance(content, dict) or content.keys() != {"untouched"}:
        raise ConfigError(f"{file}: it must have the key untouched, and no other")
    names = content["untouched"]
    choices = groups.names("strategy")
    if not isinstance(names, list) or len(names) != len(set(map(repr, names))):
        raise ConfigError(f"{file}: untouched is {shown(names)}: it must be a list of strategies, each once")
    for name in names:
        if name not in choices:
            raise ConfigError(f"{file}: untouched: {shown(name)} is not a strategy: {', '.join(choices)}")
    return frozenset(names)
