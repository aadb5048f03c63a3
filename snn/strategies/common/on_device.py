"""What the strategies that train on the device hold, and how they give it back."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.strategies.common.strategy import Strategy


class OnDevice(Strategy):
    """One stream, device buffers and pinned host arrays, all of which ``close`` frees."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._stream: Any = None
        self._buffers: list[Any] = []
        self._host: list[np.ndarray] = []

    def close(self) -> None:
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
            self.backend.stream_destroy(self._stream)
            self._stream = None
        while self._buffers:
            self.backend.free(self._buffers.pop())
        while self._host:
            self.backend.host_free(self._host.pop())
