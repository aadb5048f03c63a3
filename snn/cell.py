"""One cell: from a checked configuration to its record."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snn import backends, datasets, provenance, records, sources
from snn.attribution import Attribution, attribute
from snn.backends.base import Backend
from snn.choices import ROOT
from snn.devices import Device, find
from snn.errors import DeviceError, OutOfMemory
from snn.lock import device_lock
from snn.machine import Watch, host_state
from snn.measure import Job, Run, measure
from snn.network import Network
from snn.probe import probe
from snn.progress import Printer


def run(config: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the cell of a configuration of ``snn.config.composed`` and return its record.

    Raises DataError, DeviceError or ConfigError before any training.
    """
    device = _device(config["device"])
    cell = {**config, "device": {"backend": device.backend, "name": device.name}}
    data, output = cell.pop("data"), cell.pop("output")
    table = datasets.load(Path(data)) if data else datasets.make(cell["dataset"])
    job = _job(cell, table)
    progress = Printer(cell, len(job.X), job.X.shape[1], output)
    with device_lock(device):
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock = time.perf_counter()
        backend = backends.make(device.backend, cell["kernel"], ROOT)
        host, before, watch = host_state(), probe(backend), Watch(device)

        def after_run(runs: list[Run]) -> None:
            watch.after_run()
            progress(runs)

        measurement = measure(job, backend, after_run)
        parts = _parts(job, backend) if measurement.status != "out_of_memory" else None
        machine = {
            "host": host,
            "probe": {"before": before, "after": probe(backend)},
            "readings": watch.finish(),
        }
        elapsed = time.perf_counter() - clock
    described = provenance.describe(device) | {"started": started, "elapsed_seconds": elapsed}
    files = tuple(sources.of_cell(cell))
    return records.build(cell, measurement, parts, machine, described, sources.digest(files))


def _parts(job: Job, backend: Backend) -> Attribution | None:
    """The attribution; memory that has become too little for it since does not cost what was measured."""
    try:
        return attribute(job, backend)
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


def _job(cell: Mapping[str, Any], table: Any) -> Job:
    training, protocol, network = cell["training"], cell["protocol"], cell["network"]
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
        **protocol,
    )
