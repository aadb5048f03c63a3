"""Train a job once by a given strategy, or by the first one that supports it."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import ConfigError, OutOfMemory, Unsupported
from snn.hardware import devices
from snn.strategies import factory
from snn.strategies.base import Strategy, Watched
from snn.strategies.factory import Job

AUTO = "auto"

TRIED = {
    "cuda": (("persistent", "tiled_fused"), ("graph", "tiled_fused"), ("resident", "cublas")),
    "cpu": (("resident", "naive"), ("blas", "naive")),
}
"""Strategies and their kernels that ``auto`` tries in turn, by backend."""

Report = Callable[[float, float | None, float | None], None]
"""Called with the epochs done and, if the strategy reports them, their mean loss and validation loss."""


def silent(done: float, loss: float | None, validation_loss: float | None) -> None:
    """Report that does nothing."""


@dataclass
class Fit:
    """A trained job. ``weights``: after the best epoch with ``Job.patience``, else after the last.

    ``losses`` and ``validation_losses`` have a value for each epoch, or none if the strategy does not report
    them. ``seconds``: from the first epoch until the device has finished the last. ``members``: of a strategy
    that trains several networks, whose weights follow each other. ``watched``: the epochs of each network, if
    the strategy reports them. ``rejected``: by name, why strategies that were tried earlier cannot train the
    job.
    """

    strategy: str
    plan: str | None
    weights: list[np.ndarray]
    seconds: float
    losses: list[float] = field(default_factory=list)
    validation_losses: list[float] = field(default_factory=list)
    members: list[dict[str, Any]] = field(default_factory=list)
    watched: list[Watched] = field(default_factory=list)
    final_losses: list[float] = field(default_factory=list)
    rejected: dict[str, str] = field(default_factory=dict)


def strategy_choice(name: str, **options: Any) -> dict[str, Any]:
    """A strategy of ``config/strategy`` with some of its keys changed. Raises ConfigError."""
    return {**groups.load("strategy", name), **options}


def check_single(choice: Mapping[str, Any]) -> None:
    """Raise ConfigError for a strategy that trains several networks."""
    if factory.side_by_side(choice):
        raise ConfigError(
            f"strategy={choice['name']} trains several networks: use snn run strategy={choice['name']} "
            "weights=FILE.npz, or fit_many of an estimator"
        )


def fit(
    job: Job,
    device: str = "auto",
    kernel: Mapping[str, Any] | None = None,
    precision: str = "fp32",
    initial: Sequence[np.ndarray] | None = None,
    report: Report = silent,
    first: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
) -> Fit:
    """Train a job from its initial weights, or from those given.

    ``job.strategy`` without keys means ``first``, a strategy and its kernel, if given, or else the first
    strategy of ``TRIED`` that supports the network. Raises Unsupported or OutOfMemory if none does, and
    DeviceError.
    """
    backend = devices.find(device).backend
    if job.strategy:
        usual = dict(TRIED[backend]).get(job.strategy["name"], "naive")
        choices = [(dict(job.strategy), dict(kernel or groups.load("kernel", usual)))]
    else:
        choices = [(strategy_choice(one), groups.load("kernel", of)) for one, of in TRIED[backend]]
        choices[:0] = [(dict(first[0]), dict(first[1]))] if first else []
    rejected: dict[str, str] = {}
    for last, (strategy, of_strategy) in enumerate(choices, 1 - len(choices)):
        try:
            own = replace(job, strategy=strategy)
            made = backends.make(backend, of_strategy, precision=precision)
            # Steps this small take longer on several threads, and many times as long on a busy machine.
            with threadpool_limits(1, "blas") if made.is_processor else nullcontext():
                found = _fit(own, made, initial, report)
                found.rejected = rejected
                return found
        except (Unsupported, OutOfMemory) as error:
            if not last:
                raise
            rejected.setdefault(strategy["name"], str(error))
    raise AssertionError("no strategy")


@np.errstate(all="ignore")  # a run that diverges is visible in its loss
def _fit(job: Job, backend: Backend, initial: Sequence[np.ndarray] | None, report: Report) -> Fit:
    strategy = factory.start(job, backend)
    try:
        strategy.prepare(job.epochs)
        weights = next(strategy.starts(job.network, job.seed)) if initial is None else [*initial]
        found = Fit(job.strategy["name"], strategy.plan, [], 0.0, members=strategy.members(job.seed))
        strategy.load(weights)
        backend.synchronize()
        started = time.perf_counter()
        try:
            best = _train(job, strategy, found, report)
        except Unsupported:
            if job.validation or not job.keeps_losses:
                raise
            strategy.load(weights)  # it keeps the loss of the last batch alone
            best = _train(replace(job, keeps_losses=False), strategy, found, report)
        backend.synchronize()
        found.seconds = time.perf_counter() - started
        strategy.check_trained()
        found.final_losses = strategy.losses()
        found.weights = strategy.weights() if best is None else best
        return found
    finally:
        strategy.close()


def _train(job: Job, strategy: Strategy, found: Fit, report: Report) -> list[np.ndarray] | None:
    """Train all epochs, or until the patience ends; returns the best weights if it has a patience."""
    if not (job.keeps_losses or job.validation):
        strategy.progress = lambda done, epochs, seconds: report(done, None, None)
        strategy.train(job.epochs)
        return None
    each = strategy.watch(
        *(job.epochs, job.patience),
        lambda done, loss, held: report(done, loss, held if job.validation else None),
    )
    found.watched = each
    if len(each) == 1:
        found.losses = each[0].losses.tolist()
        found.validation_losses = each[0].validation_losses.tolist() if job.validation else []
    return best_of(each, strategy.weights) if any(one.best for one in each) else None


def best_of(each: Sequence[Watched], last: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """The best weights of networks, or the last ones of those without a finite validation loss."""
    if all(one.best for one in each):
        return [W for one in each for W in one.best or []]
    weights = last()
    count = len(weights) // len(each)
    return [W for i, one in enumerate(each) for W in one.best or weights[i * count : (i + 1) * count]]
