"""A peer: PyTorch, with an epoch of its calls captured in a CUDA graph."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.network import Network
from snn.strategies.common.strategy import PEERS, required
from snn.strategies.common.torch import capture_graph
from snn.strategies.torch_eager import TorchEager


class TorchGraph(TorchEager):
    """Training by PyTorch in which a CUDA graph replays an epoch.

    ``setup`` does what ``torch_eager`` does and trains an epoch on a side stream, as PyTorch's documentation
    recommends, so that every library is loaded and has its workspace. It then captures the next epoch. Per
    epoch: 1 replay; nothing is allocated, copied or waited for.
    """

    def __init__(self, backend: Backend, channels_last: bool = False) -> None:
        super().__init__(backend, channels_last)
        self._graph: Any = None
        self._captured_errors: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        required("torch", PEERS)
        if self.backend.is_processor:
            raise Unsupported("CUDA graphs need a CUDA device: use torch_eager on the CPU")
        super().setup(network, X, Y, batch_size, rate)
        with self.without_autograd():
            self._graph, self._captured_errors = capture_graph(self._torch, super().all_steps)

    def release_tensors(self) -> None:
        self._graph, self._captured_errors = None, None  # before the tensors that it uses
        super().release_tensors()

    def all_steps(self) -> Any:
        self._graph.replay()
        return self._captured_errors
