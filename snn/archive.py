"""Records from a folder: one of results, or an archive that ``scripts/publish`` wrote."""

import json
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.records import check_version, read


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of ``folder/cells`` by path, or of ``folder/records.jsonl`` (or of such a file) by line.

    Raises RecordError, with file and line, where it holds something else, or nothing.
    """
    if (folder / "cells").is_dir():
        found = {str(path): read(path) for path in sorted((folder / "cells").rglob("*.json"))}
    else:
        found = _of_lines(folder / "records.jsonl" if folder.is_dir() else folder)
    if not found:
        raise RecordError(f"{folder}: holds no record")
    return found


def _of_lines(file: Path) -> dict[str, dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
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
