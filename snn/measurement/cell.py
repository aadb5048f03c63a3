"""One cell: from a checked configuration to its record."""

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
from snn.models.network import Network
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
    if number is None:  # all of its runs in this one job
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
    files = tuple(fingerprint.of_cell(cell))
    machine["host"] = host
    return build(cell, number, measurement, profile_of_run, machine, described, fingerprint.digest(files))


def _measured(
    job: Job, rules: Round, backend: Backend, device: Device, progress: Progress
) -> tuple[Measurement, Profile | None, dict[str, Any]]:
    """What the job's measurement found, its profile, and how the machine was meanwhile."""
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
            f"{device.name!r}: run the workflow again, so that it plans for this device"
        )
    return device


def job_of(cell: Mapping[str, Any], table: Any) -> Job:
    """What a cell trains, on the data set's table."""
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
    )
