"""How devices look in figures that compare them: a device has its colour and marker in every figure."""

import hashlib
import re
from collections.abc import Mapping, Sequence

from snn.config import groups
from snn.figures.style import LINES, Look
from snn.hardware.devices import Device

_LOOKS = [Look(*look) for look in zip(LINES[:-1], "os^phv", strict=True)]  # black is of published values
_BESIDE = re.compile(r"(?P<name>CPU .+) \((?P<device>[^()/]+)/[^()]+\)")
"""A CPU that ``snn merge`` names with the folder of a published set."""


def looks(devices: Sequence[str]) -> dict[str, Look]:
    """The look of each device, by its name in a table of devices.

    A GPU has that of its place in config/gpus.yaml, or from its name where it is not there; a CPU that of the
    last place, and the CPU of a GPU's host that of the place as far from the last as its GPU's from the
    first. Where that is taken already, it is the next that is free; of more devices than looks some look the
    same.
    """
    known = {Device("cuda", name).slug: i for i, name in enumerate(groups.known_gpus())}
    taken: dict[str, int] = {}
    for device in sorted(devices, key=lambda device: (_is_cpu(device), _slug(device) not in known)):
        place, step = _place(device, known), -1 if _is_cpu(device) else 1
        order = [(place + step * i) % len(_LOOKS) for i in range(len(_LOOKS))]
        taken[device] = next((i for i in order if i not in taken.values()), order[0])
    return {device: _LOOKS[taken[device]] for device in devices}


def _place(device: str, known: Mapping[str, int]) -> int:
    beside = _BESIDE.fullmatch(device)
    if _is_cpu(device):
        return -2 - known[beside["device"]] if beside and beside["device"] in known else -1
    return known.get(_slug(device), hashlib.sha256(device.encode()).digest()[0])


def _is_cpu(device: str) -> bool:
    return device.startswith("CPU ")


def _slug(device: str) -> str:
    """Of a GPU, which may have its UUID in brackets."""
    return Device("cuda", device.partition(" (")[0]).slug


def said(device: str, devices: Sequence[str]) -> str:
    """A device's name for a reader: of the CPU of a GPU's host, which GPU it was measured beside."""
    found = _BESIDE.fullmatch(device)
    gpus = {Device("cuda", other).slug: other for other in devices}
    return (
        f"{found['name']} beside the {gpus[found['device']]}" if found and found["device"] in gpus else device
    )
