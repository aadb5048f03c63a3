"""Measure one cell: from a checked configuration to a record."""

import gc
import math
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from snn import backends, datasets
from snn.backends.base import Backend
from snn.config.cell import Cell
from snn.config.groups import ROOT
from snn.config.sizes import check_memory
from snn.errors import ConfigError, OutOfMemory, Unsupported
from snn.files.outputs import note, say
from snn.grid import fingerprint
from snn.hardware.devices import check_cuda, choices, nvml_open, say_unused_gpu
from snn.hardware.locks import Neighbours, device_lock, in_turn
from snn.hardware.sampling import state_before
from snn.measurement import provenance
from snn.measurement.accuracy import Errors, untrained_loss
from snn.measurement.busy_neighbour import beside
from snn.measurement.passes import job_of, measured
from snn.measurement.progress import Printer
from snn.measurement.protocol import of_round
from snn.measurement.runs import Measurement, Run
from snn.models import saved, schedules, validation
from snn.models.gradients import PublishedNaive
from snn.models.losses import MEAN_SQUARED_ERROR
from snn.models.saved import SavedNetwork
from snn.profiling import nvtx
from snn.records.store import SCHEMA_VERSION, sealed
from snn.strategies import factory
from snn.strategies.factory import Job, traits


def run(config: Cell) -> dict[str, Any]:
    """Measure the cell of a configuration of ``snn.config.compose.composed`` and return its record. Raises
    DataError, DeviceError or ConfigError before any training, and NeighbourError."""
    record, trained = record_and_network(config)
    if trained:
        saved.write(Path(config["weights"]), trained)
    return record


def record_and_network(config: Cell) -> tuple[dict[str, Any], SavedNetwork | None]:
    """The record of ``run``, and the trained network, not yet written, if ``weights`` asks for it."""
    with nvml_open(config["device"]["backend"]):
        return _run(config)


def _run(config: Cell) -> tuple[dict[str, Any], SavedNetwork | None]:
    devices = choices(**config["device"])
    device = devices[0]
    say_unused_gpu(config["device"]["backend"], device)
    cell = config | {"device": {"backend": device.backend, "name": device.name}}
    keys = ("data", "output", "round", "weights", "profile")
    data, output, number, weights, instrument = (cell.pop(key) for key in keys)
    _check_ranges(cell, instrument)
    if number is None:  # all runs of the cell in this job
        number, cell["protocol"] = 1, {**cell["protocol"], "rounds": 1}
    source_hash = fingerprint.cell_sources(cell).digest  # of the files as they were imported
    table = load_table(cell, data)
    check_memory(cell, table.values.shape)
    described = datasets.described(table, cell["dataset"])
    if held := validation.count_rows(cell["training"], described["rows"]):
        described |= {"rows": described["rows"] - held, "validation_rows": held}
    validation.count_trained(cell, described["rows"])
    job = replace(job_of(cell, table), keeps_weights=weights is not None)
    datasets.say_remarks(table)
    if remark := schedules.remark(job.network.optimizer.schedule, job.steps):
        note(remark)
    progress = Printer(cell, number, len(job.X), job.X.shape[1], output)
    count = factory.device_count(cell["strategy"], len(devices))
    candidates = in_turn(devices, number) if count == 1 else devices[:count]
    with device_lock(*candidates, count=count) as device, ExitStack() as stack:
        own = [device] if count == 1 else candidates
        neighbours = Neighbours(*own)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock = time.perf_counter()
        host = state_before(device)
        machine: dict[str, Any] = {"probe": {"before": {}, "after": {}}, "readings": []}
        explanation = untrained = trained = None
        try:
            neighbour = stack.enter_context(beside(cell, device, devices, data))
            backend = make_backend(cell)
            check_cuda(device)
            if neighbour:
                neighbour.await_work()
        except Unsupported as error:
            measurement = Measurement("unsupported", str(error))
        else:
            gc.freeze()  # timed runs collect garbage first, and need not look at existing objects
            rules = of_round(cell["protocol"], number)
            measurement, explanation, machine = measured(job, rules, backend, device, progress, number)
            if neighbour:
                machine["neighbour"] = neighbour.account()
            if measurement.weights:
                trained = SavedNetwork(job.network, measurement.weights, table.columns, dict(cell))
            elif weights:
                say(f"snn: warning: weights={weights} is not written: {measurement.reason}", sys.stderr)
        # Under the lock as well: it takes the host's cores, and another measurement may wait for them.
        if measurement.runs and not measurement.members:
            untrained = untrained_loss(job)
        elapsed = time.perf_counter() - clock
        machine |= {"host": host, "neighbours": neighbours.uuids()}
        if count > 1:
            machine["gpus"] = [one.uuid for one in own]
        if instrument != "none" and measurement.status in ("ok", "diverged"):
            _annotate(job, backend)
    source = {"started": started, "elapsed_seconds": elapsed, "source_hash": source_hash}
    where = provenance.describe(device) | source
    record = build_record(cell, number, measurement, explanation, machine, where, described, untrained)
    return record, trained


