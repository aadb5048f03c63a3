"""The microbenchmarks of a grid file, with their settings for a device."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snn.errors import ConfigError
from snn.grid import fingerprint
from snn.grid.catalogue import MICROBENCHMARKS
from snn.hardware.devices import Device
from snn.microbenchmarks.settings import resolved

_ON_CPU = "on_cpu"


def read(path: Path, grid: Mapping[str, Any], device: Device) -> dict[str, dict[str, Any]]:
    """By name the settings of each microbenchmark, as the grid has them for this device, sorted by key.

    Raises ConfigError, naming file, microbenchmark, key and value, also for those of the other devices.
    """
    found = {}
    for name, given in grid.get("microbenchmarks", {}).items():
        settings = {key: value for key, value in given.items() if key != _ON_CPU}
        on_cpu = {**settings, **given.get(_ON_CPU, {})}
        for where, each in (("", settings), (f" with {_ON_CPU}", on_cpu)):
            try:
                resolved(name, each)
            except ConfigError as error:
                raise ConfigError(f"{path}: microbenchmarks.{name}{where}: {error}") from error
        found[name] = dict(sorted((on_cpu if device.backend == "cpu" else settings).items()))
    return found


def source_hash(name: str, device: Device) -> str:
    """The hash of what a microbenchmark is measured with on a device."""
    module = MICROBENCHMARKS[name].module
    return fingerprint.digest(fingerprint.of_microbenchmark(name, device.backend, module))


def record_path(name: str, device: Device) -> str:
    """Where a workflow keeps the record of a microbenchmark."""
    return f"results/microbenchmarks/{device.slug}/{name}.json"
