"""Data and weights on the device, element-wise work too: the host only launches."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.device_driven import Batch, DeviceDriven


class Resident(DeviceDriven):
    """``setup`` allocates everything and copies the data in. Per step nothing but launches on one stream:
    nothing is allocated, copied or waited for; the host may run ahead of the device."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._batches: list[Batch] = []

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        super().setup(network, X, Y, batch_size, learning_rate)
        held = self.upload(X, "data"), self.upload(Y, "data")
        for start in range(0, len(X), batch_size):
            rows = min(batch_size, len(X) - start)
            self._batches.append(
                (*(self._rows_of(*one, start, rows) for one in zip(held, (X, Y), strict=True)), rows)
            )

    def epoch(self) -> None:
        for batch in self._batches:
            self.step(batch)

    def close(self) -> None:
        self._batches = []
        super().close()

    def _rows_of(self, held: Any, matrix: np.ndarray, start: int, rows: int) -> Any:
        """Some rows of a matrix on the device."""
        row = 4 * matrix.shape[1]
        return self.backend.part(held, start * row, rows * row)
