"""A record: the JSON file that holds what was measured of one cell in one round.

What a record says is checked here, and nowhere else: ``read`` and ``checked`` are the door for every table.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from snn.errors import ConfigError, RecordError, shown
from snn.files.outputs import replaced
from snn.records import consistency, digest, schema
from snn.records.untrusted import read_json

SCHEMA_VERSION = 5
_READ = (2, 3, 4, SCHEMA_VERSION)
_SEALED = (4, SCHEMA_VERSION)
_TRAINED = {"reduction": "mean", "gradient": "exact", "drop_last": False, "accumulate": 1}
_NETWORK: dict[str, Any] = {"recompute": []}
"""How every cell trained before there was a choice."""


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record atomically: the file is complete or absent, even if the process is killed.

    Raises OutputError, naming the file, where the disk does not take it.
    """
    text = json.dumps(record, indent=1, allow_nan=False) + "\n"
    with replaced(path) as file:
        file.write(text.encode())


def check_replaced(path: Path, key: str) -> None:
    """Raise ConfigError, naming ``key``, where the file that a record would replace is none, nor empty."""
    if not path.exists() or not path.stat().st_size:
        return
    with suppress(RecordError):
        found = read_json(path)
        if isinstance(found, dict) and "schema_version" in found:
            return
    raise ConfigError(
        f"{key} is {shown(str(path))}: this file is no record, and would be lost: name another, or remove it"
    )


def read(path: Path) -> dict[str, Any]:
    """A record in today's form. Raises RecordError, naming the file, as ``checked`` does.

    Of a record under ``results/cells`` the message says how to measure it again.
    """
    return read_both(path)[1]


def read_both(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record under the key names that it was written with, and in today's form, as by ``read``."""
    with saying_how_again(path):
        written = read_json(path)
        return written, checked(written, str(path))


@contextmanager
def saying_how_again(path: Path) -> Iterator[None]:
    """Add to a RecordError how to measure a workflow's record again."""
    try:
        yield
    except RecordError as error:
        raise RecordError(f"{error}{again(path)}") from error


def again(path: Path | str) -> str:
    """How to measure a workflow's record again, for the end of a message; empty of any other file."""
    of_workflow = ("results/cells/", "results/limits/", "results/microbenchmarks/")
    is_of_workflow = any(folder in Path(path).as_posix() for folder in of_workflow)
    return f": measure it again: snakemake --cores 1 --force {path}" if is_of_workflow else ""


def checked(record: Any, place: str) -> dict[str, Any]:
    """The record in today's form.

    Raises RecordError, naming the place, where the record was changed after it was written, has an unknown
    schema version, does not fit the schema, or disagrees with itself. Versions 2 and 3 have no digest.
    """
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version not in _READ:
        raise RecordError(
            f"{place}: the schema version is {schema.shown(version)}, "
            f"but this program reads 2 to {SCHEMA_VERSION}"
        )
    if version in _SEALED:
        digest.check(record, place)
    try:
        lifted = lift(record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"{place}: not a record of schema version {version}: {error!r}") from error
    schema.check("record", lifted, place)
    consistency.check(lifted, place)
    return lifted


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
    provenance = record.get("provenance", {})
    if "blas_threads" in provenance.get("versions", {}):  # the text of an environment variable
        versions = {**provenance["versions"]}
        threads = versions.pop("blas_threads")
        provenance = {**provenance, "versions": versions, "blas_threads": threads and int(threads)}
        record = {**record, "provenance": provenance}
    if "training" in cell:
        cell = record["cell"]
        record = {**record, "cell": {**cell, "training": {**_TRAINED, **cell["training"]}}}
    if isinstance(cell.get("network"), dict):
        cell = record["cell"]
        record = {**record, "cell": {**cell, "network": {**_NETWORK, **cell["network"]}}}
    if record.get("schema_version") == 2:  # every loss was the mean squared error
        runs = [{**run, "final_loss": run["final_mse"]} for run in record.get("runs", ())]
        summary = {**record["summary"], "mean_final_loss": record["summary"]["mean_final_mse"]}
        record = {**record, "schema_version": 3, "runs": runs, "summary": summary}
    return record
