"""Where a strategy runs: on the device that was asked for, or on the host whatever that is."""

from collections.abc import Mapping
from typing import Any

from snn import strategies


def on_host(choice: Mapping[str, Any]) -> bool:
    """Whether a choice of ``config/strategy`` says of itself that it runs on the host's processors alone.

    A strategy that no longer exists, of a record from before, did not.
    """
    try:
        return strategies.class_of(choice).on_host
    except (ImportError, AttributeError):
        return False
