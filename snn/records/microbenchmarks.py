"""A record of a microbenchmark, checked as a cell's record is."""

from collections.abc import Collection, Container, Mapping
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.records import digest, schema
from snn.records.store import saying_how_again
from snn.records.untrusted import read_json

VERSION = 1
"""The schema version of a record of a microbenchmark."""

_POINTS: Mapping[str, Collection[str]] = {
    "memory_access": ("pattern", "value", "access", "useful_bytes", "moved_bytes"),
    "memory_calls": ("kind", "call"),
    "fragmentation": ("trace", "allocator", "kind", "calls", "peak_bytes"),
    "memory_map": ("trace", "allocator"),
    "shapes": ("shape", "batch", "features", "hidden", "outputs", "biases", "strategy"),
}
"""What every point of a microbenchmark has; its table has rows by them."""


def read(path: Path) -> dict[str, Any]:
    """A record of a microbenchmark. Raises RecordError, naming the file.

    Of a record under ``results/microbenchmarks`` the message says how to measure it again.
    """
    with saying_how_again(path):
        return _read(path)


FOLDER = "microbenchmarks"
"""Where they stand in a folder of results, in a folder of each device, and in an archive."""


def of_devices(folder: Path, devices: Container[str] | None = None) -> dict[str, dict[str, Any]]:
    """By name the records of an archive or a folder of results, of GPUs if it has any of them.

    Those of other devices than ``devices`` are left aside, if those are given. Raises RecordError where the
    folder cannot be read, and where two are of one microbenchmark, for a table is about one device.
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


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = read_json(path)
    version = record.get("microbenchmark_version") if isinstance(record, dict) else None
    if version != VERSION:
        raise RecordError(
            f"{path}: microbenchmark version {schema.shown(version)}, this program reads {VERSION}"
        )
    digest.check(record, str(path))
    schema.check("microbenchmark", record, str(path))
    for number, reading in enumerate(record["readings"]):
        missing = [key for key in _POINTS[record["name"]] if key not in reading["point"]]
        if missing:
            raise RecordError(f"{path}: readings[{number}].point of {record['name']} has no {missing[0]}")
        is_ok = reading["status"] == "ok"
        series = reading.get("series", {})
        if bool(reading["seconds"] or series) != is_ok or bool(reading["reason"]) == is_ok:
            raise RecordError(
                f"{path}: readings[{number}] is {reading['status']}, with {len(reading['seconds'])} samples "
                f"and the reason {schema.shown(reading['reason'])}: it must have either samples or a reason"
            )
        if len({len(values) for values in series.values()}) > 1:
            raise RecordError(f"{path}: readings[{number}].series has lists of different lengths")
    return record
