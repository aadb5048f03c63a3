"""What trains beside a cell, on another GPU of its host, while it is measured: ``protocol.neighbour``."""

from collections.abc import Mapping
from typing import Any

ANY = "any"
"""Whatever the workflow runs there: the usual, so that the key is left out of a cell that has this value."""

NONE = "none"
"""Nothing: the cell is alone."""


def is_settled(cell: Mapping[str, Any]) -> bool:
    """Whether a cell says what trains beside it, so that nothing else may."""
    return "neighbour" in cell["protocol"]


def strategy_beside(cell: Mapping[str, Any]) -> str | None:
    """The strategy that trains beside a cell all the time; None where the cell does not ask for one."""
    neighbour = cell["protocol"].get("neighbour", ANY)
    return None if neighbour in (ANY, NONE) else neighbour
