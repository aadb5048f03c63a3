"""Records of any number of machines, from several folders, told apart by the device that measured them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from snn.errors import RecordError
from snn.files.published_sets import PUBLISHED
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


class _Found(NamedTuple):
    """A record, where it is, and on which device and in which folder it was measured."""

    place: str
    record: Record
    device: _Device
    home: Path


def collect(folders: Sequence[Path]) -> dict[str, dict[str, Record]]:
    """The records of all folders by the name of their device, then by place, each record once.

    A GPU is known by its UUID, in whichever folders its records are. A CPU has no UUID: it is known by its
    name, system and number of CPUs and by the folder, so that two machines with one name are never taken for
    one, unless two folders share a record of it. GPUs of one name that measured different rounds of one cell
    in one folder are taken for one, as in the tables of that folder, unless their records, in all folders,
    may not stand in one table: of the same round of a cell, or with other hosts, drivers or sources.
    Devices of one name are told apart by the start of their UUID, or by their number of CPUs and folder.

    Raises RecordError, naming the places, where a folder holds no records or something else, where two
    different records are of one round of a cell on one device, or where rounds of a cell do not belong
    together (``snn.records.rounds``).
    """
    homes: dict[Path, Path] = {}
    for folder in folders:
        homes.setdefault(_home(folder), folder)
    found = [
        _Found(place, entry.record, _device(entry.record["provenance"], home), home)
        for home, folder in homes.items()
        for place, entry in archive.unchecked(folder).items()
    ]
    joined = _Joined()
    _join_cpus(joined, found)
    _join_cards(joined, found)
    devices: dict[_Device, dict[str, Record]] = {}
    known: dict[tuple[_Device, str], tuple[str, Record]] = {}
    for place, record, one, _ in found:
        device = joined.first(one)
        of_round = (device, _text([record["cell"], record["round"]]))
        other, first = known.setdefault(of_round, (place, record))
        if record != first:
            raise RecordError(
                f"{other} and {place} are different records of round {record['round']} of one cell on "
                f"{' '.join(filter(None, (record['provenance']['device'], one.uuid)))}: "
                "remove one of them"
            )
        if other == place:
            devices.setdefault(device, {})[place] = record
    for records in devices.values():
        rounds.check(records)
    names = _names(devices)
    return {names[device]: records for device, records in devices.items()}


def _home(folder: Path) -> Path:
    """The folder that records are in, by whichever path it was named."""
    path = Path(os.path.realpath(folder))  # of what cannot be read, too, which is said later
    return path.parent if path.name == archive.RECORDS else path


class _Joined:
    """Which devices are taken for one: each set of them is known by its first one."""

    def __init__(self) -> None:
        self._stands_for: dict[_Device, _Device] = {}

    def first(self, device: _Device) -> _Device:
        """The device that stands for this one."""
        while (other := self._stands_for.setdefault(device, device)) != device:
            device = other
        return device

    def join(self, device: _Device, other: _Device) -> None:
        """Take the two, and all that were joined with either, for one."""
        self._stands_for[self.first(device)] = self.first(other)


def _join_cpus(joined: _Joined, found: Sequence[_Found]) -> None:
    """Two CPUs that share a record are one, in two folders."""
    owners: dict[str, _Device] = {}
    for _, record, device, _ in found:
        if device.uuid is None:
            joined.join(device, owners.setdefault(_text(record), device))


def _join_cards(joined: _Joined, found: Sequence[_Found]) -> None:
    """GPUs of one name that measured a cell in one folder are one, with all that are linked so, if the
    records of all of them may stand in one table; the order of folders does not matter."""
    linked, first_of_cell = _Joined(), dict[str, _Device]()
    cards = [one for one in found if one.device.uuid is not None]
    for _, record, device, home in cards:
        of_cell = _text([str(home), record["provenance"]["device"], record["cell"]])
        linked.join(device, first_of_cell.setdefault(of_cell, device))
    groups: dict[_Device, list[_Found]] = {}
    for one in cards:
        groups.setdefault(linked.first(one.device), []).append(one)
    for group in groups.values():
        devices = sorted({one.device for one in group}, key=lambda device: device.uuid or "")
        if len(devices) > 1 and _of_one_table(group):
            for device in devices:
                joined.join(device, devices[0])


def _of_one_table(group: Sequence[_Found]) -> bool:
    """Whether records of several GPUs are of equal hosts and drivers, and their rounds belong together."""
    places = [one.record["provenance"] for one in group]
    if len({_text([place["driver"], rounds.host(place)]) for place in places}) > 1:
        return False
    try:
        rounds.check({_text(record): record for _, record, _, _ in group})  # one that is there twice is one
    except RecordError:
        return False
    return True


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _device(provenance: Mapping[str, Any], folder: Path) -> _Device:
    if provenance["device_uuid"]:
        return _Device(provenance["device_uuid"])
    host = provenance.get("host", {})
    name, backend = provenance["device"], provenance["backend"]
    return _Device(None, name, backend, host.get("system") or "", host.get("cpus"), folder)


def _names(devices: Mapping[_Device, Mapping[str, Record]]) -> dict[_Device, str]:
    """A name for each device: with as much beside it as tells it from the others."""
    firsts = {device: next(iter(records.values())) for device, records in devices.items()}
    plain = {device: _plain(record["provenance"]) for device, record in firsts.items()}
    names = {}
    for device, name in plain.items():
        twins = [other for other in plain if plain[other] == name]
        beside = _beside(device, twins)
        cards = {record["provenance"]["device_uuid"] for record in devices[device].values()}
        more = f" and {len(cards) - 1} more" if len(cards) > 1 else ""
        names[device] = name if len(twins) == 1 else f"{name} ({beside}{more})"
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
    """The shortest end of a folder's path that no other has: ``laptop/results`` beside ``desk/results``.

    Of a published set it names the device, too.
    """
    others = [other.parts for other in folders if other != folder]
    for count in range(1 + (folder.parent.parent.name == PUBLISHED.name), len(folder.parts)):
        if all(other[-count:] != folder.parts[-count:] for other in others):
            return str(Path(*folder.parts[-count:]))
    return str(folder)
