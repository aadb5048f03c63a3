"""Data, weights and all arithmetic on the device: the host only launches kernels."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.device_driven import Batch, DeviceDriven


class Resident(DeviceDriven):
    """Device-driven training with the data on the device.

    ``setup`` allocates everything and copies the data in. Per step there are only launches on one stream:
    nothing is allocated, copied or waited for, and the host may run ahead of the device.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._batches: list[Batch] = []

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        uploaded = self.upload(X, "data"), self.upload(Y, "data")
        for start in range(0, len(X), batch_size):
            rows = min(batch_size, len(X) - start)
            x, y = (
                self._rows_of(buffer, matrix, start, rows)
                for buffer, matrix in zip(uploaded, (X, Y), strict=True)
            )
            self._batches.append(self.batch(x, y, rows))

    def epoch(self) -> None:
        for batch in self._batches:
            self.step(batch)

    def close(self) -> None:
        self._batches = []
        super().close()

    def _rows_of(self, buffer: Any, matrix: np.ndarray, start: int, rows: int) -> Any:
        """The part of a matrix's device buffer that holds ``rows`` rows from ``start`` on."""
        row_bytes = 4 * matrix.shape[1]
        return self.backend.part(buffer, start * row_bytes, rows * row_bytes)
