"""Records of a device: its limits, and its microbenchmarks, which are checked as a cell's record is."""

from collections.abc import Collection, Container, Mapping
from pathlib import Path
from typing import Any

from snn.errors import RecordError, shown
from snn.hardware import limits
from snn.records import untrusted
from snn.records.store import check_digest, explain_rerun

VERSION = 1  # the schema version of a record of a microbenchmark
FOLDER = "microbenchmarks"
"""Their folder in a folder of results (with a subfolder per device) and in an archive."""

_POINTS: Mapping[str, Collection[str]] = {
    "memory_access": ("pattern", "value", "access", "useful_bytes", "moved_bytes"),
    "memory_calls": ("kind", "call"),
    "allocation_size": ("kind", "call", "bytes", "live"),
    "fragmentation": ("trace", "allocator", "kind", "calls", "peak_bytes"),
    "memory_map": ("trace", "allocator"),
    "shapes": ("shape", "batch", "features", "hidden", "outputs", "biases", "strategy"),
}
"""Keys of every point of a microbenchmark; they identify the rows of its table."""


def read(path: Path) -> dict[str, Any]:
    """A record of a microbenchmark. Raises RecordError, naming the file. For a record under
    ``results/microbenchmarks`` the message says how to measure it again."""
    with explain_rerun(path):
        record = _read(path, "microbenchmark", (VERSION,), VERSION)
        for number, reading in enumerate(record["readings"]):
            _check_reading(f"{path}: readings[{number}]", record["name"], reading)
        return record


def read_limits(path: Path) -> dict[str, Any]:
    """A record of a device's limits; those of version 1 have no digest. Raises RecordError, naming the file.
    For a record under ``results/limits`` the message says how to measure it again."""
    with explain_rerun(path):
        return _read(path, "limits", (1, limits.VERSION), limits.VERSION)


def of_devices(folder: Path, devices: Container[str] | None = None) -> dict[str, dict[str, Any]]:
    """The records of an archive or a folder of results by name: of GPUs if any, of ``devices`` if given.

    Raises RecordError if the folder cannot be read, or has two records of one microbenchmark.
    """
    try:
        paths = sorted((folder / FOLDER).rglob("*.json"))
    except OSError as error:
        raise RecordError(f"{folder}: cannot be read: {error}") from error
    found = [(path, read(path)) for path in paths]
    found = [one for one in found if devices is None or one[1]["provenance"]["device"] in devices]
    chosen: dict[str, tuple[Path, dict[str, Any]]] = {}
    for path, record in [one for one in found if one[1]["provenance"]["backend"] == "cuda"] or found:
        other, _ = chosen.setdefault(record["name"], (path, record))
        if other != path:
            raise RecordError(
                f"{path}: {record['name']} is in {other} as well, but a table is about one device: remove one"
            )
    return {name: record for name, (_, record) in chosen.items()}


def _read(path: Path, kind: str, versions: Collection[int], sealed: int) -> dict[str, Any]:
    """A record of this kind and one of these versions, of which ``sealed`` is the one with a digest."""
    record: dict[str, Any] = untrusted.read_json(path)
    version = record.get(f"{kind}_version") if isinstance(record, dict) else None
    if type(version) is not int or version not in versions:
        raise RecordError(
            f"{path}: {kind} version {shown(version)}, but this program reads "
            f"{' and '.join(map(str, versions))}"
        )
    if version == sealed:
        check_digest(record, str(path))
    untrusted.check_schema(kind, record, str(path))
    return record


def _check_reading(place: str, name: str, reading: Mapping[str, Any]) -> None:
    missing = [key for key in _POINTS[name] if key not in reading["point"]]
    if missing:
        raise RecordError(f"{place}.point of {name} has no {missing[0]}")
    is_ok, series = reading["status"] == "ok", reading.get("series", {})
    if bool(reading["seconds"] or series) != is_ok or bool(reading["reason"]) == is_ok:
        raise RecordError(
            f"{place} is {reading['status']}, with {len(reading['seconds'])} samples and the reason "
            f"{shown(reading['reason'])}: it must have either samples or a reason"
        )
    if len({len(values) for values in series.values()}) > 1:
        raise RecordError(f"{place}.series has lists of different lengths")
