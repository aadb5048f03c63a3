"""A peer: a step compiled by PyTorch into its own kernels, with an epoch captured in a CUDA graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.network import Network
from snn.strategies.common.torch import TorchStrategy, capture_graph

_NO_COMPILER = ("No working C++ compiler", "Failed to find C compiler", "Cannot find a working triton")

Step = Callable[[list[Any], Any, Any], tuple[list[Any], Any]]


class TorchCompile(TorchStrategy):
    """Training by a step that ``torch.compile`` compiles, in a CUDA graph that replays an epoch.

    ``setup`` compiles a step for each batch size, with products autotuned, and on a GPU captures an epoch of
    such steps. Per epoch: 1 replay. A step writes new weights to other memory than the old ones, and they are
    copied into place once per epoch. Nothing is waited for.

    A step is compiled rather than an epoch: a hundred equal steps would compile for minutes into the same
    kernels. The graph is captured here rather than by ``mode="max-autotune"``, whose graph would be launched
    for every step. On the CPU an epoch is one call of the compiled step per batch.
    """

    grad_mode = "no_grad"  # what was compiled in inference mode is compiled again outside of it

    def __init__(self, backend: Backend, mode: str = "max-autotune-no-cudagraphs") -> None:
        super().__init__(backend)
        self._mode = mode
        self._step: Step | None = None
        self._graph: Any = None
        self._captured_error: Any = None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        super().setup(network, X, Y, batch_size, learning_rate)
        step = make_step(self._torch, network, self._rate)
        self._step = self._torch.compile(step, mode=self._mode, fullgraph=True, dynamic=False)
        with self.without_autograd(), _compiler_required():
            if self.backend.is_processor:
                self._compiled_steps()
            else:
                self._graph, self._captured_error = capture_graph(self._torch, self._compiled_steps)

    def release_tensors(self) -> None:
        self._graph, self._captured_error, self._step = None, None, None
        super().release_tensors()

    def all_steps(self) -> Any:
        if self._graph is None:
            return self._compiled_steps()
        self._graph.replay()
        return self._captured_error

    def _compiled_steps(self) -> Any:
        W, step = self._W, self._step
        assert step is not None
        for X, Y in self._batches:
            W, error = step(W, X, Y)
        self._torch._foreach_copy_(self._W, W)
        return error

    def close(self) -> None:
        super().close()
        if self._torch is not None:
            self._torch.compiler.reset()


@contextmanager
def _compiler_required() -> Iterator[None]:
    """A context that raises Unsupported if PyTorch finds no C++ compiler, no C compiler or no Triton."""
    try:
        yield
    except Exception as error:
        if not any(message in str(error) for message in _NO_COMPILER):
            raise
        reason = str(error).splitlines()[0]
        raise Unsupported(f"torch.compile needs a compiler that is not installed: {reason}") from error


def make_step(torch: Any, network: Network, rate: float) -> Step:
    """The training step as a pure function of W, X and Y that returns the new W and Y_pred - Y.

    It computes equations (1) to (4) of the paper on one batch.
    """
    sequential, max_norm = network.update_order == "sequential", network.clip_norm

    def product(A: Any, B: Any) -> Any:
        """A B; with a single column in A or B, in a form that fuses with the element-wise work around it."""
        if A.shape[1] == 1:
            return A * B
        return (A * B.t()).sum(1, keepdim=True) if B.shape[1] == 1 else A @ B

    def step(W: list[Any], X: Any, Y: Any) -> tuple[list[Any], Any]:
        H, last = [X], len(W) - 1
        for w in W[:-1]:
            H.append(torch.relu(H[-1] @ w))
        error = product(H[-1], W[-1]) - Y
        dZ, new = error * (2.0 / len(X)), list(W)
        for i in range(last, -1, -1):
            dW = product(H[i].t(), dZ)
            if max_norm is not None:
                norm = torch.linalg.vector_norm(dW)
                dW = dW * torch.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)
            new[i] = W[i] - rate * dW
            if i > 0:
                w = new[i] if sequential else W[i]
                dZ = torch.where(H[i] > 0, product(dZ, w.t()), 0.0)
        return new, error

    return step
