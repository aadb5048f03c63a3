"""Training by PyTorch: what its strategies share."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.exact_gradient import check_exact_gradient
from snn.strategies.common.optional import PEERS, required
from snn.strategies.common.strategy import Strategy
from snn.strategies.common.torch_layers import TorchLayers
from snn.strategies.common.torch_perceptron import TorchPerceptron
from snn.strategies.common.torch_settings import Settings, device_of, translated


class TorchStrategy(Strategy):
    """Training by PyTorch, with tensors of its caching allocator.

    ``setup`` copies weights and batches to tensors. Each batch has a tensor of its own, so that it starts at
    an address aligned for wide loads. Images and the filters of convolutions lie with their channels last
    unless ``channels_last`` is false. ``close`` restores PyTorch's settings and returns the memory of its
    allocator to the device. Only ``load``, ``loss``, ``epoch_losses``, ``predict`` and ``weights`` wait.
    ``predict`` calls PyTorch operation by operation.
    """

    own_runtime = "torch"
    any_network = True
    grad_mode = "inference_mode"

    def __init__(self, backend: Backend, channels_last: bool = False) -> None:
        super().__init__(backend)
        self._channels_last = channels_last
        self._torch: Any = None
        self._settings: Settings | None = None
        self._W: list[Any] = []
        self._batches: list[tuple[Any, Any]] = []
        self._errors: Any = None
        self._totals: Any = None

    def release_tensors(self) -> None:
        """Drop every reference to a tensor, so that the allocator can reuse the memory."""
        self._W, self._batches, self._errors, self._totals = [], [], None, None

    def check_network(self, network: Network) -> None:
        super().check_network(network)
        check_exact_gradient(network, "PyTorch")

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        torch = self._torch = required("torch", PEERS)
        self._device = device_of(torch, self.backend)
        self._settings = Settings(torch, self.backend.precision)
        self.network, self._rate, self._batch = network, float(np.float32(learning_rate)), batch_size
        self._model: TorchLayers | TorchPerceptron = (
            TorchPerceptron(torch, network)
            if network.widths is not None
            else TorchLayers(torch, network, self._channels_last)
        )
        zeros = [np.zeros(shape, np.float32) for shape in network.shapes]
        with self.without_autograd():
            self._W = [W.clone() for W in self._model.parameters(zeros, self._device)]
            for start in range(0, len(X), batch_size):
                x = self._model.inputs(X[start : start + batch_size])
                y = self._model.targets(Y[start : start + batch_size])
                self._batches.append((x.to(self._device, copy=True), y.to(self._device, copy=True)))
            self._totals = torch.zeros(len(self._batches), device=self._device)
            self._total_of = self._totals.unbind()

    @contextmanager
    def without_autograd(self) -> Iterator[None]:
        """A context without autograd recording, in which PyTorch's OutOfMemoryError becomes OutOfMemory."""
        with translated(self._torch), getattr(self._torch, self.grad_mode)():
            yield

    def load(self, weights: list[np.ndarray]) -> None:
        with self.without_autograd():
            for W, initial in zip(self._W, self._model.parameters(weights, "cpu"), strict=True):
                W.copy_(initial)
        self._errors = None

    def epoch(self) -> None:
        with self.without_autograd():
            self._errors = self.all_steps()

    @abstractmethod
    def all_steps(self) -> Any:
        """Train one step on each batch; returns what ``total`` of the model takes of the last one.

        With ``keeps_losses`` the total of each batch is left to ``keep``.
        """

    def keep(self, batch: int, total: Any) -> None:
        """Write the total of a batch's loss to its place."""
        self._total_of[batch].copy_(total)

    def loss(self) -> float:
        if self._errors is None:
            return float("nan")
        with self.without_autograd():
            total = self._model.total(self._errors, self._batches[-1][1])
        return float(self._mean(total.cpu().numpy().reshape(1), -1)[0])

    def epoch_losses(self) -> np.ndarray:
        return self._mean(self._totals.cpu().numpy(), 0)

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        with self.without_autograd():
            for start in range(0, len(X), self._batch):
                end = start + self._batch
                x = self._model.inputs(X[start:end]).to(self._device)
                outputs[start:end] = self._model.outputs(self._W, x).cpu().numpy()
        return outputs

    def weights(self) -> list[np.ndarray]:
        return self._model.arrays(self._W)

    def close(self) -> None:
        self.release_tensors()
        if self._settings is not None:
            self._settings.restore()
            self._settings = None
            self._torch.cuda.empty_cache()

    def _mean(self, totals: np.ndarray, first: int) -> np.ndarray:
        """The mean losses of the batches from this one on, from their totals."""
        rows = np.array([len(x) for x, _ in self._batches[first:]])
        return self._model.losses(totals.astype(np.float64), rows)


def capture_graph(torch: Any, work: Callable[[], Any]) -> tuple[Any, Any]:
    """Capture a function's PyTorch calls in a CUDA graph, after one warm-up call on a side stream.

    Returns the graph and what the captured call returned.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        returned = work()
    return graph, returned


def clipped(torch: Any, gradients: list[Any], max_norm: float | None) -> list[Any]:
    """Gradients scaled to L2 norms of at most ``max_norm`` each: g max_norm / (norm + 1e-6)."""
    if max_norm is None:
        return gradients
    norms = map(torch.linalg.vector_norm, gradients)
    pairs = zip(gradients, norms, strict=True)
    return [g * torch.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0) for g, norm in pairs]
