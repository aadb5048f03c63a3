"""Measure a device without training on it, and record its limits or one of the grid's microbenchmarks."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any

from snn.config.groups import ROOT
from snn.errors import ConfigError, shown
from snn.grid import fingerprint
from snn.hardware.devices import Device, choices, say_unused_gpu
from snn.hardware.limits import VERSION as LIMITS_VERSION
from snn.hardware.limits import properties
from snn.hardware.locks import end_with_parent
from snn.measurement import provenance
from snn.microbenchmarks.settings import SETTINGS, resolved
from snn.records.microbenchmarks import VERSION
from snn.records.untrusted import strict


def write_limits(output: str, backend: str, name: str | None) -> None:
    """Write a record of the limits of the backend's device; another than that of the name is an error."""
    end_with_parent()
    provenance.write_record(output, lambda: limits_record(choices(backend, name)[0]))


def write_microbenchmark(output: str, name: str, text: str, backend: str, device_name: str | None) -> None:
    """Write a record of a microbenchmark with these settings, which are JSON, on the backend's device.

    Another device than that of ``device_name`` is an error.
    """
    end_with_parent()
    settings = _settings(name, text)
    device = choices(backend, device_name)[0]
    say_unused_gpu(backend, device)
    provenance.write_record(output, lambda: microbenchmark_record(name, settings, device))


def limits_record(device: Device) -> dict[str, Any]:
    """Measure the device's limits; a record of them, with the device's state before and after."""

    def measure() -> dict[str, Any]:
        limits = import_module(f"snn.backends.{device.backend}.limits")
        found = limits.measure() if device.backend == "cpu" else limits.measure(ROOT)
        if device.uuid is not None:
            found = replace(found, properties=properties(device.uuid))
        return {"limits_version": LIMITS_VERSION, **found.plain()}

    return provenance.measure_device(
        device, measure, lambda: fingerprint.limits_sources(device.backend).digest
    )


def microbenchmark_record(name: str, settings: Mapping[str, Any], device: Device) -> dict[str, Any]:
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
    """The settings of a command line. Raises ConfigError if the microbenchmark has other settings."""
    if name not in SETTINGS:
        raise ConfigError(f"{shown(name)} is not a microbenchmark: it must be one of {', '.join(SETTINGS)}")
    try:
        settings = strict(text)
        if not isinstance(settings, dict):
            raise ValueError("it is another value")
    except ValueError as error:
        raise ConfigError(
            f"{name}: the settings are {shown(text)}: they must be a JSON object: {error}"
        ) from error
    try:
        resolved(name, settings)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    return settings
