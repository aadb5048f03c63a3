"""A network trained by a strategy, and the same in float64 by ``layer_oracle``."""

import itertools
import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import layer_oracle
import numpy as np
from deferred import DeferredBackend
from every_source import EverySource

from snn.config import groups
from snn.measurement.accuracy import predicted
from snn.models.glibc_random import GlibcRandom
from snn.models.gradients import PublishedNaive
from snn.models.layers import Conv2d, Dropout, Linear
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import draw_weights
from snn.models.row_order import row_order
from snn.models.schedules import Cosine, Step
from snn.models.schedules import Linear as LinearSchedule
from snn.strategies import factory

KERNELS = [(False, False, False), (True, False, False), (False, True, False), (True, True, True)]
"""Kinds of kernels: fused, pretransposed, convolving."""

QUICK = {"torch_compile": {"mode": "default"}, "torch_loader": {"workers": 0}}
"""Options of strategies that change nothing but the time a test takes."""


def backend_of(name):
    """A backend that has what a strategy asks for, as late as its waits allow."""
    has_source = name in ("pool", "async_pool", "managed", "managed_prefetch")
    return EverySource() if has_source else DeferredBackend()


def oracles_of(network, weights):
    """The oracle's layers, with the network's weights in float64."""
    wide = iter([W.astype(np.float64) for W in weights])
    made = []
    for number, layer in enumerate(network.layers):
        if isinstance(layer, Linear):
            made.append(layer_oracle.Linear(next(wide), next(wide) if layer.bias else None))
        elif isinstance(layer, Conv2d):
            sizes = layer.kernel, layer.padding, layer.stride
            made.append(layer_oracle.Conv2d(next(wide), next(wide), *sizes))
        elif layer_parameters := network.layer_parameters[number]:
            made.append(getattr(layer_oracle, type(layer).__name__)(*(next(wide) for _ in layer_parameters)))
        elif isinstance(layer, Dropout):
            made.append(layer_oracle.Dropout(layer.p, number, network.dropout_seed))
        else:
            made.append(getattr(layer_oracle, type(layer).__name__)(*astuple(layer)))
    return made


