#!/usr/bin/env python3
"""Microseconds per step of networks as people train them, by strategy, on this GPU.

    benchmarks/usual.py [--strategies persistent graph jax_scan] [--rounds 5] [--only 11-64-64-1] [--many]

Adam, biases, shuffled rows and simultaneous updates, on random data. A time is the difference between a run
and one of a quarter of its epochs, so that what a run does once (copies of weights, a launch, the loss) does
not count. Each round measures all strategies one after the other; a cell is the median over rounds, with the
smallest and the largest. --many: networks side by side instead, per network and step.
"""

import argparse
import statistics
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from snn import backends
from snn.config import groups
from snn.errors import SnnError
from snn.models.glibc_random import GlibcRandom
from snn.models.network import Network, draw_weights, mlp
from snn.models.optimizers import Adam
from snn.strategies import factory


class Work(NamedTuple):
    """Networks to train, ``starts`` of them, on ``rows`` random rows."""

    widths: tuple[int, ...]
    activation: str
    batch: int
    rows: int
    starts: int = 1
    plain: bool = False

    @property
    def network(self) -> Network:
        if self.plain:
            return mlp(self.widths, init="he_uniform")
        usual = {"bias": True, "optimizer": Adam(), "order_seed": 1, "update_order": "simultaneous"}
        return mlp(self.widths, init="he_uniform", activation=self.activation, **usual)

    def __str__(self) -> str:
        layers = "-".join(map(str, self.widths))
        many = f"{self.starts} x " if self.starts > 1 else ""
        return f"{many}{layers}, {'SGD' if self.plain else self.activation}, batch {self.batch}"


WORKS = [
    *(
        Work((11, 64, 64, 1), activation, batch, 1143)
        for activation in ("relu", "tanh")
        for batch in (32, 64, 256)
    ),
    Work((2, 20, 20, 20, 20, 1), "tanh", 1024, 8192),
    Work((17, 256, 256, 6), "tanh", 256, 4096),
]
MANY = [
    *(Work((11, 64, 64, 1), "relu", 64, 1143, starts) for starts in (10, 100, 1000)),
    *(Work((32, hidden, 1), "relu", 256, 2048, 1024, plain=True) for hidden in (256, 64)),
]


class Prepared:
    """A strategy that is ready to train a work for so many epochs, after one run. Raises SnnError."""

    def __init__(self, name: str, work: Work, epochs: int) -> None:
        self._lengths, batches = (epochs, max(1, epochs // 4)), -(-work.rows // work.batch)
        self._steps = (self._lengths[0] - self._lengths[1]) * batches * work.starts
        network = replace(work.network, run_steps=epochs * batches)
        random = np.random.default_rng(1)
        X = random.normal(size=(work.rows, work.widths[0])).astype(np.float32)
        Y = random.normal(size=(work.rows, work.widths[-1])).astype(np.float32)
        given = groups.load("strategy", name) | ({"starts": work.starts} if work.starts > 1 else {})
        backend = backends.make("cuda", groups.load("kernel", "tiled_fused"))
        self._strategy = factory.make(given, backend)
        try:
            self._strategy.check_network(network)
            self._strategy.setup(network, X, Y, work.batch, 1e-4)
            for length in self._lengths:
                self._strategy.prepare(length)
            alone = [draw_weights(network, GlibcRandom(1))]
            self._weights = next(iter(self._strategy.starts(network, 1) if work.starts > 1 else alone))
            self.run()
        except SnnError:
            self.close()
            raise

    def run(self) -> float:
        """Microseconds per step and network."""
        longer, shorter = map(self._seconds, self._lengths)
        return 1e6 * (longer - shorter) / self._steps

    def _seconds(self, epochs: int) -> float:
        self._strategy.load(self._weights)
        started = time.perf_counter()
        self._strategy.train(epochs)
        self._strategy.loss()
        return time.perf_counter() - started

    def close(self) -> None:
        self._strategy.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--strategies", nargs="+")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--steps", type=int, default=4000, help="of a timed run, about")
    options.add_argument("--only", default="", help="works whose name contains this")
    options.add_argument("--many", action="store_true")
    given = options.parse_args()
    names = given.strategies or (
        ["ensemble", "jax_vmap", "torch_bmm"] if given.many else ["persistent", "graph", "jax_scan"]
    )
    print(f"| network | {' | '.join(names)} |\n|{' --- |' * (len(names) + 1)}")
    for work in MANY if given.many else WORKS:
        if given.only not in str(work):
            continue
        epochs = max(4, given.steps // -(-work.rows // work.batch) // (4 if given.many else 1))
        ready: dict[str, Prepared] = {}
        found: dict[str, list[float]] = {name: [] for name in names}
        reasons: dict[str, str] = {}
        for name in names:
            try:
                ready[name] = Prepared(name, work, epochs)
            except SnnError as error:
                reasons[name] = str(error)[:60]
        for _ in range(given.rounds):
            for name, one in ready.items():
                found[name].append(one.run())
        for one in ready.values():
            one.close()
        cells = [
            reasons.get(name) or f"{statistics.median(times):.3g} ({min(times):.3g} to {max(times):.3g})"
            for name, times in found.items()
        ]
        print(f"| {work} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
