"""The passes over one job, from its data to its last reading: probe, count, timed runs, profile."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np

from snn import datasets
from snn.backends.base import Backend
from snn.errors import ConfigError, OutOfMemory, Unsupported
from snn.hardware.devices import Device
from snn.hardware.sampling import Sample, Sampler, energy_counter
from snn.measurement.protocol import Round
from snn.measurement.runs import Measurement, Run, measure
from snn.models import network as networks
from snn.models import validation
from snn.models.network import Network
from snn.profiling.profile import profile
from snn.profiling.rehearsal import advice
from snn.strategies import factory
from snn.strategies.factory import Job, Test

T = TypeVar("T")

_NAMED = 12

_EXPLAINED = {"cuda": 3, "cpu": 1}
"""Rounds that end with a profile, by backend. Tables show the median of them; in further rounds it only takes
time, on a CPU more than the runs of a small network."""

_SIDE = 256  # a matrix of the paper's step: 256 x 256 float32, 256 KiB
_ALLOCATED = 4 << 20  # bytes: more than a driver's page, so that it maps memory each time
_REPEATS = 15


def job_of(cell: Mapping[str, Any], table: datasets.Table) -> Job:
    """The training job of a cell on its data set's table. Raises ConfigError or DataError on a mismatch."""
    training, name = cell["training"], cell["dataset"]["name"]
    batch_size = training["batch_size"]
    learned, tested = datasets.parts(table.values, cell["dataset"])
    X, Y = datasets.split(learned, batch_size, name, 0 if tested is None else len(tested))
    network = networks.trained(cell, tuple(cell["dataset"].get("shape", X.shape[1:])))
    _check_task(cell, network, table.facts)
    held_out = None
    if held := validation.count_rows(training, len(X)):
        of_held = np.ascontiguousarray(X[-held:]), np.ascontiguousarray(Y[-held:])
        held_out = of_held[0], network.loss.targets(of_held[1], network.outputs)
        X, Y = X[:-held], Y[:-held]
    test, is_classification = None, network.loss.is_classification
    if tested is not None and (is_classification or "held_out" in cell["dataset"]):  # not labels as numbers
        network.loss.targets(tested[:, -1:], network.outputs)  # rejects labels without an output
        rows = _whole(len(tested), batch_size) if training["drop_last"] else len(tested)
        targets = tested[:rows, -1].astype(np.int64 if is_classification else np.float32)
        unit = table.facts.get("target_scale", 1.0)
        test = Test(np.ascontiguousarray(tested[:rows, :-1]), targets, unit)
    if training["drop_last"]:
        X, Y = (matrix[: _whole(len(matrix), batch_size)] for matrix in (X, Y))
    return Job(
        strategy=cell["strategy"],
        network=network,
        X=X,
        Y=network.loss.targets(Y, network.outputs),
        seed=cell["network"]["seed"],
        epochs=training["epochs"],
        batch_size=batch_size,
        learning_rate=training["learning_rate"],
        test=test if test and len(test.X) else None,
        validation=held_out,
        patience=training.get("patience"),
    )


def _check_task(cell: Mapping[str, Any], network: Network, facts: Mapping[str, Any]) -> None:
    """Raise ConfigError if a table was made for another loss, or has more classes than outputs."""
    task, classes = cell["dataset"].get("task"), facts.get("classes", [])
    if task not in (None, network.loss.task):
        raise ConfigError(
            f"dataset.task is {task}, but the network learns a {network.loss.task}, since its loss is "
            f"{network.loss.name}: leave dataset.task out"
        )
    if len(classes) > network.loss.classes(network.outputs):
        named = ", ".join(classes[:_NAMED]) + (", ..." if len(classes) > _NAMED else "")
        raise ConfigError(
            f"{cell['dataset'].get('path', 'the data set')} has {len(classes)} classes ({named}), but "
            f"network.layers end in {network.outputs} outputs: end them in linear {len(classes)}"
        )


