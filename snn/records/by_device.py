"""Records of any number of machines, from several folders, told apart by the device that measured them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.records import archive, rounds

Record = dict[str, Any]

_SHORT = len("GPU-01234567")
"""Characters of a UUID that stand in a name, where they are enough."""


@dataclass(frozen=True)
class _Device:
    """What tells two devices apart: a GPU's UUID. A CPU has none, so its folder is a part of it."""

    uuid: str | None
    name: str = ""
    backend: str = ""
    system: str = ""
    cpus: int | None = None
    folder: Path | None = None


def collect(folders: Sequence[Path]) -> dict[str, dict[str, Record]]:
    """The records of all folders by the name of their device, then by place, each record once.

    A GPU is known by its UUID, in whichever folders its records are. A CPU has no UUID: it is known by its
    name, system and number of CPUs and by the folder, so that two machines with one name are never taken for
    one. Devices of one name are told apart by the start of their UUID, or by their number of CPUs and their
    folder.

    Raises RecordError, naming the places, where a folder holds no records or something else, where two
    different records are of one round of a cell on one device, or where rounds of a cell do not belong
    together (``snn.records.rounds``).
    """
    devices: dict[_Device, dict[str, Record]] = {}
    known: dict[tuple[_Device, str], tuple[str, Record]] = {}
    for folder in dict.fromkeys(folders):
        for place, entry in archive.unchecked(folder).items():
            record = entry.record
            device = _device(record["provenance"], folder)
            of_round = (device, json.dumps([record["cell"], record["round"]], sort_keys=True))
            other, first = known.setdefault(of_round, (place, record))
            if record != first:
                raise RecordError(
                    f"{other} and {place} are different records of round {record['round']} of one cell on "
                    f"{' '.join(filter(None, (record['provenance']['device'], device.uuid)))}: "
                    "remove one of them"
                )
            if other == place:
                devices.setdefault(device, {})[place] = record
    for records in devices.values():
        rounds.check(records)
    names = _names({device: next(iter(records.values())) for device, records in devices.items()})
    return {names[device]: records for device, records in devices.items()}


def _device(provenance: Mapping[str, Any], folder: Path) -> _Device:
    if provenance["device_uuid"]:
        return _Device(provenance["device_uuid"])
    host = provenance.get("host", {})
    name, backend = provenance["device"], provenance["backend"]
    return _Device(None, name, backend, host.get("system") or "", host.get("cpus"), folder)


def _names(devices: Mapping[_Device, Record]) -> dict[_Device, str]:
    """A name for each device: with as much beside it as tells it from the others."""
    plain = {device: _plain(record["provenance"]) for device, record in devices.items()}
    names = {}
    for device, name in plain.items():
        twins = [other for other in plain if plain[other] == name]
        names[device] = name if len(twins) == 1 else f"{name} ({_beside(device, twins)})"
    return names


def _plain(provenance: Mapping[str, Any]) -> str:
    name: str = provenance["device"]
    return name if provenance["backend"] == "cuda" else f"CPU {name}"


def _beside(device: _Device, twins: Sequence[_Device]) -> str:
    """What tells this device from its twins: of a GPU its UUID; of a CPU as much of its folder as is enough,
    and where two are of one folder the number of CPUs and the system."""
    if device.uuid:
        starts = [twin.uuid[:_SHORT] for twin in twins if twin.uuid]
        return device.uuid[:_SHORT] if starts.count(device.uuid[:_SHORT]) == 1 else device.uuid
    folders = [twin.folder for twin in twins]
    assert device.folder is not None
    of_folder = [_end(device.folder, [folder for folder in folders if folder is not None])]
    if folders.count(device.folder) > 1:
        of_folder += [f"{device.cpus} CPUs", device.system]
    return ", ".join(of_folder)


def _end(folder: Path, folders: Sequence[Path]) -> str:
    """The shortest end of a folder's path that no other has: ``laptop/results`` beside ``desk/results``."""
    others = [other.parts for other in folders if other != folder]
    for count in range(1, len(folder.parts)):
        if all(other[-count:] != folder.parts[-count:] for other in others):
            return str(Path(*folder.parts[-count:]))
    return str(folder)
