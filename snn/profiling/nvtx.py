"""NVTX ranges around a strategy's calls: Nsight Systems then shows its timeline by step, layer and call."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from snn.backends.base import Backend
from snn.models.training_step import batch_steps, micro_batch
from snn.profiling.observed import Call, Live, ObservedBackend, Observer
from snn.strategies import factory
from snn.strategies.factory import Job, start
from snn.strategies.host_driven import HostDriven

_STEPS = 3
_BETWEEN_STEPS = ("transpose", "zero", "start_steps", "row_order", "take_rows", "count_step")
"""Operations of a load, and at the beginning of an epoch."""


class Ranges(Observer):
    """An observer that pushes a range before each call and pops it afterwards.

    ``labels``: the labels of a step's launches in order; a range's name begins with the label of its launch.
    For a device-driven strategy each call ``launch`` is one; a host-driven strategy, which makes several
    calls for a launch, calls ``next_launch`` itself.
    """

    def __init__(
        self, push: Callable[[str], object], pop: Callable[[], object], labels: Sequence[str], by_call: bool
    ) -> None:
        self._push, self._pop, self._labels, self._by_call = push, pop, labels, by_call
        self._launches, self._label = 0, ""

    def next_launch(self, label: str) -> None:
        step = self._launches // len(self._labels) % _STEPS + 1
        self._label = f"step {step} / {label} / "
        self._launches += 1

    def before(self, call: Call, live: Live) -> None:
        name, label = call.name, "" if self._by_call else self._label
        if call.name == "launch":
            op, _, numbers = call.arguments
            name = f"{op} {'x'.join(str(n) for n in numbers if isinstance(n, int))}"
            if self._by_call and op not in _BETWEEN_STEPS:
                self.next_launch(self._labels[self._launches % len(self._labels)])
                label = self._label
        elif call.name == "train":
            shape, _, steps = call.arguments
            name = f"{shape.op} {steps.rows}x{shape.batch}x{steps.first}x{steps.number}"
        self._push(label + name)

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        self._pop()

    def failed(self, call: Call) -> None:
        self._pop()


def annotate(job: Job, backend: Backend, push: Callable[[str], object], pop: Callable[[], object]) -> None:
    """Train a few steps with a range around every call, after as many steps for late loading."""
    is_host_driven = issubclass(factory.class_of(job.strategy), HostDriven)
    kernel = (False, False, False)
    if not is_host_driven:
        kernel = backend.fused, backend.pretransposed, backend.convolves
    rows = job.batch_size
    steps = batch_steps(job.network, rows, micro_batch(job.network, rows), 0.0, *kernel)
    labels = [launch.label for step in steps for launch in step.launches]
    ranges = Ranges(push, pop, labels, by_call=not is_host_driven)
    short = replace(job, X=job.X[: _STEPS * rows], Y=job.Y[: _STEPS * rows])
    strategy = start(short, ObservedBackend(backend, ranges))
    try:
        with np.errstate(all="ignore"):
            strategy.load(next(strategy.starts(job.network, job.seed)))
            strategy.epoch()
            if isinstance(strategy, HostDriven):
                strategy.announce(ranges.next_launch)
            strategy.epoch()
        strategy.backend.synchronize()
    finally:
        strategy.close()
