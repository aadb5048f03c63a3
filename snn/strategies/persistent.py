"""A whole training in one kernel launch of at most a second, or several: the host has no work in the loop."""

import numpy as np

from snn.backends.base import Backend
from snn.errors import OutOfMemory, SnnError, Unsupported
from snn.models.layers import Linear, ReLU
from snn.models.network import Network
from snn.strategies.common.one_launch import (
    Describe,
    OneLaunch,
    convolutional_shape,
    layered_shape,
    perceptron_shape,
)
from snn.strategies.common.strategy import Strategy
from snn.strategies.graph import Graph


def _shapes_for(network: Network) -> tuple[Describe, ...]:
    """What the network may be to a kernel, the one to be preferred first."""
    if network.widths is not None and network.outputs == 1:
        return perceptron_shape, layered_shape
    linear = all(isinstance(layer, Linear | ReLU) for layer in network.layers)
    return (layered_shape,) if linear else (convolutional_shape,)


class Persistent(Strategy):
    """Training by one kernel launch per run, or by ``graph`` if no kernel fits the network.

    ``setup`` allocates everything, copies the padded data in and compiles the kernel for exactly this
    network. A run is one launch, which the protocol waits for; its loop has no allocation, copy or launch.
    A run that takes longer than about a second is several, each of at most about a second, between which the
    host waits (``LaunchedTraining``). With three hidden layers it also reads after each launch whether the
    kernel has stopped.

    The backend chooses the kernel: for a perceptron one cluster of blocks or the whole device, for
    other linear layers, and for what is too wide, the one that deals tiles to blocks, for a convolutional
    network a block for each part of an image. If there is none for the network, if its buffers do not fit,
    or if the driver refuses the launch, ``graph`` trains instead, and ``plan`` says why.
    """

    by_epoch = at_once = any_network = True

    fallback: type[Strategy] | None = Graph
    """What trains if no launch can; None: ``setup`` raises Unsupported with the reasons, or OutOfMemory."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._strategy: Strategy = OneLaunch(backend)

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        reasons: list[str] = []
        failure: type[SnnError] = Unsupported
        for describe in _shapes_for(network):
            self._strategy = OneLaunch(self.backend, describe)
            try:
                self._strategy.check_network(network)
                self._strategy.setup(network, X, Y, batch_size, rate)
            except (Unsupported, OutOfMemory) as error:
                planned, failure = self._strategy.plan, type(error)
                reason = f"{planned}: {error}" if planned else str(error)
                reasons += [one for one in [reason] if one not in reasons]
                self._strategy.close()
                if planned or failure is OutOfMemory:
                    break  # what was planned is refused, and so would the next launch be
            else:
                self.plan = "; ".join([str(self._strategy.plan), *reasons])
                self.launch = self._strategy.launch
                return
        if self.fallback is None:
            raise failure("; ".join(reasons))
        self._strategy, self.plan = self.fallback(self.backend), f"graph: {'; '.join(reasons)}"
        self._strategy.keeps_losses = self.keeps_losses
        self._strategy.setup(network, X, Y, batch_size, rate)

    def load(self, weights: list[np.ndarray]) -> None:
        self._strategy.load(weights)

    def epoch(self) -> None:
        self._strategy.epoch()

    def train(self, epochs: int) -> None:
        self._strategy.progress = self.progress
        self._strategy.train(epochs)

    def check_trained(self) -> None:
        self._strategy.check_trained()

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
