"""Measure one of the grid's microbenchmarks, and record it."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from snn.errors import ConfigError, shown
from snn.grid import fingerprint
from snn.hardware.devices import Device, choices, say_unused_gpu
from snn.hardware.locks import end_with_parent
from snn.measurement import provenance
from snn.microbenchmarks.settings import SETTINGS, resolved
from snn.records.microbenchmarks import VERSION
from snn.records.untrusted import strict


def measure_to(output: str, name: str, text: str, backend: str, device_name: str | None) -> None:
    """Write a record of a microbenchmark with these settings, which are JSON, on the backend's device.

    Another device than that of ``device_name`` is an error.
    """
    end_with_parent()
    settings = _settings(name, text)
    device = choices(backend, device_name)[0]
    say_unused_gpu(backend, device)
    provenance.write_record(output, lambda: record(name, settings, device))


def record(name: str, settings: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Run a microbenchmark on a device; a record of it, with the device's state before and after."""
    wanted = resolved(name, settings)

    def measure() -> dict[str, Any]:
        microbenchmark = import_module(f"snn.microbenchmarks.{name}")
        return {
            "microbenchmark_version": VERSION,
            "name": name,
            "settings": dict(sorted(settings.items())),
            "readings": [reading.plain() for reading in microbenchmark.measure(device.backend, wanted)],
        }

    return provenance.measure_device(
        device, measure, lambda: fingerprint.microbenchmark_sources(name, device.backend).digest
    )


def _settings(name: str, text: str) -> dict[str, Any]:
    """The settings of a command line. Raises ConfigError where they are not those of the microbenchmark."""
    if name not in SETTINGS:
        raise ConfigError(
            f"there is no microbenchmark {shown(name)}: it must be one of {', '.join(SETTINGS)}"
        )
    try:
        settings = strict(text)
    except ValueError as error:
        raise ConfigError(f"{name}: the settings are {shown(text)}, which is no JSON: {error}") from error
    if not isinstance(settings, dict):
        raise ConfigError(f"{name}: the settings are {shown(settings)}: they must be a JSON object")
    try:
        resolved(name, settings)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    return settings
