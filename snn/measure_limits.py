"""``python -m snn.measure_limits cuda|cpu OUTPUT [NAME]``: measure the limits of the device, and record them.

A device with another name than NAME is refused.
"""

import sys
from dataclasses import replace
from typing import Any

from snn.hardware import threads

threads.assign()

from snn import command  # noqa: E402
from snn.config.groups import ROOT  # noqa: E402
from snn.grid import fingerprint  # noqa: E402
from snn.hardware.devices import Device, choices  # noqa: E402
from snn.hardware.limits import VERSION, Measured, properties  # noqa: E402
from snn.hardware.locks import end_with_parent  # noqa: E402
from snn.measurement import provenance  # noqa: E402


@command.entry(__doc__, least=2, most=3)
def main(arguments: list[str]) -> int:
    end_with_parent()
    backend, output, *names = arguments
    provenance.write_record(output, lambda: record(choices(backend, *names)[0]))
    return 0


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


if __name__ == "__main__":
    sys.exit(command.run(main))