def rate_factor(schedule, done, steps):
    """The rate of a step after so many, as PyTorch's documentation defines it, divided by the full one."""
    warmup = schedule.warmup_steps
    if done < warmup:
        return (1 + done) / warmup
    after, rest = done - warmup, max(steps - warmup, 1)
    if isinstance(schedule, Step):
        return schedule.gamma ** (after // schedule.step_size)
    if isinstance(schedule, Cosine):
        eta_min = schedule.end_factor
        return eta_min + (1 - eta_min) / 2 * (1 + math.cos(math.pi * min(after, rest) / rest))
    if isinstance(schedule, LinearSchedule):
        return (1 * (rest - min(after, rest)) + schedule.end_factor * min(after, rest)) / rest
    return 1


def _written(rows, block=2):
    """Gradients that a kernel writes that needs a thread for each output and has one for each row."""
    return -(-rows // block) * block


class Exact(NamedTuple):
    """What training ends with in float64."""

    weights: list[np.ndarray]  # with the running averages of norms
    losses: list[float]  # of the last epoch's batches
    outputs: np.ndarray  # for all rows
    closest: float
    """The smallest distance to where rounding decides which way an input goes."""


def agree(found, right, within=1e-5):
    for W, expected in zip(found, right, strict=True):
        assert np.abs(W - expected.reshape(W.shape)).max() <= within * max(1, np.abs(expected).max())


@dataclass(frozen=True)
class Training:
    """How long a network is trained, and on which random data and weights."""

    rows: int
    batch: int
    epochs: int
    rate: float
    seed: int = 5
    start: int = 4

    def data(self, network):
        """Rows (float32), targets as a user has them, initial weights."""
        random = np.random.default_rng(self.seed)
        X = random.uniform(-1, 1, (self.rows, math.prod(network.inputs))).astype(np.float32)
        if network.loss.is_classification:
            labels = random.integers(0, network.loss.classes(network.outputs), self.rows)
        else:  # some are beyond Huber's bound
            labels = (2 if network.loss.name == "huber" else 1) * random.normal(size=self.rows)
        return X, labels.astype(np.float32), draw_weights(network, GlibcRandom(self.start))

    def arrays(self, network):
        """Rows and targets as a strategy gets them."""
        X, labels, _ = self.data(network)
        return X, network.loss.targets(labels[:, None], network.outputs)

    def load(self, strategy, network):
        strategy.load(self.data(network)[-1])

    @contextmanager
    def started(
        self, name, backend, network, keeps_losses=False, validation=None
    ) -> Iterator[factory.Strategy]:
        """A strategy at the beginning of a run."""
        choice = groups.load("strategy", name) | QUICK.get(name, {})
        with closing(factory.make(choice, backend)) as strategy:
            strategy.keeps_losses, strategy.validation = keeps_losses, validation
            strategy.check_network(network)
            strategy.setup(network, *self.arrays(network), self.batch, self.rate)
            self.load(strategy, network)
            yield strategy

    def weights(self, name, backend, network, runs=1):
        """The weights after each of several runs from the same start, trained epoch by epoch."""
        found = []
        with self.started(name, backend, network) as strategy:
            for _ in range(runs):
                self.load(strategy, network)
                for _ in range(self.epochs):
                    strategy.epoch()
                found.append(strategy.weights())
        return found

    def exact(self, network) -> Exact:
        return _exact(self, replace(network, accumulate=1, recompute=()))

    def check(self, strategy, network, within=1e-5):
        """The strategy's weights, loss and outputs after this training are those in float64."""
        weights, losses, outputs, _ = self.exact(network)
        found, (X, *_) = strategy.weights(), self.data(network)
        agree(found, weights, within)
        np.testing.assert_allclose(strategy.loss(), losses[-1], rtol=within)
        for one in (strategy.predict(X), predicted(network, found, X)):
            np.testing.assert_allclose(one, outputs, rtol=0, atol=within)

    def check_runs(self, name, backend, network):
        """The weights of two runs have the same bits, and are those in float64."""
        first, second = self.weights(name, backend, network, runs=2)
        agree(first, self.exact(network).weights)
        assert all(map(np.array_equal, first, second))


@lru_cache(maxsize=300)
def _exact(training, network):
    X, labels, weights = training.data(network)
    return exactly(network, X, labels, weights, training.epochs, training.batch, training.rate)


def exactly(network, X, labels, weights, epochs, batch, rate) -> Exact:
    """Train from these weights; a target is a label, or a number. Each epoch takes the rows in its order."""
    layers, X = oracles_of(network, weights), X.astype(np.float64).reshape(-1, *network.inputs)
    labels = labels.astype(int if network.loss is CROSS_ENTROPY else np.float64)
    optimizer, steps = network.optimizer, epochs * math.ceil(len(X) / batch)
    descend = getattr(layer_oracle, type(optimizer).__name__)(**optimizer.keys)
    factors = iter([rate_factor(optimizer.schedule, done, network.run_steps) for done in range(steps)])
    for epoch in range(epochs):
        seed = network.order_seed
        order = slice(None) if seed is None else row_order(len(X), seed, epoch)
        losses = layer_oracle.train(
            layers,
            X[order],
            labels[order],
            steps=1,
            batch_size=batch,
            rate=float(np.float32(rate)),
            sequential=network.update_order == "sequential",
            clip_norm=network.clip_norm,
            cross_entropy=network.loss is CROSS_ENTROPY,
            criterion=layer_oracle.CRITERIA.get(network.loss.name),
            summed=network.reduction == "sum",
            kept=_written if isinstance(network.gradient, PublishedNaive) else None,
            descend=descend,
            factors=factors,
            clip_together=optimizer.clip_norm,
        )
    for layer in layers:
        layer.trains = False
    arrays = itertools.chain(*((*layer.parameters, *getattr(layer, "running", ())) for layer in layers))
    closest = min(getattr(layer, "closest", np.inf) for layer in layers)
    return Exact([*arrays], losses, layer_oracle.predict(layers, X), closest)
