"""Traits of a strategy that tables and plans need: where and by which runtime it trains how many networks."""

from collections.abc import Mapping
from typing import Any

from snn.errors import ConfigError
from snn.strategies.common import factory

NAMES = ("on_host", "own_runtime", "side_by_side")


def traits(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes ``NAMES`` of the class that a choice of ``config/strategy`` names.

    Raises ConfigError where there is no such class.
    """
    try:
        strategy = factory.class_of(choice)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"strategy._target_ is {choice['_target_']!r}, which is no class of this program: {error}"
        ) from error
    return {name: getattr(strategy, name) for name in NAMES}


def of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The traits of a record's strategy: as the record says, or, of an older record, as the class says."""
    return record.get("traits") or traits(record["cell"]["strategy"])


def uses_kernel(found: Mapping[str, Any]) -> bool:
    """Whether one of these traits computes with a ``config/kernel``: no baseline on the CPU, no peer."""
    return not (found["on_host"] or found["own_runtime"])


def on_host(choice: Mapping[str, Any]) -> bool:
    """Whether the CPU does all of the work of a choice of ``config/strategy``: a baseline."""
    return bool(traits(choice)["on_host"])


def own_runtime(choice: Mapping[str, Any]) -> str | None:
    """The package that trains in place of the backend, for a peer such as PyTorch; else None."""
    return traits(choice)["own_runtime"]


def side_by_side(choice: Mapping[str, Any]) -> bool:
    """Whether a run of this choice trains several networks in one launch."""
    return bool(traits(choice)["side_by_side"])
