"""Records from a folder: one of results, or an archive that ``scripts/publish`` wrote."""

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.records.store import check_version, read

RECORDS = "records.jsonl.gz"
"""The file of an archive's records, compressed: they repeat themselves, and take a sixth of the space."""


def write(records: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write an archive's records, and no time of writing: what did not change does not change the file."""
    lines = (json.dumps(one, separators=(",", ":"), sort_keys=True) + "\n" for one in records)
    (folder / RECORDS).write_bytes(gzip.compress("".join(lines).encode("utf-8"), mtime=0))


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of ``folder/cells`` by path, or of ``folder/records.jsonl.gz`` (or of such a file) by line.

    Raises RecordError, with file and line, where it holds something else, or nothing.
    """
    if (folder / "cells").is_dir():
        found = {str(path): read(path) for path in sorted((folder / "cells").rglob("*.json"))}
    else:
        found = _of_lines(folder / RECORDS if folder.is_dir() else folder)
    if not found:
        raise RecordError(f"{folder}: holds no record")
    return found


def _of_lines(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lines = gzip.decompress(file.read_bytes()).decode("utf-8").splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise RecordError(f"{file}: cannot be read: {error}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        place = f"{file}, line {number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise RecordError(f"{place}: not a record: {error}") from error
        found[place] = check_version(record, place)
    return found
