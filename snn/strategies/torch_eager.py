"""A peer: PyTorch, one call of its library after the other."""

from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.torch import OnTorch


class Views(NamedTuple):
    """Of a batch Y, ``H`` (X, H1, H2, ...) and its transposes, and ``dZ`` of every layer."""

    Y: Any
    H: list[Any]
    transposed: list[Any]
    dZ: list[Any]


class TorchEager(OnTorch):
    """``setup`` allocates activations, gradients and every view that a step uses. A step is calls that write
    into these: nothing is allocated but, with clipping, what a norm's reduction wants; nothing is copied but
    Y, by the product that subtracts it; nothing is waited for.

    Not autograd, which users write: it records a graph for each step and walks it in threads of its own,
    500 microseconds a step of the paper's network on an H200, where these few calls need less than a tenth.
    It has no ``sequential`` order either. Where a product can do more, it does: the last one subtracts Y, a
    gradient's updates its weights. The factor 2 / rows of the error is in the step's length, so that it is
    no pass of its own, and a network with one output has its error propagated by a broadcast.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._views: list[Views] = []
        self._dW: list[Any] = []
        self._W_transposed: list[Any] = []
        self._norm: Any = None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        super().setup(network, X, Y, batch_size, learning_rate)
        torch, widths = self._torch, network.mlp_widths()[1:]
        with self.undisturbed():
            most = max(len(x) for x, _ in self._batches)
            H, dZ = ([self._W[0].new_empty(most, n) for n in widths] for _ in range(2))
            self._dW = [torch.empty_like(W) for W in self._W] if network.clip_norm is not None else []
            self._norm = self._W[0].new_empty(())
            self._W_transposed = [W.t() for W in self._W]
            for x, y in self._batches:
                activations = [x, *(h[: len(x)] for h in H[:-1])]
                transposed = [h.t() for h in activations]
                self._views.append(Views(y, activations, transposed, [d[: len(x)] for d in dZ]))

    def forget(self) -> None:
        self._views, self._dW, self._W_transposed, self._norm = [], [], [], None
        super().forget()

    def all_steps(self) -> Any:
        for views in self._views:
            self._step(views)
        return views.dZ[-1]

    def _step(self, views: Views) -> None:
        """One step, equations (1) to (4) of the paper; each dZ is rows / 2 times what it is there."""
        torch, W, H, dZ = self._torch, self._W, views.H, views.dZ
        last, sequential = len(W) - 1, self.network.update_order == "sequential"
        for i in range(last):
            torch.mm(H[i], W[i], out=H[i + 1]).relu_()
        torch.addmm(views.Y, H[last], W[last], beta=-1, out=dZ[last])
        for i in range(last, -1, -1):
            if sequential:
                self._descend(i, views)
            if i > 0:
                propagate = torch.mul if W[i].shape[1] == 1 else torch.mm
                propagate(dZ[i], self._W_transposed[i], out=dZ[i - 1])
                torch.ops.aten.threshold_backward.grad_input(dZ[i - 1], H[i], 0, grad_input=dZ[i - 1])
            if not sequential:  # through the old weights, so only now
                self._descend(i, views)

    def _descend(self, i: int, views: Views) -> None:
        """W -= rate H^T dZ; clipped, it is W -= rate max_norm dW / max(norm + 1e-6, max_norm)."""
        W, scale, max_norm = self._W[i], 2.0 / len(views.Y), self.network.clip_norm
        if max_norm is None:
            W.addmm_(views.transposed[i], views.dZ[i], alpha=-self._rate * scale)
            return
        torch, dW, norm = self._torch, self._dW[i], self._norm
        torch.mm(views.transposed[i], views.dZ[i], out=dW)
        torch.linalg.vector_norm(dW, out=norm)
        norm.add_(1e-6 / scale).clamp_min_(max_norm / scale)
        W.addcdiv_(dW, norm, value=-self._rate * max_norm)
