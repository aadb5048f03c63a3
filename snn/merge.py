"""Results of any number of machines in one table, and a figure."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from snn import contribute
from snn.analysis import published
from snn.analysis.verdicts import DIFFERS
from snn.config.groups import CONFIG, read_yaml
from snn.errors import ConfigError, RecordError, shown
from snn.figures import devices as figure
from snn.figures.layout import save
from snn.files.outputs import replaced_folder
from snn.files.published_sets import PUBLISHED
from snn.records import archive, store
from snn.records.microbenchmarks import FOLDER
from snn.report.write import write
from snn.tables import cards, devices

_OUTPUT = "output="
_FILES = tuple(f"devices.{ending}" for ending in ("csv", "html", "svg", "png"))
_OF_CARDS = ("cards.csv", "cards.html")
_MOST_LINES = 12
_SHORT = len("GPU-01234567")
"""Characters of a UUID that a name shows if they suffice to tell its devices apart."""

Record = dict[str, Any]


class _Device(NamedTuple):
    """Key that identifies a device: a GPU's UUID. A CPU has none, so its key includes the folder."""

    uuid: str | None
    name: str = ""
    backend: str = ""
    system: str = ""
    cpus: int | None = None
    folder: Path | None = None


class _Found(NamedTuple):
    """A record with its place, the device that measured it, and the folder that it is in."""

    place: str
    record: Record
    device: _Device
    home: Path


def run(folders: Sequence[Path], output: Path) -> str:
    """Merge the records of these folders; return a summary, in lines.

    Raises RecordError as ``collect`` does, OutputError if the output folder is not one that this command
    wrote or cannot be written. After an error nothing has been written.
    """
    kept = [folder for folder in folders if not archive.of_microbenchmarks(folder)]
    with replaced_folder(output, (*_FILES, *_OF_CARDS)) as folder:
        records = collect(kept or folders)
        paper = {name: read_yaml(CONFIG / f"paper/{name}.yaml") for name in published.TABLES}
        paper_device = read_yaml(CONFIG / "paper/gpu.yaml")["device"]
        thresholds = read_yaml(CONFIG / "verdicts.yaml")
        table = devices.build(records, paper, paper_device, thresholds)
        over_cards = cards.build(records, thresholds)
        if len(over_cards):
            write(over_cards, str(folder / _OF_CARDS[0]), str(folder / _OF_CARDS[1]), cards.TITLE)
        csv, page, svg, png = (str(folder / name) for name in _FILES)
        write(table, csv, page, devices.TITLE)
        save(figure.draw(table), [svg, png])
    counts = [f"{name}: {len(of_device)} records" for name, of_device in records.items()]
    left = [f"{folder} is left out: it has only {FOLDER}" for folder in folders if folder not in kept]
    of_cards = _said_of_cards(over_cards, output) if len(over_cards) else []
    return "\n".join([*counts, *left, *_said(table), *of_cards, f"{output / _FILES[0]}"])


def _said(table: pd.DataFrame) -> list[str]:
    """Lines with the number of rows per verdict on all devices, and the first rows that differ."""
    found = table.loc[table[devices.ON_ALL] != "", devices.ON_ALL].value_counts()
    words = ", ".join(f"{count} {word}" for word, count in found.items())
    lines = [f"{len(table)} rows, {found.sum()} of several devices{': ' if words else ''}{words}"]
    differing = table[table[devices.ON_ALL] == DIFFERS]
    lines += [
        f"  {row['dataset']}, {row['network']}: {row['advice']}"
        for row in differing.head(_MOST_LINES).to_dict("records")
    ]
    left = len(differing) - _MOST_LINES
    return [*lines, f"  and {left} more that differ"] if left > 0 else lines


def _said_of_cards(table: pd.DataFrame, output: Path) -> list[str]:
    apart, pairs = table["pairs_apart"].sum(), table["pairs"].sum()
    return [
        f"{len(table)} rows of several cards of one model, in {output / _OF_CARDS[0]}: {apart} of {pairs} "
        "pairs of cards differ by more than their intervals allow"
    ]


def parse(arguments: Sequence[str]) -> tuple[list[Path], Path]:
    """The folders, and the output."""
    named = [argument.removeprefix(_OUTPUT) for argument in arguments if argument.startswith(_OUTPUT)]
    folders = [Path(argument) for argument in arguments if not argument.startswith(_OUTPUT)]
    if not folders:
        raise ConfigError(
            "give one or more folders of results, such as results or results/published/DEVICE/SET"
        )
    if len(named) > 1:
        raise ConfigError(f"output is given twice, as {' and '.join(map(shown, named))}: give it once")
    if "" in named:
        raise ConfigError("output is empty: it must name a folder, such as output=devices")
    return folders, Path(named[0] if named else "devices")


# ---- records of any number of machines, from several folders, told apart by the device that measured them


