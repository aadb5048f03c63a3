"""A peer: PyTorch, its calls captured in a CUDA graph."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.network import Network
from snn.strategies.common.optional import PEERS, needed
from snn.strategies.common.torch import captured
from snn.strategies.torch_eager import TorchEager


class TorchGraph(TorchEager):
    """``setup`` does what ``torch_eager`` does, trains an epoch on a side stream, as PyTorch's documentation
    has it, so that every library is loaded and has its workspace, and captures the next one. Per epoch one
    replay; nothing is allocated, copied or waited for."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._graph: Any = None
        self._captured_error: Any = None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        needed("torch", PEERS)
        if self.backend.is_processor:
            raise Unsupported("CUDA graphs are of CUDA: torch_eager trains on the processor")
        super().setup(network, X, Y, batch_size, learning_rate)
        with self.undisturbed():
            self._graph, self._captured_error = captured(self._torch, super().all_steps)

    def forget(self) -> None:
        self._graph, self._captured_error = None, None  # before the tensors that it names
        super().forget()

    def all_steps(self) -> Any:
        self._graph.replay()
        return self._captured_error
