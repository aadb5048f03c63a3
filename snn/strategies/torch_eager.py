"""A peer: PyTorch, called operation by operation."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.torch import TorchStrategy, clipped


class Views(NamedTuple):
    """Views of one batch's rows: Y, ``H`` (X, H1, H2, ...) with its transposes, and ``dZ`` of every layer."""

    Y: Any
    H: list[Any]
    transposed: list[Any]
    dZ: list[Any]


class TorchEager(TorchStrategy):
    """Training by PyTorch operations without autograd.

    Of a multilayer perceptron ``setup`` allocates activations, gradients and every view that a step uses. A
    step writes into these. Nothing is allocated, except the workspace of a norm's reduction with clipping.
    Nothing is copied, except Y by the product that subtracts it. Of other networks the tensors of a step come
    from PyTorch's caching allocator and go back to it, and one call updates all parameters. Nothing is waited
    for.

    Users would write a step with autograd, which records a graph and traverses it in its own threads. That
    takes 500 µs per step for the paper's network on an H200; these calls take less than a tenth of it. Nor
    can autograd do the ``sequential`` order. Products are fused with what follows where PyTorch can: the last
    one subtracts Y, and a gradient's product updates its weights. The factor 2 / rows of the error is folded
    into the learning rate, which saves a pass. With one output, the error is propagated by a broadcast.
    """

    def __init__(self, backend: Backend, channels_last: bool = False) -> None:
        super().__init__(backend, channels_last)
        self._steps: list[Callable[[], Any]] = []
        self._dW: list[Any] = []
        self._W_transposed: list[Any] = []
        self._norm: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        if network.widths is None:
            self._steps = [partial(self._step_of_layers, *batch) for batch in self._batches]
            return
        torch, widths = self._torch, network.mlp_widths()[1:]
        with self.without_autograd():
            max_rows = max(len(x) for x, _ in self._batches)
            H, dZ = ([self._W[0].new_empty(max_rows, n) for n in widths] for _ in range(2))
            self._dW = [torch.empty_like(W) for W in self._W] if network.clip_norm is not None else []
            self._norm = self._W[0].new_empty(())
            self._W_transposed = [W.t() for W in self._W]
            for x, y in self._batches:
                activations = [x, *(h[: len(x)] for h in H[:-1])]
                transposed = [h.t() for h in activations]
                views = Views(y, activations, transposed, [d[: len(x)] for d in dZ])
                self._steps.append(partial(self._step, views))

    def release_tensors(self) -> None:
        self._steps, self._dW, self._W_transposed, self._norm = [], [], [], None
        super().release_tensors()

    def all_steps(self) -> Any:
        if not self.keeps_losses:
            for step in self._steps:
                errors = step()
            return errors
        for batch, step in enumerate(self._steps):
            errors = step()
            self.keep(batch, self._model.total(errors, self._batches[batch][1]))
        return errors

    def _step_of_layers(self, x: Any, targets: Any) -> Any:
        """One training step of any network."""
        return self._model.step(self._W, x, targets, self._descend)[1]

    def _descend(self, W: list[Any], gradients: list[Any]) -> list[Any]:
        gradients = clipped(self._torch, gradients, self.network.clip_norm)
        self._torch._foreach_add_(W, gradients, alpha=-self._rate)
        return W

    def _step(self, views: Views) -> Any:
        """One training step, equations (1) to (4) of the paper, with every dZ scaled by rows / 2."""
        torch, W, H, dZ = self._torch, self._W, views.H, views.dZ
        last, sequential = len(W) - 1, self.network.update_order == "sequential"
        for i in range(last):
            torch.mm(H[i], W[i], out=H[i + 1]).relu_()
        torch.addmm(views.Y, H[last], W[last], beta=-1, out=dZ[last])
        for i in range(last, -1, -1):
            if sequential:
                self._update(i, views)
            if i > 0:
                propagate = torch.mul if W[i].shape[1] == 1 else torch.mm
                propagate(dZ[i], self._W_transposed[i], out=dZ[i - 1])
                torch.ops.aten.threshold_backward.grad_input(dZ[i - 1], H[i], 0, grad_input=dZ[i - 1])
            if not sequential:  # the error has been propagated through the old weights
                self._update(i, views)
        return dZ[-1]

    def _update(self, i: int, views: Views) -> None:
        """W -= rate H^T dZ; with clipping, W -= rate max_norm dW / max(norm + 1e-6, max_norm)."""
        W, scale, max_norm = self._W[i], 2.0 / len(views.Y), self.network.clip_norm
        if max_norm is None:
            W.addmm_(views.transposed[i], views.dZ[i], alpha=-self._rate * scale)
            return
        torch, dW, norm = self._torch, self._dW[i], self._norm
        torch.mm(views.transposed[i], views.dZ[i], out=dW)
        torch.linalg.vector_norm(dW, out=norm)
        norm.add_(1e-6 / scale).clamp_min_(max_norm / scale)
        W.addcdiv_(dW, norm, value=-self._rate * max_norm)
