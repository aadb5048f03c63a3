"""Packages that only some strategies need: absent, they are an outcome of those and of no others."""

from importlib import import_module
from typing import Any

from snn.errors import Unsupported

PEERS = "pip install -r envs/requirements-peers.txt"


def needed(package: str, installs: str = "make env") -> Any:
    """A package, imported. Raises Unsupported, with the command that installs it, where it cannot be."""
    try:
        return import_module(package)
    except ImportError as error:
        raise Unsupported(f"{package} cannot be imported ({error}): `{installs}` installs it") from error
