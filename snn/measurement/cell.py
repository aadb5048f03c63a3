"""Measure one cell: from a checked configuration to a record."""

import gc
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from snn import backends, datasets
from snn.backends.base import Backend
from snn.config.groups import ROOT
from snn.config.sizes import check_memory
from snn.errors import ConfigError, OutOfMemory, Unsupported
from snn.grid import fingerprint
from snn.hardware.devices import check_cuda, choices, nvml_open, say_unused_gpu
from snn.hardware.locks import device_lock, in_turn
from snn.hardware.neighbours import Neighbours
from snn.hardware.sampling import state_before
from snn.measurement import provenance
from snn.measurement.accuracy import untrained_loss
from snn.measurement.busy_neighbour import beside
from snn.measurement.passes import job_of, measured
from snn.measurement.progress import Printer
from snn.measurement.protocol import of_round
from snn.measurement.record import build
from snn.measurement.runs import Measurement
from snn.models.gradients import PublishedNaive
from snn.profiling import nvtx
from snn.strategies.common import factory
from snn.strategies.common.job import Job


def run(config: Mapping[str, Any]) -> dict[str, Any]:
    """Measure the cell of a configuration of ``snn.config.compose.composed`` and return its record.

    Raises DataError, DeviceError or ConfigError before any training, and NeighbourError where the neighbour
    that the cell asks for was not at work all the time.
    """
    with nvml_open(config["device"]["backend"]):
        return _run(config)


def _run(config: Mapping[str, Any]) -> dict[str, Any]:
    devices = choices(**config["device"])
    device = devices[0]
    say_unused_gpu(config["device"]["backend"], device)
    cell = {**config, "device": {"backend": device.backend, "name": device.name}}
    data, output, number, instrument = (cell.pop(key) for key in ("data", "output", "round", "profile"))
    _check_ranges(cell, instrument)
    if number is None:  # all runs of the cell in this job
        number, cell["protocol"] = 1, {**cell["protocol"], "rounds": 1}
    source_hash = fingerprint.digest(fingerprint.of_cell(cell))  # of the files as they were imported
    table = datasets.make(cell["dataset"]) if data is None else datasets.kept(Path(data), cell["dataset"])
    check_memory(cell, table.values.shape)
    of_data = datasets.described(table, cell["dataset"])
    job, rules = job_of(cell, table), of_round(cell["protocol"], number)
    datasets.say_remarks(table)
    progress = Printer(cell, number, len(job.X), job.X.shape[1], output)
    with device_lock(*in_turn(devices, number)) as device, ExitStack() as stack:
        neighbours = Neighbours(device)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        clock = time.perf_counter()
        host = state_before(device)
        at_work: dict[str, Any] = {}
        untrained = None
        try:
            neighbour = stack.enter_context(beside(cell, device, devices, data))
            published = cell["training"]["gradient"] == PublishedNaive.name
            backend = backends.make(
                device.backend, cell["kernel"], ROOT, cell["precision"]["name"], published
            )
            check_cuda(device)
            neighbour.await_work()
        except Unsupported as error:
            measurement, profile_of_run = Measurement("unsupported", str(error)), None
            machine: dict[str, Any] = {"probe": {"before": {}, "after": {}}, "readings": []}
        else:
            gc.freeze()  # what is there stays: every timed run collects garbage first, and would look at it
            measurement, profile_of_run, machine = measured(
                job, rules, backend, device, progress, progress.of_run, progress.live, number
            )
            at_work = neighbour.account()
        # Under the lock as well: it takes the host's cores, and another measurement may wait for them.
        untrained = untrained_loss(job) if measurement.runs and not measurement.members else None
        elapsed = time.perf_counter() - clock
        busy = neighbours.uuids()
        if instrument != "none" and measurement.status in ("ok", "diverged"):
            _annotate(job, backend, *_ranges())
    described = provenance.describe(device) | {"started": started, "elapsed_seconds": elapsed}
    machine |= {"host": host, "neighbours": busy} | ({"neighbour": at_work} if at_work else {})
    return build(
        cell, number, measurement, profile_of_run, machine, described, source_hash, of_data, untrained
    )


def _check_ranges(cell: Mapping[str, Any], instrument: str) -> None:
    """Raise ConfigError if NVTX ranges are wanted, and there would be none."""
    if instrument == "none":
        return
    if cell["device"]["backend"] == "cpu":
        raise ConfigError(
            "profile=nvtx is for Nsight Systems, which shows CUDA devices: device=cpu has no ranges"
        )
    if factory.class_of(cell["strategy"]).own_runtime:
        raise ConfigError(
            f"profile=nvtx sees no call of {cell['strategy']['name']}, which has its own runtime"
        )


def _ranges() -> tuple[Callable[..., Any], Callable[[], Any]]:
    """What pushes and pops an NVTX range."""
    from cupy.cuda import nvtx as cupy_nvtx

    return cupy_nvtx.RangePush, cupy_nvtx.RangePop


def _annotate(job: Job, backend: Backend, push: Callable[..., Any], pop: Callable[[], Any]) -> None:
    """The pass with NVTX ranges; memory that has become too little for it does not cost what was measured."""
    try:
        nvtx.annotate(job, backend, push, pop)
    except OutOfMemory as error:
        print(f"snn: there are no NVTX ranges: {error}", file=sys.stderr)
