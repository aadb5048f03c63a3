"""``python -m snn.microbenchmark NAME SETTINGS auto|cuda|cpu OUTPUT [DEVICE]``: measure and record one.

NAME is one of the grid's ``microbenchmarks``, SETTINGS its settings as JSON, as a grid file has them:
'{"sizes": ["256B", "1MiB"], ...}'. A device with another name than DEVICE is refused. OUTPUT is the record.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from snn.hardware import threads

threads.assign()

from snn import command  # noqa: E402
from snn.errors import ConfigError, shown  # noqa: E402
from snn.grid import fingerprint  # noqa: E402
from snn.hardware.devices import Device, choices, say_unused_gpu  # noqa: E402
from snn.hardware.locks import end_with_parent  # noqa: E402
from snn.measurement import provenance  # noqa: E402
from snn.microbenchmarks.settings import SETTINGS, resolved  # noqa: E402
from snn.records.microbenchmarks import VERSION  # noqa: E402
from snn.records.untrusted import strict  # noqa: E402


@command.entry(__doc__, least=4, most=5)
def main(arguments: list[str]) -> int:
    end_with_parent()
    name, text, backend, output, *names = arguments
    settings = _settings(name, text)
    device = choices(backend, *names)[0]
    say_unused_gpu(backend, device)
    provenance.write_record(output, lambda: record(name, settings, device))
    return 0


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


if __name__ == "__main__":
    sys.exit(command.run(main))
