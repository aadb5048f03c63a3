"""A record: the JSON file that a cell leaves, complete or not there at all."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snn.errors import RecordError

if TYPE_CHECKING:
    from snn.explain import Explanation
    from snn.measure import Measurement, Run

SCHEMA_VERSION = 2


def build(
    cell: Mapping[str, Any],
    number: int,
    measurement: "Measurement",
    explanation: "Explanation | None",
    machine: Mapping[str, Any],
    provenance: Mapping[str, Any],
    source_hash: str,
) -> dict[str, Any]:
    """Everything that the tables need of one cell, as plain JSON values; NaN and infinity become null."""
    return {
        "schema_version": SCHEMA_VERSION,
        "status": measurement.status,
        "reason": measurement.reason,
        "cell": dict(cell),
        "round": number,
        "runs": [_plain(run, bool(measurement.members)) for run in measurement.runs],
        "members": measurement.members,
        "plan": measurement.plan,
        "summary": _summary(measurement),
        "ledger": measurement.ledger,
        "pageable_fallbacks": measurement.pageable_fallbacks,
        "stopped": measurement.stopped,
        "warmup": asdict(measurement.warmup) if measurement.warmup else None,
        "memory": measurement.memory,
        "explanation": explanation.plain() if explanation else None,
        "machine": dict(machine),
        "provenance": {**provenance, "source_hash": source_hash},
    }


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


def _plain(run: "Run", several: bool) -> dict[str, Any]:
    """A run as measured: of several networks in one launch, the launch's seconds and the loss of each."""
    plain: dict[str, Any] = {"seconds": run.seconds, "final_mse": _finite(run.final_mse)}
    return plain | ({"member_mse": list(map(_finite, run.losses))} if several else {})


def _summary(measurement: "Measurement") -> dict[str, float | int | None]:
    seconds = np.array([run.seconds for run in measurement.runs])
    errors = np.array([run.final_mse for run in measurement.runs])
    if not len(seconds):
        return {"runs": 0, "mean_seconds": None, "std_seconds": None, "mean_final_mse": None}
    return {
        "runs": len(seconds),
        "mean_seconds": float(seconds.mean()),
        "std_seconds": float(seconds.std(ddof=1)) if len(seconds) > 1 else None,
        "median_seconds": float(np.median(seconds)),
        "min_seconds": float(seconds.min()),
        "max_seconds": float(seconds.max()),
        "setup_seconds": measurement.setup_seconds,
        "mean_final_mse": _finite(float(errors.mean())),
    } | _shared(float(seconds.mean()), len(measurement.members))


def _shared(launch_seconds: float, members: int) -> dict[str, float | int | None]:
    """Where a run trains several networks: how many, and what share of its mean seconds is one network's."""
    return {"members": members, "mean_seconds_per_member": launch_seconds / members} if members else {}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
