"""A record of what a device can do at best, checked as a cell's record is."""

from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.hardware.limits import VERSION
from snn.records import digest, schema
from snn.records.store import saying_how_again
from snn.records.untrusted import read_json

_VERSIONS = (1, VERSION)


def read(path: Path) -> dict[str, Any]:
    """A record of limits; those of version 1 have no digest. Raises RecordError, naming the file.

    Of a record under ``results/limits`` the message says how to measure it again.
    """
    with saying_how_again(path):
        return _read(path)


def _read(path: Path) -> dict[str, Any]:
    record: dict[str, Any] = read_json(path)
    version = record.get("limits_version") if isinstance(record, dict) else None
    if version not in _VERSIONS:
        raise RecordError(
            f"{path}: limits version {schema.shown(version)}, this program reads 1 to {VERSION}"
        )
    if version == VERSION:
        digest.check(record, str(path))
    schema.check("limits", record, str(path))
    return record
