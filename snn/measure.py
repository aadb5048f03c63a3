"""Trains a network as a protocol says: what was done, counted once untimed; how long it took, run by run."""

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from snn import strategies
from snn.backends.base import Backend
from snn.errors import OutOfMemory
from snn.glibc_random import GlibcRandom
from snn.ledger import CountingBackend
from snn.network import Network, draw_weights
from snn.strategies.base import Strategy

_COUNTED_EPOCHS = 3


@dataclass(frozen=True)
class Run:
    """One training from fresh weights: wall-clock seconds of its epochs, and the loss of its last batch."""

    seconds: float
    final_mse: float


@dataclass
class Measurement:
    """What a cell's measurement found. ``status`` is ok, diverged or out_of_memory, with its reason."""

    status: str = "ok"
    reason: str | None = None
    stopped: str | None = None
    runs: list[Run] = field(default_factory=list)
    ledger: dict[str, int] = field(default_factory=dict)
    setup_seconds: float | None = None
    pageable_fallbacks: int = 0


@dataclass(frozen=True)
class Job:
    """What to train and how often: plain values of a checked configuration, and the data."""

    strategy: Mapping[str, Any]
    network: Network
    X: np.ndarray
    Y: np.ndarray
    seed: int
    epochs: int
    batch_size: int
    learning_rate: float
    runs: int
    min_runs: int
    max_seconds: float | None
    warmup: int
    warmup_seconds: float


Progress = Callable[[list[Run]], None]


def measure(job: Job, backend: Backend, progress: Progress = lambda runs: None) -> Measurement:
    """Count one run, then time the runs of the protocol. Raises LeakError where something is not freed.

    A run's time is that of its epochs, up to the point where the device has finished: not the setup,
    the drawing of weights or the reading of the loss.
    """
    measurement = Measurement()
    try:
        with np.errstate(all="ignore"):  # a diverging run is an outcome, and says so by its loss
            measurement.ledger = count(job, backend)
            _time_runs(job, backend, measurement, progress)
    except OutOfMemory as error:
        measurement.status, measurement.reason = "out_of_memory", str(error)
    measurement.pageable_fallbacks = backend.pageable_fallbacks
    lost = [i + 1 for i, run in enumerate(measurement.runs) if not np.isfinite(run.final_mse)]
    if lost and measurement.status == "ok":
        measurement.status = "diverged"
        measurement.reason = (
            f"the loss is not finite after {job.epochs} epochs in {len(lost)} of {len(measurement.runs)} runs"
        )
    return measurement


def count(job: Job, backend: Backend) -> dict[str, int]:
    """The ledger of one run with its setup, exact, in an untimed pass over the first epochs.

    Where the second and third epoch do the same, so do all after them, since what a strategy does depends
    on shapes alone: the second epoch's counts stand for the rest. Otherwise every epoch is run.
    """
    counting = CountingBackend(backend)
    strategy = start(job, counting)
    try:
        strategy.load(draw_weights(job.network, GlibcRandom(job.seed)))
        snapshots = []
        for _ in range(min(job.epochs, _COUNTED_EPOCHS)):
            strategy.epoch()
            snapshots.append(counting.ledger.totals())
        remaining = job.epochs - len(snapshots)
        repeated: dict[str, int] = {}
        if remaining:
            second, third = (_difference(snapshots[i], snapshots[i - 1]) for i in (1, 2))
            if second == third:
                repeated = {key: remaining * value for key, value in second.items()}
            else:
                for _ in range(remaining):
                    strategy.epoch()
    finally:
        strategy.close()
    counting.check_nothing_held()
    return {key: value + repeated.get(key, 0) for key, value in counting.ledger.totals().items()}


def _time_runs(job: Job, backend: Backend, measurement: Measurement, progress: Progress) -> None:
    started = time.perf_counter()
    strategy = start(job, backend)
    try:
        backend.synchronize()
        measurement.setup_seconds = time.perf_counter() - started
        _warm_up(job, strategy, backend)
        random = GlibcRandom(job.seed)
        runs = measurement.runs
        while measurement.stopped is None:
            runs.append(_run(job, strategy, backend, random))
            measurement.stopped = _stop(job, runs)
            progress(runs)
    finally:
        strategy.close()


def start(job: Job, backend: Backend) -> Strategy:
    """The job's strategy on this backend, set up; closed again where its setup fails."""
    strategy = strategies.make(job.strategy, backend)
    try:
        strategy.setup(job.network, job.X, job.Y, job.batch_size, job.learning_rate)
    except BaseException:
        strategy.close()
        raise
    return strategy


def _warm_up(job: Job, strategy: Strategy, backend: Backend) -> None:
    """Whole runs, then epochs until the given seconds have passed: the first ones of a process are slower."""
    for _ in range(job.warmup):
        _run(job, strategy, backend, GlibcRandom(job.seed))
    if job.warmup_seconds > 0:
        strategy.load(draw_weights(job.network, GlibcRandom(job.seed)))
        started = time.perf_counter()
        while time.perf_counter() - started < job.warmup_seconds:
            strategy.epoch()
        backend.synchronize()


def _run(job: Job, strategy: Strategy, backend: Backend, random: GlibcRandom) -> Run:
    strategy.load(draw_weights(job.network, random))
    backend.synchronize()
    gc.collect()
    gc.disable()
    try:
        started = time.perf_counter()
        for _ in range(job.epochs):
            strategy.epoch()
        backend.synchronize()
        seconds = time.perf_counter() - started
    finally:
        gc.enable()
    return Run(seconds, strategy.loss())


def _stop(job: Job, runs: list[Run]) -> str | None:
    """Why no further run is made: ``runs`` or ``max_seconds``; None where there is to be another."""
    if len(runs) >= job.runs:
        return "runs"
    spent = sum(run.seconds for run in runs)
    if job.max_seconds is not None and len(runs) >= job.min_runs:
        if spent + spent / len(runs) > job.max_seconds:
            return "max_seconds"
    return None


def _difference(later: dict[str, int], earlier: dict[str, int]) -> dict[str, int]:
    """What an epoch added to each count; a peak is not a sum, so it adds nothing."""
    return {key: 0 if key.startswith("peak_") else later[key] - earlier[key] for key in later}
