"""What is trained, and a strategy set up for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.strategies.common import factory
from snn.strategies.common.strategy import Strategy


class Test(NamedTuple):
    """Rows that are not trained on: X (n, features) float32, and their targets (n,).

    The targets are labels, int64, or numbers, float32, of which 1 is ``unit`` in the user's units.
    """

    X: np.ndarray
    targets: np.ndarray
    unit: float = 1.0


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
    test: Test | None = None

    @property
    def is_classification(self) -> bool:
        """Whether it is trained to tell labels apart, so that every epoch's loss is of interest."""
        return self.network.loss is CROSS_ENTROPY


def start(job: Job, backend: Backend) -> Strategy:
    """The job's strategy on this backend, set up; closed again where its setup fails.

    Raises Unsupported where the strategy cannot train the network, or the backend cannot run it.
    """
    strategy = factory.make(job.strategy, backend)
    strategy.check_network(job.network)
    strategy.keeps_losses = job.is_classification
    try:
        strategy.setup(job.network, job.X, job.Y, job.batch_size, job.learning_rate)
    except BaseException:
        strategy.close()
        raise
    return strategy
