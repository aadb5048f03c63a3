"""Training in one launch of at most about a second, or several, for networks that the backend plans for."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.persistent_plans import HEAD, Shape, has_outliers, padded
from snn.errors import Unsupported
from snn.models.host_ops import squared_error
from snn.models.network import Network
from snn.strategies.common.launched_training import LaunchedTraining
from snn.strategies.common.on_device import OnDevice

KERNELS = (
    "kernels/persistent/one_layer.cu",
    "kernels/persistent/two_layers.cu",
    "kernels/persistent/three_layers.cu",
    "kernels/persistent/grid.cu",
)
"""Sources of the kernels of all plans; a cell depends on them if its strategy imports this module."""


class SingleLaunch(OnDevice):
    """Training of one or several networks in one launch of at most about a second, or several of them.

    Weights, data and workspace are on the device, padded (``snn.backends.persistent_plans``). ``setup``
    raises Unsupported if the backend has no plan for the network. Lists of weights hold those of the first
    network, then those of the next one. If ``load`` is given the weights of one network, all start from them.
    """

    by_epoch = at_once = True

    rates: Sequence[float] = ()
    """The learning rate of each network; empty for a single network, whose rate ``setup`` is given."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._trained = False

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network, batch = network, min(batch_size, len(X))
        widths = tuple(map(padded, network.mlp_widths()[:-1]))
        sequential, max_norm = network.update_order == "sequential", network.clip_norm or 0.0
        rates = self.rates or [learning_rate]
        self._members = len(rates)
        outliers = len(widths) == 4 and has_outliers(X)  # only the kernel for three hidden layers minds
        shape = Shape(widths, batch, sequential, max_norm > 0, self._members, outliers)
        self.plan = self.backend.training_plan(shape)
        self._training = LaunchedTraining(self.backend, shape, len(X), rates[0], max_norm)
        self._shapes = [(k, n) for k, n in zip(widths, (*widths[1:], 1), strict=True)]
        self._last_rows = len(X) % batch or batch
        self._stream = self.backend.stream_create()
        sizes = self._training.sizes
        of_data = (batch, X.shape[1]), (padded(batch), widths[0]), sum(sizes[:2]) / (X.size + Y.size)
        self.plan = "; ".join(filter(None, [self.plan, words_of_padding(*of_data)]))
        for elements, purpose in zip(
            sizes, ("data", "data", "weights", "gradients", "workspace"), strict=True
        ):
            self._buffers.append(self.backend.malloc(4 * elements, purpose))
        for buffer, matrix, width in zip(self._buffers, (X, Y), (widths[0], 1), strict=False):
            self._upload(buffer, in_batches(matrix, batch, width, padded(batch)), "data")
        workspace = np.zeros(sizes[4], dtype=np.float32)
        if self._members > 1:
            workspace[HEAD:] = rates
        self._upload(self._buffers[4], workspace, "workspace")
        self._upload(self._buffers[3], np.zeros(sizes[3], dtype=np.float32), "gradients")
        for elements, purpose in zip(sizes[2:4], ("weights", "gradients"), strict=True):
            self._host.append(self.backend.host_alloc((elements,), purpose))

    def load(self, weights: list[np.ndarray]) -> None:
        flat, offset = self._host[0], 0
        flat.fill(0)
        shared = len(weights) == len(self._shapes)
        of_all_networks = weights * self._members if shared else weights
        for W, (k, n) in zip(of_all_networks, self._shapes * self._members, strict=True):
            flat[offset : offset + k * n].reshape(k, n)[: W.shape[0], : W.shape[1]] = W
            offset += k * n
        self.backend.copy_in(self._buffers[2], flat, self._stream)
        self.backend.stream_synchronize(self._stream)
        self._trained = False

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        self._training.train(epochs, tuple(self._buffers), self._stream, self.progress)
        self._trained = True

    def check_trained(self) -> None:
        self._training.check(self._buffers[4])

    def loss(self) -> float:
        return fmean(self.losses())

    def losses(self) -> list[float]:
        if not self._trained:
            return [float("nan")] * self._members
        errors = self._host[1]
        self.backend.copy_out(errors, self._buffers[3], self._stream)
        self.backend.stream_synchronize(self._stream)
        return [squared_error(member[: self._last_rows]) for member in errors.reshape(self._members, -1)]

    def epoch_losses(self) -> np.ndarray:
        raise Unsupported("a training in one launch keeps the loss of its last batch only")

    def predict(self, X: np.ndarray) -> np.ndarray:
        raise Unsupported("there is no prediction in one launch: its kernels only train")

    def weights(self) -> list[np.ndarray]:
        flat, offset, weights = self._host[0], 0, []
        self.backend.copy_out(flat, self._buffers[2], self._stream)
        self.backend.stream_synchronize(self._stream)
        shapes = zip(self.network.shapes, self._shapes, strict=True)
        for (rows, cols), (k, n) in list(shapes) * self._members:
            weights.append(flat[offset : offset + k * n].reshape(k, n)[:rows, :cols].copy())
            offset += k * n
        return weights

    def _upload(self, buffer: Any, matrix: np.ndarray, purpose: str) -> None:
        """Copy a matrix to the device through a pinned array, which is freed afterwards."""
        staged = self.backend.host_alloc(matrix.shape, purpose)
        try:
            staged[...] = matrix
            self.backend.copy_in(buffer, staged)
        finally:
            self.backend.host_free(staged)


def words_of_padding(of_batch: tuple[int, int], stored: tuple[int, int], times: float) -> str:
    """What a plan says of data whose batches are stored as larger matrices; "" if they are not.

    ``times``: the memory that all data take, relative to the data themselves.
    """
    if of_batch == stored:
        return ""
    (rows, features), (lines, width) = of_batch, stored
    padded_to = f"batches of {rows} x {features} padded to {lines} x {width}"
    return f"{padded_to}: data take {times:.2f} times their memory"


def in_batches(matrix: np.ndarray, batch: int, width: int, lines: int) -> np.ndarray:
    """The matrix as an array (batches, lines, width), with rows and columns padded by zeros."""
    batches = -(-len(matrix) // batch)
    result = np.zeros((batches, lines, width), dtype=np.float32)
    for i in range(batches):
        rows = matrix[i * batch : (i + 1) * batch]
        result[i, : len(rows), : rows.shape[1]] = rows
    return result
