"""A strategy from its choice in ``config/strategy``, by the class that the choice names."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from snn.backends.base import Backend
from snn.strategies.common.strategy import Strategy


def make(choice: Mapping[str, Any], backend: Backend) -> Strategy:
    """The strategy of a choice of ``config/strategy``: its ``_target_``, given its other keys."""
    parameters = {key: value for key, value in choice.items() if key not in ("_target_", "name")}
    return class_of(choice)(backend, **parameters)


def class_of(choice: Mapping[str, Any]) -> type[Strategy]:
    """The class that a choice names in its ``_target_``."""
    module, _, name = choice["_target_"].rpartition(".")
    return getattr(import_module(module), name)
