"""A record: the JSON file that holds what was measured of one cell in one round."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from snn.errors import RecordError

SCHEMA_VERSION = 3
_READ = (2, SCHEMA_VERSION)


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record atomically: the file is complete or absent, even if the process is killed."""
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
    """A record in today's form. Raises RecordError, naming the file, where it is not a record."""
    return check_version(read_json(path), str(path))


def read_json(path: Path) -> Any:
    """The content of a file that ``write`` wrote. Raises RecordError, naming the file, if it is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not a record: {error}") from error


def check_version(record: Any, place: str) -> dict[str, Any]:
    """The record in today's form. Raises RecordError, naming the place, for an unknown schema version."""
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version not in _READ:
        raise RecordError(
            f"{place}: the schema version is {version!r}, but this program reads 2 to {SCHEMA_VERSION}"
        )
    return lift(record)


def lift(record: dict[str, Any]) -> dict[str, Any]:
    """A record under today's key names, whichever version of the program wrote it; the input is unchanged."""
    cell = record.get("cell", {})
    protocol = cell.get("protocol", {})
    if "precision" in protocol:  # renamed to relative_error
        renamed = {key: value for key, value in protocol.items() if key != "precision"}
        renamed["relative_error"] = protocol["precision"]
        record = {**record, "cell": {**cell, "protocol": renamed}}
    if record.get("stopped") == "precision":
        record = {**record, "stopped": "relative_error"}
    if record.get("schema_version") == 2:  # every loss was the mean squared error
        runs = [{**run, "final_loss": run["final_mse"]} for run in record.get("runs", ())]
        summary = {**record["summary"], "mean_final_loss": record["summary"]["mean_final_mse"]}
        record = {**record, "schema_version": SCHEMA_VERSION, "runs": runs, "summary": summary}
    return record
