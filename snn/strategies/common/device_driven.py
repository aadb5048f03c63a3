"""The training step written once for the device-driven strategies: the host only asks for it."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import PARTIAL_SUMS
from snn.models.host_ops import squared_error
from snn.models.network import Network
from snn.strategies.common.strategy import Strategy

KERNELS = ("kernels/elementwise.cu",)
"""What is launched beside the products: a cell of a strategy that imports this module depends on it."""

Batch = tuple[Any, Any, int]
"""X and Y of a batch on the device, and its rows."""


class DeviceDriven(Strategy):
    """Weights, activations and gradients on the device, allocated once; all work of a step on one stream.

    A strategy says where batches come from, in ``epoch``, and calls ``step`` for each. The kernel decides
    which work that is: one that is ``fused`` does in the kernel of a product what follows it, for one that is
    ``pretransposed`` W^T is kept beside W and written with it.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._buffers: list[Any] = []
        self._host: list[np.ndarray] = []
        self._stream: Any = None
        self._rows = 0

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network, self._rate = network, float(np.float32(learning_rate))
        self._stream = self.backend.stream_create()
        shapes, batch = network.shapes, min(batch_size, len(X))
        self._W = [self.malloc(k * n, "weights") for k, n in shapes]
        self._V = [
            self.malloc(k * n, "weights") if self._transposed(i) else None for i, (k, n) in enumerate(shapes)
        ]
        self._H = [self.malloc(batch * n, "activations") for _, n in shapes]
        self._dZ = [self.malloc(batch * n, "gradients") for _, n in shapes]
        self._error = self.malloc(batch, "gradients")
        self._dW = [] if self._updates_in_product else [self.malloc(k * n, "gradients") for k, n in shapes]
        self._sums = self.malloc(PARTIAL_SUMS, "workspace") if network.clip_norm is not None else None
        self._host_W = [self.host(shape, "weights") for shape in shapes]
        self._host_error = self.host((batch, 1), "gradients")

    def malloc(self, elements: int, kind: str) -> Any:
        """Device memory for this many float32, until ``close``."""
        buffer = self.backend.malloc(4 * elements, kind)
        self._buffers.append(buffer)
        return buffer

    def host(self, shape: tuple[int, ...], kind: str) -> np.ndarray:
        """A page-locked host array, until ``close``."""
        array = self.backend.host_alloc(shape, kind)
        self._host.append(array)
        return array

    def upload(self, matrix: np.ndarray, kind: str) -> Any:
        """A matrix copied to the device, until ``close``; the host's copy of it is freed."""
        buffer, staged = self.malloc(matrix.size, kind), self.backend.host_alloc(matrix.shape, kind)
        try:
            staged[...] = matrix
            self.backend.copy_in(buffer, staged)
        finally:
            self.backend.host_free(staged)
        return buffer

    def load(self, weights: list[np.ndarray]) -> None:
        for i, fresh in enumerate(weights):
            self._host_W[i][...] = fresh
            self.backend.copy_in(self._W[i], self._host_W[i], self._stream)
            if self._transposed(i):
                self._launch("transpose", (self._W[i], self._V[i]), fresh.shape)
        self.backend.stream_synchronize(self._stream)
        self._rows = 0

    def loss(self) -> float:
        if not self._rows:
            return float("nan")
        error = self._host_error[: self._rows]
        self.backend.copy_out(error, self._error, self._stream)
        self.backend.stream_synchronize(self._stream)
        return squared_error(error)

    def weights(self) -> list[np.ndarray]:
        for W, host in zip(self._W, self._host_W, strict=True):
            self.backend.copy_out(host, W, self._stream)
        self.backend.stream_synchronize(self._stream)
        return [host.copy() for host in self._host_W]

    def close(self) -> None:
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
            self.backend.stream_destroy(self._stream)
            self._stream = None
        while self._buffers:
            self.backend.free(self._buffers.pop())
        while self._host:
            self.backend.host_free(self._host.pop())

    def step(self, batch: Batch) -> None:
        """Equations (1) to (4) of the paper on one batch."""
        X, Y, rows = batch
        self._forward(X, Y, rows)
        sequential = self.network.update_order == "sequential"
        for i in reversed(range(len(self._W))):
            if sequential:
                self._descend(i, X, rows)
            if i > 0:
                self._propagate(i, rows)
            if not sequential:  # through the old weights, so only now
                self._descend(i, X, rows)
        self._rows = rows

    def _forward(self, X: Any, Y: Any, rows: int) -> None:
        """H = ReLU(H W), layer by layer; then the error, and dZ = 2 / rows times it."""
        fused, last = self.backend.fused, len(self._W) - 1
        scale = float(np.float32(2.0 / rows))
        for i, (k, n) in enumerate(self.network.shapes):
            H, W, Z = self._input(i, X), self._W[i], self._H[i]
            if not fused:
                self._launch("matmul", (H, W, Z), (rows, k, n))
            if i < last:
                if fused:
                    self._launch("matmul_relu", (H, W, Z), (rows, k, n))
                else:
                    self._launch("relu", (Z,), (rows * n,))
            elif fused:
                self._launch("matmul_error", (H, W, self._dZ[i], Y, self._error), (rows, k, n, scale))
            else:
                self._launch("error", (Z, Y, self._error, self._dZ[i]), (rows * n, scale))

    def _descend(self, i: int, X: Any, rows: int) -> None:
        """W -= rate H^T dZ, clipped where the network is."""
        (k, n), H, dZ, W, V = self.network.shapes[i], self._input(i, X), self._dZ[i], self._W[i], self._V[i]
        weights = (W, V) if self._transposed(i) else (W,)
        both = "_both" if self._transposed(i) else ""
        if self._updates_in_product:
            self._launch("matmul_tn_update" + both, (H, dZ, *weights), (k, rows, n, self._rate))
            return
        dW, size = self._dW[i], (k, n) if both else (k * n,)
        self._launch("matmul_tn", (H, dZ, dW), (k, rows, n))
        if self._sums is None:
            self._launch("update" + both, (*weights, dW), (*size, self._rate))
            return
        self._launch("sum_squares", (dW, self._sums), (k * n,))
        clipped = (*size, self._rate, self.network.clip_norm or 0.0)
        self._launch("clipped_update" + both, (*weights, dW, self._sums), clipped)

    def _propagate(self, i: int, rows: int) -> None:
        """dZ of the layer below: dZ W^T where its H is above 0."""
        k, n = self.network.shapes[i]
        op, W = ("matmul", self._V[i]) if self._transposed(i) else ("matmul_nt", self._W[i])
        dZ, below, H = self._dZ[i], self._dZ[i - 1], self._H[i - 1]
        if self.backend.fused:
            self._launch(op + "_mask", (dZ, W, below, H), (rows, n, k))
        else:
            self._launch(op, (dZ, W, below), (rows, n, k))
            self._launch("mask", (below, H), (rows * k,))

    def _input(self, i: int, X: Any) -> Any:
        return self._H[i - 1] if i else X

    def _transposed(self, i: int) -> bool:
        """Whether W^T of this layer is kept: the first one's is never read."""
        return self.backend.pretransposed and i > 0

    @property
    def _updates_in_product(self) -> bool:
        return self.backend.fused and self.network.clip_norm is None

    def _launch(self, op: str, buffers: Sequence[Any], numbers: Sequence[float]) -> None:
        self.backend.launch(op, tuple(buffers), tuple(numbers), self._stream)
