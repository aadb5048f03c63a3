"""A whole training, all epochs, in one kernel launch: the host has no work in the loop."""

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.network import Network
from snn.strategies.common.convolutional_launch import ConvolutionalLaunch
from snn.strategies.common.single_launch import SingleLaunch
from snn.strategies.common.strategy import Strategy
from snn.strategies.graph import Graph


class Persistent(Strategy):
    """Training by one kernel launch per run, or by ``graph`` if no kernel fits the network.

    ``setup`` allocates everything, copies the padded data in and compiles the kernel for exactly this
    network. A run is one launch, which the protocol waits for; its loop has no allocation, copy or launch.

    The backend's plan chooses the kernel: for a perceptron one cluster of blocks or the whole device, for a
    convolutional network a block for each part of an image. If there is no plan for the network, ``graph``
    trains in its place, and ``plan`` says why.
    """

    by_epoch = at_once = any_network = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._strategy: Strategy = SingleLaunch(backend)

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        if network.widths is None:
            self._strategy = ConvolutionalLaunch(self.backend)
        try:
            self._strategy.check_network(network)
            self._strategy.setup(network, X, Y, batch_size, learning_rate)
            self.plan = self._strategy.plan
        except Unsupported as error:
            self._strategy, self.plan = Graph(self.backend), f"graph: {error}"
            self._strategy.keeps_losses = self.keeps_losses
            self._strategy.setup(network, X, Y, batch_size, learning_rate)

    def load(self, weights: list[np.ndarray]) -> None:
        self._strategy.load(weights)

    def epoch(self) -> None:
        self._strategy.epoch()

    def train(self, epochs: int) -> None:
        self._strategy.train(epochs)

    def loss(self) -> float:
        return self._strategy.loss()

    def epoch_losses(self) -> np.ndarray:
        return self._strategy.epoch_losses()

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self._strategy.predict(X)

    def weights(self) -> list[np.ndarray]:
        return self._strategy.weights()

    def close(self) -> None:
        self._strategy.close()
