"""A peer: a step compiled by PyTorch into kernels of its own, an epoch of it captured in a CUDA graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.models.network import Network
from snn.strategies.common.torch import OnTorch, captured

_NO_COMPILER = ("No working C++ compiler", "Failed to find C compiler", "Cannot find a working triton")

Step = Callable[[list[Any], Any, Any], tuple[list[Any], Any]]


class TorchCompile(OnTorch):
    """``setup`` has a step compiled for each size of batch, products tuned by trying what there is, and
    captures an epoch of such steps, where there are CUDA graphs. Per epoch one replay: new weights are
    written beside the old ones, and copied into their place once; nothing is waited for.

    A step, not an epoch, is what is compiled: a hundred of the same would compile for minutes into the same
    kernels. The graph is ours, not that of ``mode="max-autotune"``, which would be launched for every step.
    On the processor an epoch is a call of the compiled step for each batch.
    """

    grad_mode = "no_grad"  # what is compiled in inference mode is compiled anew outside of it

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
        step = step_of(self._torch, network, self._rate)
        self._step = self._torch.compile(step, mode=self._mode, fullgraph=True, dynamic=False)
        with self.undisturbed(), _compiler_needed():
            if self.backend.is_processor:
                self._compiled_steps()
            else:
                self._graph, self._captured_error = captured(self._torch, self._compiled_steps)

    def forget(self) -> None:
        self._graph, self._captured_error, self._step = None, None, None
        super().forget()

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
def _compiler_needed() -> Iterator[None]:
    """Raises Unsupported where PyTorch says that there is no C++ compiler, no C compiler, or no Triton."""
    try:
        yield
    except Exception as error:
        if not any(said in str(error) for said in _NO_COMPILER):
            raise
        why = str(error).splitlines()[0]
        raise Unsupported(f"torch.compile needs a compiler that is not there: {why}") from error


def step_of(torch: Any, network: Network, rate: float) -> Step:
    """Equations (1) to (4) of the paper on one batch, without a write to what it is given: W, X, Y to the new
    W and Y_pred - Y."""
    sequential, max_norm = network.update_order == "sequential", network.clip_norm

    def product(A: Any, B: Any) -> Any:
        """A B; of a single column, on either side of it, as what fuses with the element-wise work around."""
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
                through = new[i] if sequential else W[i]
                dZ = torch.where(H[i] > 0, product(dZ, through.t()), 0.0)
        return new, error

    return step
