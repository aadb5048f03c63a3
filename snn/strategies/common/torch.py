"""Training by PyTorch: what lives on its device, whoever asks for the steps."""

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
from snn.strategies.common.optional import PEERS, needed
from snn.strategies.common.strategy import Strategy


class OnTorch(Strategy):
    """``setup`` copies weights and batches to tensors of PyTorch's caching allocator, each batch its own, so
    that it begins where wide loads may. Products are float32 without TF32; on the processor they have as many
    threads as PyTorch takes by itself, whatever the environment says to keep NumPy's to one. ``close`` sets
    both back, and gives the allocator's memory back to the device. Nothing waits but ``load``, ``loss`` and
    ``weights``."""

    own_runtime = "torch"
    grad_mode = "inference_mode"

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._torch: Any = None
        self._before: tuple[str, int] | None = None
        self._W: list[Any] = []
        self._batches: list[tuple[Any, Any]] = []
        self._error: Any = None

    def forget(self) -> None:
        """Let go of every tensor, so that the allocator has its memory back."""
        self._W, self._batches, self._error = [], [], None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        torch = self._torch = needed("torch", PEERS)
        device = self.device()
        self._before = torch.get_float32_matmul_precision(), torch.get_num_threads()
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(usable_processors())
        self.network, self._rate = network, float(np.float32(learning_rate))
        with self.undisturbed():
            self._W = [torch.zeros(shape, device=device) for shape in network.shapes]
            held = (torch.from_numpy(matrix).to(device).split(batch_size) for matrix in (X, Y))
            self._batches = [(x.clone(), y.clone()) for x, y in zip(*held, strict=True)]

    def device(self) -> Any:
        """PyTorch's device that is the backend's. Raises Unsupported, with the reason, where it has none."""
        torch, precision = self._torch, self.backend.precision
        if precision != "fp32":
            raise Unsupported(f"this peer trains in float32, not {precision}")
        if self.backend.is_processor:
            return torch.device("cpu")
        if torch.version.cuda is None:
            raise Unsupported(
                f"torch {torch.__version__} is built without CUDA: `pip uninstall torch`, then `{PEERS}`"
            )
        if not torch.cuda.is_available():
            raise Unsupported(f"torch {torch.__version__}, for CUDA {torch.version.cuda}, finds no device")
        return torch.device("cuda", 0)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Nothing is recorded for autograd; PyTorch's out of memory is ours."""
        try:
            with getattr(self._torch, self.grad_mode)():
                yield
        except self._torch.OutOfMemoryError as error:
            raise OutOfMemory(str(error)) from error

    def load(self, weights: list[np.ndarray]) -> None:
        with self.undisturbed():
            for W, fresh in zip(self._W, weights, strict=True):
                W.copy_(self._torch.from_numpy(fresh))
        self._error = None

    def epoch(self) -> None:
        with self.undisturbed():
            self._error = self.all_steps()

    @abstractmethod
    def all_steps(self) -> Any:
        """A step on each batch; returns Y_pred - Y of the last one, or in one multiple of it."""

    def loss(self) -> float:
        return float("nan") if self._error is None else squared_error(self._error.cpu().numpy())

    def weights(self) -> list[np.ndarray]:
        return [W.cpu().numpy().copy() for W in self._W]

    def close(self) -> None:
        self.forget()
        if self._before is not None:
            precision, threads = self._before
            self._torch.set_float32_matmul_precision(precision)
            self._torch.set_num_threads(threads)
            self._before = None
            self._torch.cuda.empty_cache()


def captured(torch: Any, work: Callable[[], Any]) -> tuple[Any, Any]:
    """A CUDA graph of what a function asks of PyTorch, after one call on a side stream; what it returned."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        returned = work()
    return graph, returned
