"""Read and write whole sets of records: a folder of results, or an archive made by ``scripts/publish``."""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.records.store import check_version, read_json

RECORDS = "records.jsonl.gz"
"""An archive's file of records, one per line. Records are repetitive: gzip saves five sixths of the space."""


def write(records: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write an archive's records. The bytes depend on the records alone: the gzip header has no timestamp."""
    lines = (json.dumps(record, separators=(",", ":"), sort_keys=True) + "\n" for record in records)
    (folder / RECORDS).write_bytes(gzip.compress("".join(lines).encode("utf-8"), mtime=0))


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of ``folder/cells`` by path, or of ``folder/records.jsonl.gz`` (or of such a file) by line.

    Older records are returned in today's form. Raises RecordError, naming file and line, where there is
    something else, or no record at all.
    """
    return {place: check_version(record, place) for place, record in as_written(folder).items()}


def as_written(folder: Path) -> dict[str, Any]:
    """The same records, unchecked and under the key names that they were written with."""
    if (folder / "cells").is_dir():
        records = {str(path): read_json(path) for path in sorted((folder / "cells").rglob("*.json"))}
    else:
        records = _read_lines(folder / RECORDS if folder.is_dir() else folder)
    if not records:
        raise RecordError(f"{folder}: there are no records in it")
    return records


def _read_lines(file: Path) -> dict[str, Any]:
    try:
        lines = gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise RecordError(f"{file}: cannot be read: {error}") from error
    records = {}
    for number, line in enumerate(lines, 1):
        place = f"{file}, line {number}"
        try:
            records[place] = json.loads(line)
        except ValueError as error:
            raise RecordError(f"{place}: not a record: {error}") from error
    return records
