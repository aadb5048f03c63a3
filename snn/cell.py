"""One cell: from a checked configuration to its record."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snn import backends, datasets, provenance, records, sources, strategies
from snn.backends.base import Backend
from snn.choices import ROOT
from snn.devices import Device, find
from snn.errors import DeviceError, OutOfMemory, Unsupported
from snn.explain import Explanation, explain
from snn.fit import advice
from snn.lock import device_lock
from snn.machine import Watch, state_before
from snn.measure import Job, Measurement, Progress, Run, measure
from snn.network import Network
from snn.probe import probe
from snn.progress import Printer
from snn.protocol import of_round


def run(config: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the cell of a configuration of ``snn.config.composed`` and return its record.

    Raises DataError, DeviceError or ConfigError before any training.
    """
    device = _device(config["device"])
    cell = {**config, "device": {"backend": device.backend, "name": device.name}}
    data, output, number = (cell.pop(key) for key in ("data", "output", "round"))
    if number is None:  # all of its runs in this one job
        number, cell["protocol"] = 1, {**cell["protocol"], "rounds": 1}
    table = datasets.load(Path(data)) if data else datasets.make(cell["dataset"])
    job = _job(cell, number, table)
    progress = Printer(cell, number, len(job.X), job.X.shape[1], output)
    with device_lock(device):
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock = time.perf_counter()
        host = state_before(device)
        try:
            backend = backends.make(device.backend, cell["kernel"], ROOT, cell["precision"]["name"])
        except Unsupported as error:
            measurement, explanation = Measurement("unsupported", str(error)), None
            machine: dict[str, Any] = {"probe": {"before": {}, "after": {}}, "readings": []}
        else:
            measurement, explanation, machine = _measured(job, backend, device, progress)
        elapsed = time.perf_counter() - clock
    described = provenance.describe(device) | {"started": started, "elapsed_seconds": elapsed}
    files = tuple(sources.of_cell(cell))
    machine["host"] = host
    return records.build(cell, number, measurement, explanation, machine, described, sources.digest(files))


def _measured(
    job: Job, backend: Backend, device: Device, progress: Progress
) -> tuple[Measurement, Explanation | None, dict[str, Any]]:
    """What the job's measurement found, its explanation, and how the machine was meanwhile."""
    before, watch = _costs(backend), Watch(device)

    def after_run(runs: list[Run]) -> None:
        watch.after_run()
        progress(runs)

    measurement = measure(job, backend, after_run)
    explanation = None
    seen = not strategies.class_of(job.strategy).own_runtime
    if seen and measurement.status == "out_of_memory":
        measurement.reason = "; ".join(filter(None, (measurement.reason, _advice(job, backend))))
    elif seen and measurement.status != "unsupported":
        explanation = _explanation(job, backend)
    probes = {"before": before, "after": _costs(backend)}
    return measurement, explanation, {"probe": probes, "readings": watch.finish()}


def _costs(backend: Backend) -> dict[str, float]:
    """The probe's costs; none where the device is too full for it, which is the cell's outcome to tell."""
    try:
        return probe(backend)
    except OutOfMemory:
        return {}


def _advice(job: Job, backend: Backend) -> str:
    """Which batch would fit; nothing where the device is too full to say how it would be trained."""
    try:
        return advice(job, backend.memory()[0], backend)
    except (OutOfMemory, Unsupported):
        return ""


def _explanation(job: Job, backend: Backend) -> Explanation | None:
    """The explanation; memory that has become too little for it since does not cost what was measured."""
    try:
        return explain(job, backend)
    except OutOfMemory:
        return None


def _device(wanted: Mapping[str, Any]) -> Device:
    device = find(wanted["backend"])
    if wanted["name"] not in (None, device.name):
        raise DeviceError(
            f"device.name is {wanted['name']!r}, but this machine's {device.backend} device is "
            f"{device.name!r}: run the workflow again, so that it plans for this device"
        )
    return device


def _job(cell: Mapping[str, Any], number: int, table: Any) -> Job:
    training, network = cell["training"], cell["network"]
    X, Y = datasets.split(table, training["batch_size"], cell["dataset"]["name"])
    return Job(
        strategy=cell["strategy"],
        network=Network(
            layers=(X.shape[1], *network["hidden"], 1),
            init=network["init"],
            update_order=network["update_order"],
            clip_norm=network["clip_norm"],
        ),
        X=X,
        Y=Y,
        seed=network["seed"],
        **training,
        round=of_round(cell["protocol"], number),
    )