def collect(folders: Sequence[Path]) -> dict[str, dict[str, Record]]:
    """The records of all folders by the name of their device, then by place, each record once.

    A UUID identifies a GPU in whichever folders its records are. A CPU has no UUID: its name, system, number
    of CPUs and folder identify it, so that two machines with one name are never merged, unless two folders
    share a record of it. GPUs of one name that measured different rounds of one cell in one folder are
    merged, as in the tables of that folder, unless their records, in all folders, may not share a table: they
    have the same round of a cell, or different hosts, drivers or sources. If several devices have one name,
    the start of their UUID, or their number of CPUs and folder, is added to it.

    Raises RecordError, naming the places, if a folder holds no records or something else, if one device has
    two different records of one round of a cell, or if rounds of a cell do not belong together
    (``snn.records.store.check_rounds``).
    """
    homes: dict[Path, Path] = {}
    for folder in folders:
        path = Path(os.path.realpath(folder))  # works for unreadable folders, too, which are reported below
        homes.setdefault(path.parent if path.name == archive.RECORDS else path, folder)
    found = []
    for home, folder in homes.items():
        records = {place: entry.record for place, entry in archive.unchecked(folder).items()}
        if archive.is_contribution(folder):
            contribute.check(folder, records)
        found += [
            _Found(place, record, _device(record["provenance"], home), home)
            for place, record in records.items()
        ]
    representatives = _representatives(found)
    devices: dict[_Device, dict[str, Record]] = {}
    known: dict[tuple[_Device, str], tuple[str, Record]] = {}
    for place, record, one, _ in found:
        device = representatives[one]
        of_round = (device, _text([record["cell"], record["round"]]))
        other, first = known.setdefault(of_round, (place, record))
        if record != first:
            where = " ".join(filter(None, (record["provenance"]["device"], one.uuid)))
            raise RecordError(
                f"{other} and {place} are different records of round {record['round']} of one cell on "
                f"{where}: remove one of them"
            )
        if other == place:
            devices.setdefault(device, {})[place] = record
    for records in devices.values():
        store.check_rounds(records)
    return dict(zip(_names(devices), devices.values(), strict=True))


def _representatives(found: Sequence[_Found]) -> dict[_Device, _Device]:
    """For each device the one that represents it and all devices merged with it."""
    cards = [one for one in found if one.device.uuid is not None]
    joined = _link((one.device, _text(one.record)) for one in found if one.device.uuid is None)
    linked = _link(
        (card, _text([str(home), record["provenance"]["device"], record["cell"]]))
        for _, record, card, home in cards
    )
    for first in set(linked.values()):
        group = [one for one in cards if linked[one.device] == first]
        devices = sorted({one.device for one in group}, key=lambda card: card.uuid or "")
        are_one = len(devices) == 1 or _may_share_a_table(group)
        joined |= {card: devices[0] if are_one else card for card in devices}
    return joined


def _link(keys: Iterable[tuple[_Device, str]]) -> dict[_Device, _Device]:
    """Each device with the first device that shares a key with it, directly or through others."""
    first: dict[_Device, _Device] = {}
    owners: dict[str, _Device] = {}
    for device, key in keys:
        its = first.setdefault(device, device)
        other = first[owners.setdefault(key, device)]
        if its != other:
            first = {one: other if known == its else known for one, known in first.items()}
    return first


def _may_share_a_table(group: Sequence[_Found]) -> bool:
    """Whether several GPUs have equal hosts and drivers, and the rounds in their records belong together."""
    places = [one.record["provenance"] for one in group]
    if len({_text([place["driver"], store.host(place)]) for place in places}) > 1:
        return False
    try:
        store.check_rounds(
            {_text(record): record for _, record, _, _ in group}
        )  # one that is there twice is one
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


def _names(devices: Mapping[_Device, Mapping[str, Record]]) -> Iterator[str]:
    """A name for each device: with as much after it as tells it from the others."""
    firsts = [next(iter(records.values()))["provenance"] for records in devices.values()]
    plain = [("" if first["backend"] == "cuda" else "CPU ") + first["device"] for first in firsts]
    for name, (device, records) in zip(plain, devices.items(), strict=True):
        twins = [other for other, its_name in zip(devices, plain, strict=True) if its_name == name]
        cards = {record["provenance"]["device_uuid"] for record in records.values()}
        more = f" and {len(cards) - 1} more" if len(cards) > 1 else ""
        yield name if len(twins) == 1 else f"{name} ({_trait(device, twins)}{more})"


def _trait(device: _Device, twins: Sequence[_Device]) -> str:
    """Text that distinguishes this device from its twins.

    For a GPU the UUID; for a CPU as much of its folder as is needed or, if two share a folder, the number of
    CPUs and the system.
    """
    if device.uuid:
        starts = [twin.uuid[:_SHORT] for twin in twins if twin.uuid]
        return device.uuid[:_SHORT] if starts.count(device.uuid[:_SHORT]) == 1 else device.uuid
    assert device.folder is not None
    folders = [twin.folder for twin in twins if twin.folder is not None]
    end = _end(device.folder, [folder for folder in folders if folder != device.folder])
    return end if folders.count(device.folder) == 1 else f"{end}, {device.cpus} CPUs, {device.system}"


def _end(folder: Path, others: Sequence[Path]) -> str:
    """The shortest unique end of a folder's path: ``laptop/results``, not ``desk/results``.

    For a published set it includes the device.
    """
    for count in range(1 + (folder.parent.parent.name == PUBLISHED.name), len(folder.parts)):
        if all(other.parts[-count:] != folder.parts[-count:] for other in others):
            return str(Path(*folder.parts[-count:]))
    return str(folder)
