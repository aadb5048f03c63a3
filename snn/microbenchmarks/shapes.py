"""Time of a training step by shape: networks and batches drawn at random, in one launch and as a CUDA graph.

A shape takes seconds of GPU time as a cell, but tenths of a second here: the process, the context and the
kernels of ``graph`` already exist, and the kernels for single shapes are compiled for many shapes at once.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from snn import backends
from snn.backends.base import Backend
from snn.backends.launches import TrainingShape
from snn.config import groups
from snn.config.groups import ROOT
from snn.microbenchmarks.readings import Effort, Point, Reading, reading
from snn.models.layers import Layer, Linear, ReLU
from snn.models.losses import CROSS_ENTROPY, MEAN_SQUARED_ERROR
from snn.models.network import Network, label, mlp
from snn.strategies import factory
from snn.strategies.base import Strategy
from snn.strategies.device_driven import Graph
from snn.strategies.one_launch import Persistent, layered_shape, perceptron_shape

PRODUCTS = {"cuda": "tiled_fused", "cpu": "naive"}
"""The kernel of the products of ``graph``, by backend: the fastest one in fp32."""

KERNELS = ("kernels/tiled_fused.cu", "kernels/split_k.cu")
"""Sources of the launched kernels: the times depend on them."""

PERSISTENT, GRAPH = "persistent", "graph"
_BATCH, _WIDTH, _FEATURES, _OUTPUTS = (32, 1024), (8, 2048), (1, 1024), (2, 100)
_MOST_LAYERS = 4
_BEYOND = 0.1
"""The share of shapes with several outputs, and of those with biases."""

_STEPS, _ELEMENTS, _PRODUCTS = (4, 64), 1 << 22, 1 << 34  # of an epoch: steps; of X; multiply-adds
_RATE = 1e-6
_LONG, _MOST_STEPS = 0.01, 2000  # seconds of a sample, and its steps at most
_TOGETHER = 64  # shapes that are compiled at once
_OF_PEERS = 20  # epochs per call of a peer, which compiles them


class _OneLaunch(Persistent):
    """``persistent`` without its fallback."""

    fallback = None


_OWN: Mapping[str, type[Strategy]] = {PERSISTENT: _OneLaunch, GRAPH: Graph}


@dataclass(frozen=True)
class Drawn:
    """A shape: a network of linear layers, with or without biases, and the rows of a batch."""

    number: int
    batch: int
    features: int
    hidden: tuple[int, ...]
    outputs: int = 1
    biases: bool = False

    @property
    def network(self) -> Network:
        """The network: with several outputs a classifier, otherwise with the mean squared error."""
        if self.outputs == 1 and not self.biases:
            return mlp((self.features, *self.hidden, 1), init="he_uniform")
        layers: list[Layer] = []
        for width in self.hidden:
            layers += [Linear(width, self.biases), ReLU()]
        loss = MEAN_SQUARED_ERROR if self.outputs == 1 else CROSS_ENTROPY
        return Network((self.features,), (*layers, Linear(self.outputs, self.biases)), loss, "he_uniform")

    @property
    def point(self) -> Point:
        """The shape's coordinates in its readings."""
        return {
            "shape": self.number,
            "batch": self.batch,
            "features": self.features,
            "hidden": label(self.hidden),
            "outputs": self.outputs,
            "biases": int(self.biases),
        }

    @property
    def steps(self) -> int:
        """Batches of an epoch: few if they are large or take long."""
        forward = sum(math.prod(one.shape) for one in self.network.parameters)
        fitting = min(_ELEMENTS // self.features, _PRODUCTS // forward) // self.batch
        return max(_STEPS[0], min(_STEPS[1], fitting))


def drawn(seed: int, number: int) -> Drawn:
    """The shape of this number: sizes whose logarithms are uniform, every second one of powers of two."""
    random = np.random.default_rng([seed, number])

    def size(ends: tuple[int, int]) -> int:
        found = np.exp2(random.uniform(*np.log2(ends)))
        return int(np.exp2(np.rint(np.log2(found)))) if number % 2 else int(np.rint(found))

    hidden = tuple(size(_WIDTH) for _ in range(random.integers(1, _MOST_LAYERS, endpoint=True)))
    batch, features, outputs = size(_BATCH), size(_FEATURES), size(_OUTPUTS)
    several, biases = random.random(2) < _BEYOND
    return Drawn(number, batch, features, hidden, outputs if several else 1, bool(biases))


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """Seconds per step of the first ``shapes`` of a ``seed``: of ``persistent``, ``graph`` and ``peers``.

    Peers train the first ``peered`` shapes only. A shape without a plan in one launch has the reasons.
    """
    device = backends.make(backend, groups.load("kernel", PRODUCTS[backend]))
    effort = Effort(settings["samples"], settings["seconds"])
    shapes = [drawn(settings["seed"], number) for number in range(settings["shapes"])]
    for shape in compiled_together(device, shapes):
        peers = settings["peers"] if shape.number < settings["peered"] else ()
        for name in (PERSISTENT, GRAPH, *peers):
            yield of_shape(device, shape, name, effort)


def compiled_together(device: Backend, shapes: Sequence[Drawn]) -> Iterator[Drawn]:
    """The shapes in their order, with the kernels of many compiled at once by all processors before them."""
    for first in range(0, len(shapes), _TOGETHER):
        some = shapes[first : first + _TOGETHER]
        if not device.is_processor:
            compile_ahead = import_module("snn.backends.cuda.persistent").compile_ahead
            compile_ahead([kernel_shapes(shape) for shape in some], ROOT)
        yield from some


def kernel_shapes(shape: Drawn) -> list[TrainingShape]:
    """The shapes that a one-launch kernel may be compiled for, in order of preference."""
    layered = layered_shape(shape.network, shape.batch)
    if not shape.network.widths:
        return [layered]
    return [perceptron_shape(shape.network, shape.batch, np.zeros((1, 1), np.float32)), layered]


def of_shape(device: Backend, shape: Drawn, name: str, effort: Effort) -> Reading:
    """The reading of a strategy at a shape: seconds per step, or the reason why it does not train it."""
    point: Point = {**shape.point, "strategy": name}

    def take() -> Iterable[float]:
        strategy = made(device, name)
        try:
            strategy.check_network(shape.network)
            strategy.setup(shape.network, *_data(shape), shape.batch, _RATE)
            strategy.load(_weights(shape))
            if strategy.plan:
                point["plan"] = strategy.plan
            return _seconds_per_step(device, strategy, shape.steps, effort)
        finally:
            strategy.close()

    return reading(point, take)


def made(device: Backend, name: str) -> Strategy:
    return _OWN[name](device) if name in _OWN else factory.make(groups.load("strategy", name), device)


def _seconds_per_step(device: Backend, strategy: Strategy, steps: int, effort: Effort) -> list[float]:
    def train(epochs: int) -> None:
        strategy.train(epochs)
        device.synchronize()

    epochs = _OF_PEERS
    if not strategy.own_runtime:
        train(1)
        started = time.perf_counter()
        train(2)
        epochs = round(_LONG / (time.perf_counter() - started) * 2)
        epochs = max(1, min(epochs, _MOST_STEPS // steps))
    strategy.prepare(epochs)
    seconds = effort.repeated(lambda: train(epochs))
    strategy.check_trained()
    return [one / (steps * epochs) for one in seconds]


def _data(shape: Drawn) -> tuple[np.ndarray, np.ndarray]:
    random, rows = np.random.default_rng(shape.number), shape.batch * shape.steps
    X = random.uniform(-1, 1, (rows, shape.features)).astype(np.float32)
    if shape.outputs > 1:
        labels = random.integers(shape.outputs, size=(rows, 1)).astype(np.float32)
        return X, shape.network.loss.targets(labels, shape.outputs)
    return X, X.sum(axis=1, keepdims=True)


def _weights(shape: Drawn) -> list[np.ndarray]:
    random = np.random.default_rng(shape.number)
    return [
        (random.standard_normal(one.shape, np.float32) * (1 / (one.fan_in or 1)) ** 0.5).astype(np.float32)
        for one in shape.network.parameters
    ]
