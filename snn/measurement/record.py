"""Build the record of a measured cell."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median, stdev
from typing import Any

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
    members = len(measurement.members)
    runs = [_plain(run, squared, bool(members)) for run in measurement.runs]
    record = {
        "schema_version": SCHEMA_VERSION,
        "status": measurement.status,
        "reason": measurement.reason,
        "cell": dict(cell),
        "data": dict(data),
        "traits": traits(cell["strategy"]),
        "round": number,
        "runs": runs,
        "members": measurement.members,
        "plan": measurement.plan,
        "untrained_loss": _finite(untrained),
        "summary": _summary(runs, members, measurement.setup_seconds, squared),
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


def _summary(
    runs: Sequence[Mapping[str, Any]], members: int, setup_seconds: float | None, squared: bool
) -> dict[str, float | int | None]:
    """The summary of a round's runs, as JSON values. A mean is null if it is of no run, or not finite."""
    seconds = [run["seconds"] for run in runs]
    mean = _mean(seconds)
    summary: dict[str, float | int | None] = {
        "runs": len(runs),
        "mean_seconds": mean,
        "std_seconds": stdev(seconds) if len(runs) > 1 else None,
        "mean_final_loss": _mean([run["final_loss"] for run in runs]),
    }
    if squared:
        summary["mean_final_mse"] = summary["mean_final_loss"]
    if mean is None:
        return summary
    summary |= {"median_seconds": median(seconds), "min_seconds": min(seconds), "max_seconds": max(seconds)}
    summary["setup_seconds"] = setup_seconds
    tested = ("test_accuracy", *(f"test_{key}" for key in Errors._fields))
    summary |= {f"mean_{key}": _mean([run[key] for run in runs]) for key in tested if key in runs[0]}
    return summary | ({"members": members, "mean_seconds_per_member": mean / members} if members else {})


def _mean(values: Sequence[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return _finite(fmean(given)) if given and len(given) == len(values) else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
