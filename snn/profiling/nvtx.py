"""NVTX ranges around a strategy's calls: Nsight Systems then shows its timeline by step, layer and call."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.models.network import Network
from snn.profiling.calls import Call, Observer
from snn.profiling.live import Live
from snn.profiling.observed import ObservedBackend
from snn.strategies.common.host_driven import HostDriven
from snn.strategies.common.job import Job, start

_STEPS = 3


class Ranges(Observer):
    """An observer that pushes a range before each call and pops it afterwards.

    ``label``, with which names begin, is step and layer of the current product: the products of a step have
    these ``labels`` in turn. ``each_launch``: a product is one launch, and only launches are labelled;
    otherwise it is several calls, and whoever makes them says when the next one begins.
    """

    def __init__(self, push: Callable[[str], object], pop: Callable[[], object], labels: list[str]) -> None:
        self._push, self._pop, self._labels = push, pop, labels
        self._products = 0
        self.label, self.each_launch = "", False

    def next_product(self) -> None:
        step, product = divmod(self._products, len(self._labels))
        self.label = f"step {step + 1} / {self._labels[product]} / "
        self._products += 1

    def before(self, call: Call, live: Live) -> None:
        name, label = call.name, "" if self.each_launch else self.label
        if call.name == "launch":
            op, _, numbers = call.arguments
            if self.each_launch and OPS[op].is_product:
                self.next_product()
            name, label = f"{op} {'x'.join(str(n) for n in numbers if isinstance(n, int))}", self.label
        self._push(label + name)

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        self._pop()

    def failed(self, call: Call) -> None:
        self._pop()


def annotate(job: Job, backend: Backend, push: Callable[[str], object], pop: Callable[[], object]) -> None:
    """Train a few steps with a range around every call; as many before them load what is loaded late."""
    rows = _STEPS * job.batch_size
    ranges = Ranges(push, pop, product_labels(job.network))
    strategy = start(replace(job, X=job.X[:rows], Y=job.Y[:rows]), ObservedBackend(backend, ranges))
    try:
        with np.errstate(all="ignore"):
            strategy.load(next(strategy.starts(job.network, job.seed)))
            strategy.epoch()
            if isinstance(strategy, HostDriven):
                _announce_products(strategy, ranges)
            else:
                ranges.each_launch = True
            strategy.epoch()
        strategy.backend.synchronize()
    finally:
        strategy.close()


def product_labels(network: Network) -> list[str]:
    """Layer and direction of each matrix product of a step, in order; a later layer has two backward."""
    layers = range(1, len(network.shapes) + 1)
    backward = (f"layer {i} backward" for i in reversed(layers) for _ in range(2 if i > 1 else 1))
    return [*(f"layer {i} forward" for i in layers), *backward]


def _announce_products(strategy: HostDriven, ranges: Ranges) -> None:
    """Have the ranges of all calls that make a product begin with its label."""
    matmul = strategy.matmul

    def announced(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        ranges.next_product()
        try:
            return matmul(A, B)
        finally:
            ranges.label = ""

    strategy.matmul = announced  # type: ignore