def _whole(rows: int, batch_size: int) -> int:
    return rows // batch_size * batch_size


class Progress(Protocol):
    """Callbacks of a measurement: after each run, during a long one, and with samples of the machine."""

    def __call__(self, runs: list[Run]) -> None: ...

    def of_run(self, done: float, epochs: int, seconds: float) -> None: ...

    def live(self, sample: Sample, limits: Mapping[str, Any]) -> None: ...


def measured(
    job: Job, rules: Round, backend: Backend, device: Device, progress: Progress, number: int
) -> tuple[Measurement, dict[str, Any] | None, dict[str, Any]]:
    """The measurement of a job in the round of this number, its profile, and the machine's state meanwhile.

    The measurement is kept even if the probe, the advice or the profile runs out of device memory.
    """
    with Sampler(device, progress.live) as sampler, energy_counter(device) as joules:
        before, profile_of_run = _unless_full(lambda: probe(backend)) or {}, None

        def after_run(runs: list[Run]) -> None:
            sampler.after_run()
            progress(runs)

        kind = factory.class_of(job.strategy)
        is_asked = rules.energy and not kind.several_devices  # the counter is one GPU's
        measurement = measure(job, rules, backend, after_run, progress.of_run, joules if is_asked else None)
        seen = not kind.own_runtime
        explained = seen and not kind.several_devices
        if seen and measurement.status == "out_of_memory":
            fits = _unless_full(lambda: advice(job, backend.memory()[0], backend), Unsupported)
            measurement.reason = "; ".join(filter(None, (measurement.reason, fits)))
        elif explained and number <= _EXPLAINED[device.backend] and measurement.status != "unsupported":
            profile_of_run = _unless_full(lambda: profile(job, backend, rules.max_warmup_seconds))
        probes = {"before": before, "after": _unless_full(lambda: probe(backend)) or {}}
        readings = sampler.readings()
    windows = [
        (run.began, run.began + run.seconds + (run.validation_seconds or 0)) for run in measurement.runs
    ]
    machine = {"probe": probes, "readings": readings, "samples": sampler.samples(windows)}
    return measurement, profile_of_run, machine


def _unless_full(do: Callable[[], T], *errors: type[Exception]) -> T | None:
    """The result of ``do``; None if it runs out of device memory or raises one of these errors."""
    expected: tuple[type[Exception], ...] = (OutOfMemory, *errors)
    try:
        return do()
    except expected:
        return None


def probe(backend: Backend) -> dict[str, float]:
    """Median microseconds of an allocation, a copy to the device, a launch, and a 256 x 256 product.

    It reveals drift over time, and frees what it allocates, even on errors. The allocation has 4 MiB: a small
    block costs a tenth of that if the process (PyTorch, for example) has a partly used page.
    """
    matrix = np.ones((_SIDE, _SIDE), dtype=np.float32)
    costs = {"malloc_us": _median(backend, lambda: backend.free(backend.malloc(_ALLOCATED)))}
    buffers = []
    try:
        for _ in range(3):
            buffers.append(backend.malloc(matrix.nbytes))
        A, B, C = buffers
        backend.copy_in(A, matrix)
        backend.copy_in(B, matrix)
        costs["copy_us"] = _median(backend, lambda: backend.copy_in(A, matrix))
        costs["launch_us"] = _median(backend, lambda: backend.launch("matmul", (A, B, C), (1, 1, 1)))
        costs["product_us"] = _median(backend, lambda: backend.launch("matmul", (A, B, C), 3 * (_SIDE,)))
        return costs
    finally:
        for buffer in buffers:
            backend.free(buffer)


def _median(backend: Backend, call: Callable[[], None]) -> float:
    seconds = []
    for _ in range(_REPEATS + 1):
        started = time.perf_counter()
        call()
        backend.synchronize()
        seconds.append(time.perf_counter() - started)
    return 1e6 * float(np.median(seconds[1:]))  # the first call includes lazy loading
