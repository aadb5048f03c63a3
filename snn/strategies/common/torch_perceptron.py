"""A multilayer perceptron in PyTorch: its tensors, and its training step as a pure function."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from snn.models.network import Network
from snn.strategies.common.torch_layers import Descend, Tensor


class TorchPerceptron:
    """A multilayer perceptron, with the interface of ``TorchLayers``."""

    def __init__(self, torch: Any, network: Network) -> None:
        self._torch, self._network = torch, network

    def parameters(self, weights: Sequence[np.ndarray], device: Any) -> list[Tensor]:
        return [self._torch.from_numpy(W).to(device) for W in weights]

    def arrays(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        return [tensor.cpu().numpy().copy() for tensor in tensors]

    def inputs(self, X: np.ndarray) -> Tensor:
        return self._torch.from_numpy(X)

    def targets(self, Y: np.ndarray) -> Tensor:
        return self._torch.from_numpy(Y)

    def outputs(self, W: list[Tensor], x: Tensor) -> Tensor:
        for w in W[:-1]:
            x = self._torch.relu(x @ w)
        return x @ W[-1]

    def step(self, W: list[Tensor], X: Tensor, Y: Tensor, descend: Descend) -> tuple[list[Tensor], Tensor]:
        """The new W, and Y_pred - Y: equations (1) to (4) of the paper on one batch."""
        torch, product, last = self._torch, self._product, len(W) - 1
        H, sequential = [X], self._network.update_order == "sequential"
        for w in W[:-1]:
            H.append(torch.relu(H[-1] @ w))
        error = product(H[-1], W[-1]) - Y
        dZ, new = error * (2.0 / len(X)), list(W)
        for i in range(last, -1, -1):
            new[i : i + 1] = descend([W[i]], [product(H[i].t(), dZ)])
            if i > 0:
                w = new[i] if sequential else W[i]
                dZ = torch.where(H[i] > 0, product(dZ, w.t()), 0.0)
        return new, error

    def total(self, errors: Tensor, targets: Tensor) -> Tensor:
        return (errors * errors).sum()

    def losses(self, totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return totals / rows

    @staticmethod
    def _product(A: Tensor, B: Tensor) -> Tensor:
        """A B; with a single column in A or B, in a form that fuses with the element-wise work around it."""
        if A.shape[1] == 1:
            return A * B
        return (A * B.t()).sum(1, keepdim=True) if B.shape[1] == 1 else A @ B