def load_table(cell: Cell, data: str | None) -> datasets.Table:
    """A cell's data set, or the prepared copy of it at this path."""
    return datasets.make(cell["dataset"]) if data is None else datasets.kept(Path(data), cell["dataset"])


def make_backend(cell: Cell) -> Backend:
    published = cell.gradient == PublishedNaive.name
    precision = cell.precision
    return backends.make(cell.device.backend, cell["kernel"], ROOT, precision, published)


def _check_ranges(cell: Cell, instrument: str) -> None:
    """Raise ConfigError if NVTX ranges are wanted, and there would be none."""
    if instrument == "none":
        return
    if cell.device.backend == "cpu":
        raise ConfigError("profile=nvtx is for Nsight Systems, which shows CUDA devices, not device=cpu")
    if factory.class_of(cell["strategy"]).own_runtime:
        raise ConfigError(f"profile=nvtx sees no call of {cell['strategy']['name']}: it has its own runtime")


def _annotate(job: Job, backend: Backend) -> None:
    """The pass with NVTX ranges; if it runs out of memory, the measurement is kept."""
    from cupy.cuda import nvtx as ranges

    try:
        nvtx.annotate(job, backend, ranges.RangePush, ranges.RangePop)
    except OutOfMemory as error:
        print(f"snn: no NVTX ranges: {error}", file=sys.stderr)


# ---- the record


def build_record(
    cell: Cell,
    number: int,
    measurement: Measurement,
    explanation: Mapping[str, Any] | None,
    machine: Mapping[str, Any],
    provenance: Mapping[str, Any],
    data: Mapping[str, Any],
    untrained: float | None = None,
) -> dict[str, Any]:
    """Everything that the tables need of one cell, as JSON values, with a digest of it all.

    ``data`` describes the table that was trained on (``snn.datasets.described``), ``untrained`` is the
    network's loss before training. NaN and infinity become null.
    """
    squared = cell["network"].get("loss", MEAN_SQUARED_ERROR.name) == MEAN_SQUARED_ERROR.name
    found = vars(measurement).copy()
    setup_seconds, members, warmup = found.pop("setup_seconds"), measurement.members, measurement.warmup
    del found["weights"]
    if not members:
        del found["best_member"]
    for key in ("joules", "allocator"):
        if not found[key]:
            del found[key]
    patience = cell["training"].get("patience")
    runs = [_plain(run, squared, bool(members), patience) for run in measurement.runs]
    record = {
        "schema_version": SCHEMA_VERSION,
        **found,
        "cell": dict(cell),
        "data": dict(data),
        "traits": traits(cell["strategy"]),
        "round": number,
        "runs": runs,
        "untrained_loss": _finite(untrained),
        "summary": _summary(runs, len(members), setup_seconds, squared),
        "warmup": warmup and warmup._asdict(),
        "explanation": explanation,
        "machine": dict(machine),
        "provenance": dict(provenance),
    }
    return sealed(record)


def _plain(run: Run, squared: bool, several: bool, patience: int | None) -> dict[str, Any]:
    """One run as JSON values; with several networks per launch, also the loss of each."""
    plain: dict[str, Any] = {"seconds": run.seconds, "final_loss": _finite(run.final_loss)}
    if squared:
        plain["final_mse"] = plain["final_loss"]
    if run.epochs:
        plain["epochs"] = [
            {"seconds": epoch.seconds, "mean_loss": _finite(epoch.mean_loss)} for epoch in run.epochs
        ]
    if run.validation_seconds is not None:
        losses = [_finite(epoch.validation_loss) for epoch in run.epochs]
        for epoch, loss in zip(plain["epochs"], losses, strict=True):
            epoch["validation_loss"] = loss
        best = validation.best_epoch(losses)
        kept = _mean([_finite(end.validation_loss) for end in run.ends])
        plain |= {
            "validation_loss": kept if several else losses[best - 1 if best and patience else -1],
            "validation_seconds": run.validation_seconds,
            "best_epoch": best,
        }
    if run.test_accuracy is not None:
        plain |= {"test_accuracy": run.test_accuracy, "test_seconds": run.test_seconds}
    if run.test_errors is not None:
        plain |= {f"test_{key}": _finite(value) for key, value in run.test_errors._asdict().items()}
    return plain | ({"member_mse": list(map(_finite, run.losses))} if several else {})


def _summary(
    runs: Sequence[Mapping[str, Any]], members: int, setup_seconds: float | None, squared: bool
) -> dict[str, float | int | None]:
    """The summary of a round's runs, as JSON values. A mean is null without runs, or if it is not finite."""
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
    tested = ("validation_loss", "test_accuracy", *(f"test_{key}" for key in Errors._fields))
    summary |= {f"mean_{key}": _mean([run[key] for run in runs]) for key in tested if key in runs[0]}
    return summary | ({"members": members, "mean_seconds_per_member": mean / members} if members else {})


def _mean(values: Sequence[float | None]) -> float | None:
    given = [value for value in values if value is not None]
    return _finite(fmean(given)) if given and None not in values else None


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
