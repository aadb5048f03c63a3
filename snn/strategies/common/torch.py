"""Training by PyTorch: what its strategies share."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.hardware.devices import usable_processors
from snn.models.host_ops import squared_error
from snn.models.network import Network
from snn.strategies.common.optional import PEERS, required
from snn.strategies.common.strategy import Strategy


class TorchStrategy(Strategy):
    """Training by PyTorch, with tensors of its caching allocator.

    ``setup`` copies weights and batches to tensors. Each batch has a tensor of its own, so that it starts at
    an address aligned for wide loads. Products are float32 without TF32. On the CPU they use as many threads
    as PyTorch would by default, although the environment limits NumPy to one. ``close`` restores both
    settings and returns the allocator's memory to the device. Only ``load``, ``loss`` and ``weights`` wait.
    """

    own_runtime = "torch"
    grad_mode = "inference_mode"

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._torch: Any = None
        self._previous_settings: tuple[str, int] | None = None
        self._W: list[Any] = []
        self._batches: list[tuple[Any, Any]] = []
        self._error: Any = None

    def release_tensors(self) -> None:
        """Drop every reference to a tensor, so that the allocator can reuse the memory."""
        self._W, self._batches, self._error = [], [], None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        torch = self._torch = required("torch", PEERS)
        device = self.device()
        self._previous_settings = torch.get_float32_matmul_precision(), torch.get_num_threads()
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(usable_processors())
        self.network, self._rate = network, float(np.float32(learning_rate))
        with self.without_autograd():
            self._W = [torch.zeros(shape, device=device) for shape in network.shapes]
            splits = (torch.from_numpy(matrix).to(device).split(batch_size) for matrix in (X, Y))
            self._batches = [(x.clone(), y.clone()) for x, y in zip(*splits, strict=True)]

    def device(self) -> Any:
        """The PyTorch device of the backend. Raises Unsupported, with the reason, if there is none."""
        torch, precision = self._torch, self.backend.precision
        if precision != "fp32":
            raise Unsupported(f"this peer trains in float32, not {precision}")
        if self.backend.is_processor:
            return torch.device("cpu")
        if torch.version.cuda is None:
            raise Unsupported(
                f"torch {torch.__version__} is built without CUDA: run `pip uninstall torch`, then `{PEERS}`"
            )
        if not torch.cuda.is_available():
            raise Unsupported(f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, finds no GPU")
        return torch.device("cuda", 0)

    @contextmanager
    def without_autograd(self) -> Iterator[None]:
        """A context without autograd recording, in which PyTorch's OutOfMemoryError becomes OutOfMemory."""
        try:
            with getattr(self._torch, self.grad_mode)():
                yield
        except self._torch.OutOfMemoryError as error:
            raise OutOfMemory(str(error)) from error

    def load(self, weights: list[np.ndarray]) -> None:
        with self.without_autograd():
            for W, initial in zip(self._W, weights, strict=True):
                W.copy_(self._torch.from_numpy(initial))
        self._error = None

    def epoch(self) -> None:
        with self.without_autograd():
            self._error = self.all_steps()

    @abstractmethod
    def all_steps(self) -> Any:
        """Train one step on each batch; returns Y_pred - Y of the last batch."""

    def loss(self) -> float:
        return float("nan") if self._error is None else squared_error(self._error.cpu().numpy())

    def weights(self) -> list[np.ndarray]:
        return [W.cpu().numpy().copy() for W in self._W]

    def close(self) -> None:
        self.release_tensors()
        if self._previous_settings is not None:
            precision, threads = self._previous_settings
            self._torch.set_float32_matmul_precision(precision)
            self._torch.set_num_threads(threads)
            self._previous_settings = None
            self._torch.cuda.empty_cache()


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
