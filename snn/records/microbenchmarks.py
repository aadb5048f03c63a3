"""A record of a microbenchmark, checked as a cell's record is."""

from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.records import digest, schema
from snn.records.store import again
from snn.records.untrusted import read_json

VERSION = 1
"""The schema version of a record of a microbenchmark."""


def read(path: Path) -> dict[str, Any]:
    """A record of a microbenchmark. Raises RecordError, naming the file.

    Of a record under ``results/microbenchmarks`` the message says how to measure it again.
    """
    try:
        return _read(path)
    except RecordError as error:
        raise RecordError(f"{error}{again(path)}") from error


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
        is_ok = reading["status"] == "ok"
        if bool(reading["seconds"]) != is_ok or bool(reading["reason"]) == is_ok:
            raise RecordError(
                f"{path}: readings[{number}] is {reading['status']}, with {len(reading['seconds'])} samples "
                f"and the reason {schema.shown(reading['reason'])}: it must have either samples or a reason"
            )
    return record
