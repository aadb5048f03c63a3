"""A record: the JSON file that a cell leaves, complete or not there at all."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snn.errors import RecordError

SCHEMA_VERSION = 2


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record so that the file is either whole or absent, also when the process is killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, allow_nan=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read(path: Path) -> dict[str, Any]:
    """A record of this schema version. Raises RecordError, naming the file, where it is not one."""
    return check_version(read_json(path), str(path))


def read_json(path: Path) -> Any:
    """What a file written by ``write`` holds. Raises RecordError, naming it, where it is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not a record: {error}") from error


def check_version(record: Any, place: str) -> dict[str, Any]:
    """The record itself. Raises RecordError, naming the place, where it is not one of this schema version."""
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version != SCHEMA_VERSION:
        raise RecordError(f"{place}: schema version {version!r}, this program reads {SCHEMA_VERSION}")
    return record
