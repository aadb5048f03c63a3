"""Build the record of a measured cell."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from snn.measurement.accuracy import Errors
from snn.measurement.runs import Measurement, Run
from snn.models.losses import MEAN_SQUARED_ERROR
from snn.profiling.profile import Profile
from snn.records.digest import sealed
from snn.records.store import SCHEMA_VERSION
from snn.strategies.common.traits import traits


def build(
    cell: Mapping[str, Any],
    number: int,
    measurement: Measurement,
    profile: Profile | None,
    machine: Mapping[str, Any],
    provenance: Mapping[str, Any],
    source_hash: str,
    data: Mapping[str, Any],
    untrained: float | None = None,
) -> dict[str, Any]:
    """Everything that the tables need of one cell, as JSON values, with a digest of it all.

    ``data`` describes the table that was trained on (``snn.datasets.described``), ``untrained`` is the loss
    of a network before it is trained on it. NaN and infinity become null.
    """
    squared = cell["network"].get("loss", MEAN_SQUARED_ERROR.name) == MEAN_SQUARED_ERROR.name
    record = {
        "schema_version": SCHEMA_VERSION,
        "status": measurement.status,
        "reason": measurement.reason,
        "cell": dict(cell),
        "data": dict(data),
        "traits": traits(cell["strategy"]),
        "round": number,
        "runs": [_plain(run, squared, bool(measurement.members)) for run in measurement.runs],
        "members": measurement.members,
        "plan": measurement.plan,
        "untrained_loss": _finite(untrained),
        "summary": _summary(measurement, squared),
        "ledger": measurement.ledger,
        "pageable_fallbacks": measurement.pageable_fallbacks,
        "stopped": measurement.stopped,
        "warmup": asdict(measurement.warmup) if measurement.warmup else None,
        "memory": measurement.memory,
        "explanation": profile.plain() if profile else None,
        "machine": dict(machine),
        "provenance": {**provenance, "source_hash": source_hash},
    }
    return sealed(record)


def _plain(run: Run, squared: bool, several: bool) -> dict[str, Any]:
    """One run as JSON values; with several networks per launch, also the loss of each."""
    plain: dict[str, Any] = {"seconds": run.seconds, "final_loss": _finite(run.final_loss)}
    if squared:
        plain["final_mse"] = plain["final_loss"]
    if run.epochs:
        plain["epochs"] = [
            {"seconds": epoch.seconds, "mean_loss": _finite(epoch.mean_loss)} for epoch in run.epochs
        ]
    if run.test_accuracy is not None:
        plain |= {"test_accuracy": run.test_accuracy, "test_seconds": run.test_seconds}
    if run.test_errors is not None:
        plain |= {f"test_{key}": _finite(value) for key, value in run.test_errors._asdict().items()}
    return plain | ({"member_mse": list(map(_finite, run.losses))} if several else {})


def _summary(measurement: Measurement, squared: bool) -> dict[str, float | int | None]:
    seconds = np.array([run.seconds for run in measurement.runs])
    errors = np.array([run.final_loss for run in measurement.runs])
    if not len(seconds):
        none: dict[str, float | int | None] = {
            "runs": 0,
            "mean_seconds": None,
            "std_seconds": None,
            "mean_final_loss": None,
        }
        return none | ({"mean_final_mse": None} if squared else {})
    loss = _finite(float(errors.mean()))
    summary = {
        "runs": len(seconds),
        "mean_seconds": float(seconds.mean()),
        "std_seconds": float(seconds.std(ddof=1)) if len(seconds) > 1 else None,
        "median_seconds": float(np.median(seconds)),
        "min_seconds": float(seconds.min()),
        "max_seconds": float(seconds.max()),
        "setup_seconds": measurement.setup_seconds,
        "mean_final_loss": loss,
    }
    if squared:
        summary["mean_final_mse"] = loss
    accuracies = [run.test_accuracy for run in measurement.runs if run.test_accuracy is not None]
    if accuracies:
        summary["mean_test_accuracy"] = float(np.mean(accuracies))
    tested = [run.test_errors for run in measurement.runs if run.test_errors is not None]
    for key in Errors._fields if tested else ():
        values = [getattr(one, key) for one in tested]
        summary[f"mean_test_{key}"] = None if None in values else _finite(float(np.mean(values)))
    return summary | _shared(float(seconds.mean()), len(measurement.members))


def _shared(launch_seconds: float, members: int) -> dict[str, float | int | None]:
    """For launches that train several networks: how many, and the mean seconds per network."""
    return {"members": members, "mean_seconds_per_member": launch_seconds / members} if members else {}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
