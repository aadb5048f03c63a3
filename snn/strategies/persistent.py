"""A whole training, all epochs, in one launch: nothing is left for the host to do in the loop."""

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.network import Network
from snn.strategies.common.single_launch import OneLaunch
from snn.strategies.common.strategy import Strategy
from snn.strategies.graph import Graph


class Persistent(Strategy):
    """``setup`` allocates everything, copies the data in, padded, and has the kernel compiled for exactly
    this network. A run is one launch, which the protocol waits for: no allocation, copy or launch is in its
    loop.

    Which kernel that is, the backend's plan says: one cluster of blocks or the whole device. Where it has
    none for a shape, ``graph`` trains in its place, and ``plan`` says why.
    """

    by_epoch = at_once = any_network = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._way: Strategy = OneLaunch(backend)

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        try:
            self._way.check_network(network)
            self._way.setup(network, X, Y, batch_size, learning_rate)
            self.plan = self._way.plan
        except Unsupported as error:
            self._way, self.plan = Graph(self.backend), f"graph: {error}"
            self._way.setup(network, X, Y, batch_size, learning_rate)

    def load(self, weights: list[np.ndarray]) -> None:
        self._way.load(weights)

    def epoch(self) -> None:
        self._way.epoch()

    def train(self, epochs: int) -> None:
        self._way.train(epochs)

    def loss(self) -> float:
        return self._way.loss()

    def weights(self) -> list[np.ndarray]:
        return self._way.weights()

    def close(self) -> None:
        self._way.close()
