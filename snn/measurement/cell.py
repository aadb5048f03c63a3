"""Measure one cell: from a checked configuration to a record."""

import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snn import backends, datasets
from snn.backends.base import Backend
from snn.config.groups import ROOT
from snn.errors import ConfigError, DeviceError, OutOfMemory, Unsupported
from snn.grid import fingerprint
from snn.hardware.devices import Device, find
from snn.hardware.locks import device_lock
from snn.hardware.monitor import Watch, state_before
from snn.measurement import provenance
from snn.measurement.probe import probe
from snn.measurement.progress import Printer
from snn.measurement.protocol import Round, of_round
from snn.measurement.record import build
from snn.measurement.runs import Measurement, Progress, Run, measure
from snn.models import network as networks
from snn.profiling import nvtx
from snn.profiling.batch_fit import advice
from snn.profiling.profile import Profile, profile
from snn.strategies.common import factory
from snn.strategies.common.job import Job


def run(config: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the cell of a configuration of ``snn.config.compose.composed`` and return its record.

    Raises DataError, DeviceError or ConfigError before any training.
    """
    device = _device(config["device"])
    cell = {**config, "device": {"backend": device.backend, "name": device.name}}
    data, output, number, instrument = (cell.pop(key) for key in ("data", "output", "round", "profile"))
    ranges = _ranges(cell, instrument)
    if number is None:  # all runs of the cell in this job
        number, cell["protocol"] = 1, {**cell["protocol"], "rounds": 1}
    table = datasets.load(Path(data)) if data else datasets.make(cell["dataset"])
    job, rules = job_of(cell, table), of_round(cell["protocol"], number)
    progress = Printer(cell, number, len(job.X), job.X.shape[1], output)
    with device_lock(device):
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock = time.perf_counter()
        host = state_before(device)
        try:
            backend = backends.make(device.backend, cell["kernel"], ROOT, cell["precision"]["name"])
        except Unsupported as error:
            measurement, profile_of_run = Measurement("unsupported", str(error)), None
            machine: dict[str, Any] = {"probe": {"before": {}, "after": {}}, "readings": []}
        else:
            measurement, profile_of_run, machine = _measured(job, rules, backend, device, progress)
        elapsed = time.perf_counter() - clock
        if ranges is not None and measurement.status in ("ok", "diverged"):
            _annotate(job, backend, *ranges)
    described = provenance.describe(device) | {"started": started, "elapsed_seconds": elapsed}
    source_hash = fingerprint.digest(fingerprint.of_cell(cell))
    machine["host"] = host
    return build(cell, number, measurement, profile_of_run, machine, described, source_hash)


def _measured(
    job: Job, rules: Round, backend: Backend, device: Device, progress: Progress
) -> tuple[Measurement, Profile | None, dict[str, Any]]:
    """The measurement of a job, its profile, and the state of the machine meanwhile."""
    before, watch = _costs(backend), Watch(device)

    def after_run(runs: list[Run]) -> None:
        watch.after_run()
        progress(runs)

    measurement = measure(job, rules, backend, after_run)
    profile_of_run = None
    seen = not factory.class_of(job.strategy).own_runtime
    if seen and measurement.status == "out_of_memory":
        measurement.reason = "; ".join(filter(None, (measurement.reason, _advice(job, backend))))
    elif seen and measurement.status != "unsupported":
        profile_of_run = _profile(job, backend, rules.max_warmup_seconds)
    probes = {"before": before, "after": _costs(backend)}
    return measurement, profile_of_run, {"probe": probes, "readings": watch.finish()}


def _costs(backend: Backend) -> dict[str, float]:
    """The probe's costs; empty if the device's memory is too full, which the cell's status will say."""
    try:
        return probe(backend)
    except OutOfMemory:
        return {}


def _advice(job: Job, backend: Backend) -> str:
    """Which batch size would fit; empty if there is not enough memory to find out."""
    try:
        return advice(job, backend.memory()[0], backend)
    except (OutOfMemory, Unsupported):
        return ""


def _profile(job: Job, backend: Backend, max_seconds: float) -> Profile | None:
    """The profile; memory that has become too little for it since does not cost what was measured."""
    try:
        return profile(job, backend, max_seconds)
    except OutOfMemory:
        return None


def _ranges(cell: Mapping[str, Any], instrument: str) -> tuple[Callable[..., Any], Callable[[], Any]] | None:
    """What pushes and pops an NVTX range, if ranges are wanted. Raises ConfigError if there would be none."""
    if instrument == "none":
        return None
    if cell["device"]["backend"] == "cpu":
        raise ConfigError(
            "profile=nvtx is for Nsight Systems, which shows CUDA devices: device=cpu has no ranges"
        )
    if factory.class_of(cell["strategy"]).own_runtime:
        raise ConfigError(
            f"profile=nvtx sees no call of {cell['strategy']['name']}, which has its own runtime"
        )
    from cupy.cuda import nvtx as cupy_nvtx

    return cupy_nvtx.RangePush, cupy_nvtx.RangePop


def _annotate(job: Job, backend: Backend, push: Callable[..., Any], pop: Callable[[], Any]) -> None:
    """The pass with NVTX ranges; memory that has become too little for it does not cost what was measured."""
    try:
        nvtx.annotate(job, backend, push, pop)
    except OutOfMemory as error:
        print(f"snn: there are no NVTX ranges: {error}", file=sys.stderr)


def _device(wanted: Mapping[str, Any]) -> Device:
    device = find(wanted["backend"])
    if wanted["name"] not in (None, device.name):
        raise DeviceError(
            f"device.name is {wanted['name']!r}, but this machine's {device.backend} device is "
            f"{device.name!r}: run the workflow again, so that it is planned for this device"
        )
    return device


def job_of(cell: Mapping[str, Any], table: Any) -> Job:
    """What a cell trains, on the data set's table."""
    training = cell["training"]
    X, Y = datasets.split(table, training["batch_size"], cell["dataset"]["name"])
    network = networks.build(cell["network"], tuple(cell["dataset"].get("shape", X.shape[1:])))
    return Job(
        strategy=cell["strategy"],
        network=network,
        X=X,
        Y=network.loss.targets(Y, network.outputs),
        seed=cell["network"]["seed"],
        **training,
    )
