"""Measure the limits of a device, and record them."""

from dataclasses import replace
from typing import Any

from snn.config.groups import ROOT
from snn.grid import fingerprint
from snn.hardware.devices import Device, choices
from snn.hardware.limits import VERSION, Measured, properties
from snn.hardware.locks import end_with_parent
from snn.measurement import provenance


def measure_to(output: str, backend: str, name: str | None) -> None:
    """Write a record of the limits of the backend's device; another than that of the name is an error."""
    end_with_parent()
    provenance.write_record(output, lambda: record(choices(backend, name)[0]))


def record(device: Device) -> dict[str, Any]:
    """Measure the device's limits; a record of them, with the device's state before and after."""
    return provenance.measure_device(
        device,
        lambda: {"limits_version": VERSION, **measure(device).plain()},
        lambda: fingerprint.limits_sources(device.backend).digest,
    )


def measure(device: Device) -> Measured:
    """Measure the limits of the device, and ask what its properties are."""
    if device.backend == "cpu":
        from snn.backends.cpu import limits as limits_cpu

        return limits_cpu.measure()
    from snn.backends.cuda import limits as limits_cuda

    assert device.uuid is not None
    return replace(limits_cuda.measure(ROOT), properties=properties(device.uuid))
