"""Imports of optional packages: if one is missing, only the strategies that need it are unsupported."""

from importlib import import_module
from typing import Any

from snn.errors import Unsupported

PEERS = "pip install -r envs/requirements-peers.txt"


def required(package: str, install_command: str = "make env") -> Any:
    """The imported package. Raises Unsupported, with the command that installs it, if the import fails."""
    try:
        return import_module(package)
    except ImportError as error:
        raise Unsupported(
            f"{package} cannot be imported ({error}): `{install_command}` installs it"
        ) from error
