"""Where a strategy runs, by whom, how many at once: as its choice says, of records from before, too."""

from collections.abc import Mapping
from typing import Any

from snn.strategies.common import factory


def on_host(choice: Mapping[str, Any]) -> bool:
    """Whether a choice of ``config/strategy`` says of itself that it runs on the host's processors alone.

    A strategy that no longer exists, of a record from before, did not.
    """
    return bool(_said(choice, "on_host"))


def own_runtime(choice: Mapping[str, Any]) -> str | None:
    """The package that a choice of ``config/strategy`` trains by, in place of the backend: of a peer.

    A strategy that no longer exists had none.
    """
    return _said(choice, "own_runtime")


def side_by_side(choice: Mapping[str, Any]) -> bool:
    """Whether a run of this choice trains several networks in one launch."""
    return bool(_said(choice, "side_by_side"))


def _said(choice: Mapping[str, Any], attribute: str) -> Any:
    try:
        return getattr(factory.class_of(choice), attribute)
    except (ImportError, AttributeError):
        return None
