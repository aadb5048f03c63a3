"""A peer: a step compiled by PyTorch into its own kernels, with an epoch captured in a CUDA graph."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import Unsupported
from snn.files import cache
from snn.models.network import Network
from snn.strategies.common.torch import TorchLayers, TorchPerceptron, TorchStrategy, capture_graph, clipped

_NO_COMPILER = ("No working C++ compiler", "Failed to find C compiler", "Cannot find a working triton")

Step = Callable[[list[Any], Any, Any], tuple[list[Any], Any, Any]]


class TorchCompile(TorchStrategy):
    """Training by a step that ``torch.compile`` compiles, in a CUDA graph that replays an epoch.

    ``setup`` compiles a step for each batch size, with products autotuned, and on a GPU captures an epoch of
    such steps. Per epoch: 1 replay. A step writes new weights to other memory than the old ones, and they are
    copied into place once per epoch. Nothing is waited for.

    A step is compiled rather than an epoch: a hundred equal steps would compile for minutes into the same
    kernels. The graph is captured here rather than by ``mode="max-autotune"``, whose graph would be launched
    for every step. On the CPU an epoch is one call of the compiled step per batch.

    What PyTorch and Triton compile, and which products were the fastest, is kept in the user's cache: a
    further process with the same step, device and versions loads it.
    """

    grad_mode = "no_grad"  # what was compiled in inference mode is compiled again outside of it

    def __init__(
        self, backend: Backend, mode: str = "max-autotune-no-cudagraphs", channels_last: bool = False
    ) -> None:
        super().__init__(backend, channels_last)
        self._mode = mode
        self._step: Step | None = None
        self._graph: Any = None
        self._captured_errors: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        cache.lend("torch", "TORCHINDUCTOR_CACHE_DIR")
        super().setup(network, X, Y, batch_size, rate)
        step = make_step(self._torch, self._model, network.clip_norm, self._rate, self.keeps_losses)
        self._step = self._torch.compile(step, mode=self._mode, fullgraph=True, dynamic=False)
        with self.without_autograd(), _compiler_required():
            if self.backend.is_processor:
                self._compiled_steps()
            else:
                self._graph, self._captured_errors = capture_graph(self._torch, self._compiled_steps)

    def release_tensors(self) -> None:
        self._graph, self._captured_errors, self._step = None, None, None
        super().release_tensors()

    def all_steps(self) -> Any:
        if self._graph is None:
            return self._compiled_steps()
        self._graph.replay()
        return self._captured_errors

    def _compiled_steps(self) -> Any:
        W, step = self._W, self._step
        assert step is not None
        for batch, (X, Y) in enumerate(self._batches):
            W, errors, total = step(W, X, Y)
            if self.keeps_losses:
                self.keep(batch, total)
        self._torch._foreach_copy_(self._W, W)
        return errors

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


def make_step(
    torch: Any, model: TorchLayers | TorchPerceptron, max_norm: float | None, rate: float, totals: bool
) -> Step:
    """A training step as a pure function of W, X and targets.

    It returns the new W, what the model computes the loss from and, with ``totals``, the loss's total.
    """

    def descend(W: list[Any], gradients: list[Any]) -> list[Any]:
        return [w - rate * dW for w, dW in zip(W, clipped(torch, gradients, max_norm), strict=True)]

    def step(W: list[Any], X: Any, targets: Any) -> tuple[list[Any], Any, Any]:
        new, errors = model.step(W, X, targets, descend)
        return new, errors, model.total(errors, targets) if totals else None

    return step
