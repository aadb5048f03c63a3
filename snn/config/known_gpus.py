"""The GPUs of config/gpus.yaml: what is known of them where they are not here."""

from collections.abc import Mapping
from typing import Any

from snn.config.groups import CONFIG, read_yaml

MIB = 1 << 20


def read() -> Mapping[str, Mapping[str, Any]]:
    """What the file says of each GPU, by its name."""
    known: Mapping[str, Mapping[str, Any]] = read_yaml(CONFIG / "gpus.yaml")
    return known


def memory_bytes(name: str) -> int | None:
    """The bytes of a GPU's memory; None where the file does not have it."""
    its = read().get(name)
    return None if its is None else MIB * int(its["memory_mib"])
