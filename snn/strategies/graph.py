"""The resident strategy with an epoch captured in a CUDA graph: one graph launch per epoch."""

from contextlib import suppress
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.resident import Resident


class Graph(Resident):
    """Device-driven training in which a CUDA graph replays an epoch.

    ``setup`` does what ``resident`` does, trains one epoch so that every kernel is loaded, and captures a
    second one. Per epoch: 1 graph launch and no other call.
    """

    by_epoch = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._graph: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self.load([np.zeros(shape, dtype=np.float32) for shape in network.shapes])
        super().epoch()
        self.backend.graph_begin(self._stream)
        try:
            super().epoch()
        except BaseException:
            # While a stream captures, nothing can be waited for or freed. What failed has made the capture
            # invalid, which ending it reports once more.
            with suppress(Exception):
                self.backend.graph_destroy(self.backend.graph_end(self._stream))
            raise
        self._graph = self.backend.graph_end(self._stream)
        self._last_rows = self._rows

    def epoch(self) -> None:
        self.backend.graph_launch(self._graph, self._stream)
        self._rows = self._last_rows

    def close(self) -> None:
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
        if self._graph is not None:
            self.backend.graph_destroy(self._graph)
            self._graph = None
        super().close()
