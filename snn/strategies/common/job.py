"""What is trained, and a strategy set up for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common import factory
from snn.strategies.common.strategy import Strategy


@dataclass(frozen=True)
class Job:
    """What to train: plain values of a checked configuration, and the data."""

    strategy: Mapping[str, Any]
    network: Network
    X: np.ndarray
    Y: np.ndarray
    seed: int
    epochs: int
    batch_size: int
    learning_rate: float


def start(job: Job, backend: Backend) -> Strategy:
    """The job's strategy on this backend, set up; closed again where its setup fails.

    Raises Unsupported where the strategy cannot train the network, or the backend cannot run it.
    """
    strategy = factory.make(job.strategy, backend)
    strategy.check_network(job.network)
    try:
        strategy.setup(job.network, job.X, job.Y, job.batch_size, job.learning_rate)
    except BaseException:
        strategy.close()
        raise
    return strategy
