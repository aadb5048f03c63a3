"""Measure the time per training step of a strategy; shared by the benchmarks of this folder."""

import statistics
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.hardware import threads  # noqa: E402

threads.assign()

import numpy as np  # noqa: E402

from snn import datasets  # noqa: E402
from snn.backends.base import Backend  # noqa: E402
from snn.config import groups  # noqa: E402
from snn.errors import SnnError  # noqa: E402
from snn.models.glibc_random import GlibcRandom  # noqa: E402
from snn.models.network import Network, draw_weights  # noqa: E402
from snn.strategies import factory  # noqa: E402

BATCH = 256


class Timed(NamedTuple):
    """Seconds per step, and the plan of a strategy that has a choice of how to train."""

    seconds: float
    plan: str | None


def data() -> tuple[np.ndarray, np.ndarray]:
    """X and Y of the large data set."""
    return datasets.split(datasets.make(groups.load("dataset", "large")).values, BATCH, "large")


def time_of_step(
    strategy_name: str,
    backend: Backend,
    network: Network,
    X: np.ndarray,
    Y: np.ndarray,
    seconds: float,
    at_once: int = 20,
) -> Timed:
    """Seconds per step: the median over epochs, each followed by a synchronisation, for at least ``seconds``.

    A strategy that trains many epochs in one call trains ``at_once`` epochs per call.
    """
    strategy = factory.make(groups.load("strategy", strategy_name), backend)
    try:
        strategy.setup(network, X, Y, BATCH, 1e-4)
        strategy.load(draw_weights(network, GlibcRandom(1)))
        epochs = at_once if strategy.at_once else 1
        strategy.prepare(epochs)
        times = []
        until = time.perf_counter() + seconds
        while time.perf_counter() < until or len(times) < 5:
            started = time.perf_counter()
            strategy.train(epochs)
            backend.synchronize()
            times.append((time.perf_counter() - started) / epochs)
        if not np.isfinite(strategy.loss()):
            raise SnnError("the loss is not finite")
        return Timed(statistics.median(times[len(times) // 5 :]) / (len(X) / BATCH), strategy.plan)
    finally:
        strategy.close()
