"""Measure a job: count its operations in a separate instrumented pass, then time its runs."""

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.measurement.accuracy import Errors, accuracy, errors, score
from snn.measurement.energy import joules_per_run
from snn.measurement.protocol import Round, Steadiness
from snn.models import validation
from snn.models.members import Member
from snn.profiling.calls import Unlaunched
from snn.profiling.ledger import Ledger, MemoryMap
from snn.profiling.observed import ObservedBackend
from snn.strategies import factory
from snn.strategies.base import Progress as OfRun
from snn.strategies.base import Strategy, Watched, unwatched
from snn.strategies.factory import Job, start

_COUNTED_EPOCHS = 3

_LONG_EPOCH = 0.5
"""Seconds of an epoch so long that its first steps, while clocks may still change, hardly count."""


class Epoch(NamedTuple):
    """One epoch of a run: wall-clock seconds, the mean of its batches' losses before their updates, and the
    loss of the rows held out after it, if any are."""

    seconds: float
    mean_loss: float
    validation_loss: float | None = None


class MemberEnd(NamedTuple):
    """A member's number of epochs, the best one by its validation loss, and that loss of what it keeps."""

    epochs: int
    best_epoch: int | None
    validation_loss: float


@dataclass(frozen=True)
class Run:
    """One timed training from fresh weights: wall-clock seconds, and the loss of the last batch.

    ``began`` is its start by ``time.perf_counter``. With several networks per launch, ``seconds`` are the
    launch's, ``losses`` has one loss per network, and ``final_loss`` is their mean. For a classification, and
    with rows held out for validation, ``epochs`` has every epoch, whose seconds add up to the run's;
    ``validation_seconds`` is the additional time of all epochs' validation losses. A run that ends early
    (``Job.patience``) has fewer epochs, and test results of its best weights. With test rows, a
    classification has the accuracy on them and the seconds of predicting them, a regression the
    ``test_errors``. With rows held out, several networks have ``ends``; an epoch's losses are then means over
    them, in which a network that has ended has its last loss and the validation loss of what it keeps.
    """

    seconds: float
    final_loss: float
    losses: tuple[float, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    test_accuracy: float | None = None
    test_seconds: float | None = None
    test_errors: Errors | None = None
    ends: tuple[MemberEnd, ...] = ()
    validation_seconds: float | None = None
    began: float = field(default=0.0, compare=False)


class WarmUp(NamedTuple):
    """The warm-up before the timed runs, and whether the time of an epoch became ``steady`` in it."""

    seconds: float
    epochs: int
    steady: bool


@dataclass
class Measurement:
    """The result of measuring a cell in one round; a record has the same keys.

    ``status`` is ok, diverged, out_of_memory or unsupported; all but ok have a ``reason``. ``members`` are
    the networks that one launch trains, if several; ``best_member`` is the number of one, from 1.
    ``plan`` is how a strategy trains, if it has a choice. ``weights`` are those at the end, of the best
    member if there are several, if the job keeps them. ``joules`` is the energy of the GPU per run, measured
    a few times after the timed runs, if the protocol asks for it and the GPU has a counter. ``allocator`` is
    the result of ``Strategy.allocator_peaks`` after all runs.
    """

    status: str = "ok"
    reason: str | None = None
    stopped: str | None = None
    runs: list[Run] = field(default_factory=list)
    members: list[dict[str, Any]] = field(default_factory=list)
    best_member: int | None = None
    weights: list[np.ndarray] = field(default_factory=list)
    plan: str | None = None
    launch: Mapping[str, Any] | None = None
    ledger: dict[str, int] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    setup_seconds: float | None = None
    warmup: WarmUp | None = None
    pageable_fallbacks: int = 0
    joules: list[float] = field(default_factory=list)
    allocator: dict[str, int] = field(default_factory=dict)


Progress = Callable[[list[Run]], None]


def measure(
    job: Job,
    rules: Round,
    backend: Backend,
    progress: Progress = lambda runs: None,
    of_run: OfRun = unwatched,
    joules: Callable[[], float] | None = None,
) -> Measurement:
    """Count one run, then time the runs of the round. Raises LeakError if something is not freed.

    Raises MeasurementError if the device did not train all steps of a run. ``progress`` is called after each
    run, ``of_run`` during a long one, whenever the host has nothing else to do. ``joules`` reads the GPU's
    energy counter.

    A run is timed from its first epoch until the device has finished the last. Setup, drawing weights and
    reading losses are excluded; validating and predicting test rows are timed separately.
    """
    measurement = Measurement()
    try:
        with np.errstate(all="ignore"):  # a diverging run is an outcome, visible in its loss
            measurement.ledger, measurement.memory = count(job, backend)
            _time_runs(job, rules, backend, measurement, progress, of_run, joules)
    except OutOfMemory as error:
        measurement.status, measurement.reason = "out_of_memory", str(error)
    except Unsupported as error:
        measurement.status, measurement.reason = "unsupported", str(error)
    measurement.pageable_fallbacks = backend.pageable_fallbacks
    losses = [loss for run in measurement.runs for loss in run.losses]
    lost = len(losses) - int(np.isfinite(losses).sum())
    if lost and measurement.status == "ok":
        measurement.status = "diverged"
        noun = "trainings" if measurement.members else "runs"
        where = f"{lost} of {len(losses)} {noun}"
        measurement.reason = f"the loss is not finite after {job.epochs} epochs in {where}"
    return measurement


@np.errstate(all="ignore")  # what is computed does not matter
def count(job: Job, backend: Backend) -> tuple[dict[str, int], dict[str, Any]]:
    """The ledger of one run including setup, and its memory use, from a separate instrumented pass.

    Both are empty for a strategy with its own runtime, whose calls cannot be observed. The counts are exact,
    though only three epochs are run: calls depend on shapes alone, so if the second and the third epoch make
    the same calls, all later ones do. Otherwise every epoch is run.
    """
    if factory.class_of(job.strategy).own_runtime:
        return {}, {}
    ledger, memory = Ledger(), MemoryMap()
    observed = ObservedBackend(Unlaunched(backend), ledger, memory)
    strategy = start(job, observed)
    try:
        strategy.load(next(strategy.starts(job.network, job.seed)))
        repeated = _train_counted(job, strategy, ledger)
    finally:
        strategy.close()
    observed.live.check_nothing_held()
    totals = ledger.totals()
    return {key: n + repeated.get(key, 0) for key, n in totals.items()}, memory.describe(backend)


def _train_counted(job: Job, strategy: Strategy, ledger: Ledger) -> dict[str, int]:
    """Train, and return the counts of the epochs that were not run."""
    if strategy.at_once:
        strategy.train(job.epochs)
        return {}
    snapshots = []
    for _ in range(min(job.epochs, _COUNTED_EPOCHS)):
        strategy.epoch()
        snapshots.append(ledger.totals())
    remaining = job.epochs - len(snapshots)
    if not remaining:
        return {}
    # Peaks are not sums: of the counts of one epoch they are 0.
    second, third = (
        {key: 0 if key.startswith("peak_") else count - earlier[key] for key, count in later.items()}
        for earlier, later in pairwise(snapshots)
    )
    if second == third:
        return {key: remaining * value for key, value in second.items()}
    for _ in range(remaining):
        strategy.epoch()
    return {}


def _time_runs(
    job: Job,
    rules: Round,
    backend: Backend,
    measurement: Measurement,
    progress: Progress,
    of_run: OfRun,
    joules: Callable[[], float] | None = None,
) -> None:
    started = time.perf_counter()
    strategy = start(job, backend)
    try:
        strategy.prepare(job.epochs)
        backend.synchronize()
        measurement.setup_seconds = time.perf_counter() - started
        measurement.members, measurement.plan = strategy.members(job.seed), strategy.plan
        measurement.launch = strategy.launch
        measurement.warmup = _warm_up(job, rules, strategy, backend)
        if job.validation is not None and not strategy.watches:
            strategy.validation_loss()  # it is timed from the second time on
        starts = islice(strategy.starts(job.network, job.seed), rules.first_run, None)
        runs = measurement.runs
        while measurement.stopped is None:
            is_long = measurement.warmup.seconds > _LONG_EPOCH * measurement.warmup.epochs
            runs.append(_run(job, strategy, backend, next(starts), of_run, after_epoch=not is_long))
            taken = [run.seconds + (run.validation_seconds or 0) for run in runs]
            of_all_epochs = [run.seconds * job.epochs / (len(run.epochs) or job.epochs) for run in runs]
            measurement.stopped = rules.stop(taken, of_all_epochs)
            progress(runs)
        if measurement.members:
            _score(job, strategy, measurement)
            for member, end in zip(measurement.members, runs[-1].ends, strict=False):
                member |= end._asdict()
                if not math.isfinite(end.validation_loss):
                    member["validation_loss"] = None
        elif job.keeps_weights:
            measurement.weights = strategy.weights()
        if joules is not None and job.patience is None:
            weights = next(strategy.starts(job.network, job.seed))
            mean = fmean(run.seconds for run in runs)
            measurement.joules = joules_per_run(
                partial(_train, job, strategy, backend, weights), joules, mean
            )
        measurement.allocator = strategy.allocator_peaks()
    finally:
        strategy.close()


def _score(job: Job, strategy: Strategy, measurement: Measurement) -> None:
    """Give each member its ``score``, if rows are left that it was not trained on, and find the best one.

    Those are its fold's, those that its bootstrap sample lacks, or else the test rows. A score is R^2, or
    for a classification the accuracy. The best member has the largest score, or without scores, such as R^2
    on a single row, the smallest loss.
    """
    weights, count = strategy.weights(), len(job.network.parameters)
    each = [weights[i : i + count] for i in range(0, len(weights), count)]
    scores: dict[int, float] = {}
    for i, (member, own) in enumerate(zip(measurement.members, each, strict=True)):
        rows = Member(**member).left_out(len(job.X), job.strategy.get("folds", 0))
        test = job.test if rows is None else job.left_out(rows)
        if test is not None and len(test.X):
            member["score"] = found = score(job.network, own, test, job.is_classification)
            if found is not None:
                scores[i] = found
    losses = enumerate(measurement.runs[-1].losses)
    ranks = scores or {i: -loss for i, loss in losses if math.isfinite(loss)}
    if ranks:
        best = max(ranks, key=ranks.__getitem__)
        measurement.best_member = best + 1
        measurement.weights = each[best] if job.keeps_weights else []


def _warm_up(job: Job, rules: Round, strategy: Strategy, backend: Backend) -> WarmUp:
    """Train until the time of an epoch is steady, within the round's minimum and maximum seconds."""
    strategy.load(next(strategy.starts(job.network, job.seed)))
    steadiness, epochs = Steadiness(rules.warmup_seconds), 0
    started = time.perf_counter()
    elapsed = 0.0
    while elapsed < rules.warmup_seconds or (elapsed < rules.max_warmup_seconds and not steadiness.reached):
        strategy.epoch()
        backend.synchronize()
        epochs += 1
        now = time.perf_counter() - started
        steadiness.add(now - elapsed)
        elapsed = now
    return WarmUp(elapsed, epochs, steadiness.reached)


def _run(
    job: Job,
    strategy: Strategy,
    backend: Backend,
    weights: list[np.ndarray],
    of_run: OfRun,
    after_epoch: bool,
) -> Run:
    """One timed training; right after an untimed epoch, unless that is long, so that all start alike."""
    if after_epoch:
        strategy.load(weights)
        strategy.epoch()
    strategy.load(weights)
    backend.synchronize()
    epochs: list[Epoch] = []
    held_out: list[float] = []  # the validation loss of each epoch
    validation_seconds = 0.0
    best: list[np.ndarray] | None = None
    smallest = validation.BestEpoch(job.patience)
    began = time.perf_counter()
    ends: tuple[MemberEnd, ...] = ()
    if job.watches_epochs and strategy.watches:
        epochs, validation_seconds, ends, best = _watched(job, strategy, backend, of_run)
        seconds = math.fsum(epoch.seconds for epoch in epochs)
    elif job.watches_epochs:
        seconds = 0.0
        for done in range(job.epochs):
            if done:
                of_run(done, job.epochs, seconds)
            of_epoch = _timed(backend, strategy.epoch)
            mean_loss = float(np.mean(strategy.epoch_losses()))
            if job.validation is not None:
                validation_seconds += _timed(backend, lambda: held_out.append(strategy.validation_loss()))
            epochs.append(Epoch(of_epoch, mean_loss, held_out[-1] if held_out else None))
            seconds += of_epoch
            if held_out and smallest.is_new(held_out[-1]):
                best = strategy.weights()
            if smallest.is_over:
                break
        seconds = math.fsum(epoch.seconds for epoch in epochs)
    else:
        strategy.progress = of_run
        seconds = _timed(backend, lambda: strategy.train(job.epochs))
    strategy.check_trained()
    losses = strategy.losses()
    run = Run(
        *(seconds, fmean(losses), tuple(losses), tuple(epochs)),
        ends=ends,
        validation_seconds=None if job.validation is None else validation_seconds,
        began=began,
    )
    if best is not None:
        strategy.load(best)
    if job.test is None or strategy.side_by_side:
        return run
    X, targets, _ = test = job.test
    if not job.is_classification:
        return replace(run, test_errors=errors(job.network, strategy.weights(), *test))
    strategy.predict(X)  # it is timed the second time
    seconds = _timed(backend, lambda: strategy.predict(X).argmax(axis=1))
    correct = accuracy(job.network, strategy.weights(), X, targets)
    return replace(run, test_accuracy=correct, test_seconds=seconds)


def _train(job: Job, strategy: Strategy, backend: Backend, weights: list[np.ndarray]) -> None:
    """The work of a run, without reading its results."""
    strategy.load(weights)
    if job.watches_epochs and strategy.watches:
        strategy.watch(job.epochs, None, lambda *_: None)
    elif job.watches_epochs:
        for _ in range(job.epochs):
            strategy.epoch()
            backend.synchronize()
    else:
        strategy.train(job.epochs)
        backend.synchronize()


def _watched(
    job: Job, strategy: Strategy, backend: Backend, of_run: OfRun
) -> tuple[list[Epoch], float, tuple[MemberEnd, ...], list[np.ndarray] | None]:
    """Train a run whose losses are computed during it.

    Returns its epochs, the seconds of validation, the ends of several networks, and the best weights. The
    seconds that have passed for the host are divided in proportion to the networks' own times.
    """
    networks, began = list[Watched](), time.perf_counter()
    least = 1e-9  # seconds: a device's clock may not tick during an epoch

    def report(done: int, *losses: float) -> None:
        of_run(done, job.epochs, time.perf_counter() - began)

    taken = _timed(backend, lambda: networks.extend(strategy.watch(job.epochs, job.patience, report)))
    ends = [_end(one, job.patience) for one in networks]
    none = [0.0] * len(networks)
    losses = _mean_over([one.losses for one in networks], [float(one.losses[-1]) for one in networks])
    seconds = np.maximum(_mean_over([one.seconds for one in networks], none), least)
    further = np.maximum(_mean_over([one.further_seconds for one in networks], none), least)
    held_out: list[float | None] = [None] * len(losses)
    if job.validation is None:
        seconds, further = seconds + further, np.zeros(len(further))
    else:
        kept = [end.validation_loss for end in ends]
        held_out = [*_mean_over([one.validation_losses for one in networks], kept)]
    scale = taken / float(seconds.sum() + further.sum())
    epochs = [Epoch(*one) for one in zip((scale * seconds).tolist(), losses, held_out, strict=True)]
    of_members = tuple(ends) if job.validation is not None and strategy.side_by_side else ()
    return epochs, scale * float(further.sum()), of_members, _best_of(networks, strategy)


def _end(one: Watched, patience: int | None) -> MemberEnd:
    losses = one.validation_losses.tolist()
    best = validation.best_epoch(losses)
    return MemberEnd(len(losses), best, losses[best - 1 if best and patience else -1])


def _mean_over(values: Sequence[np.ndarray], after: Sequence[float]) -> list[float]:
    """The mean of each epoch over networks; after its last epoch a network has the value of ``after``."""
    longest = max(map(len, values))
    filled = [np.append(one, [end] * (longest - len(one))) for one, end in zip(values, after, strict=True)]
    return list(map(float, np.mean(filled, axis=0)))


def _best_of(networks: Sequence[Watched], strategy: Strategy) -> list[np.ndarray] | None:
    """The best weights of all networks, the last ones of those without; None if all are without."""
    if all(one.best is None for one in networks):
        return None
    now = strategy.weights()
    count = len(now) // len(networks)
    found: list[np.ndarray] = []
    for i, one in enumerate(networks):
        found += one.best or now[i * count : (i + 1) * count]
    return found


def _timed(backend: Backend, work: Callable[[], Any]) -> float:
    """Wall-clock seconds of some work until the device has finished it."""
    gc.collect()
    gc.disable()
    try:
        started = time.perf_counter()
        work()
        backend.synchronize()
        return time.perf_counter() - started
    finally:
        gc.enable()
