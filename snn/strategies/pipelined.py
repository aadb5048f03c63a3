"""Data on the host, weights on the device: the next batches are copied while the current one trains."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.device_driven import Batch, DeviceDriven


class _Slot:
    """A pinned batch and its device buffers, with events of its last copy and of its last use."""

    def __init__(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        on_device: tuple[Any, Any],
        batch: Batch,
        copied: Any,
        used: Any,
    ) -> None:
        self.X, self.Y = X, Y
        self.on_device, self.batch = on_device, batch
        self.copied, self.used = copied, used


class Pipelined(DeviceDriven):
    """Device-driven training on data that may be larger than the device's memory.

    The data stays in pageable host memory. ``setup`` allocates ``buffers`` slots, each a pinned batch and a
    batch on the device, and a stream for copies.

    Per step the host waits for the last copy from the batch's slot, writes the batch to the slot, and issues
    2 asynchronous copies in. The copies wait for the step that last used the slot, and overlap the steps
    before this one. The launches of the step wait for the copies. Nothing is allocated.
    """

    def __init__(self, backend: Backend, buffers: int = 3) -> None:
        super().__init__(backend)
        self._slot_count = buffers
        self._copy_stream: Any = None
        self._events: list[Any] = []
        self._slots: list[_Slot] = []
        self._next = 0

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._data = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in range(0, len(X), batch_size)]
        self._copy_stream = self.backend.stream_create()
        batch = min(batch_size, len(X))
        for _ in range(self._slot_count):
            x, y = (self.host((batch, matrix.shape[1]), "data") for matrix in (X, Y))
            on_device = (self.malloc(x.size, "data"), self.malloc(y.size, "data"))
            whole = self.batch(*on_device, batch)
            self._slots.append(_Slot(x, y, on_device, whole, self._event(), self._event()))

    def epoch(self) -> None:
        backend = self.backend
        for X, Y in self._data:
            slot, rows = self._slots[self._next], len(X)
            self._next = (self._next + 1) % self._slot_count
            backend.event_synchronize(slot.copied)
            slot.X[:rows], slot.Y[:rows] = X, Y
            backend.event_wait(slot.used, self._copy_stream)
            backend.copy_in(slot.on_device[0], slot.X[:rows], self._copy_stream)
            backend.copy_in(slot.on_device[1], slot.Y[:rows], self._copy_stream)
            backend.event_record(slot.copied, self._copy_stream)
            backend.event_wait(slot.copied, self._stream)
            self.step(slot.batch._replace(rows=rows))
            backend.event_record(slot.used, self._stream)

    def close(self) -> None:
        if self._copy_stream is not None:
            self.backend.stream_synchronize(self._copy_stream)
            self.backend.stream_destroy(self._copy_stream)
            self._copy_stream = None
        if self._stream is not None:
            self.backend.stream_synchronize(self._stream)
        while self._events:
            self.backend.event_destroy(self._events.pop())
        self._slots, self._data = [], []
        super().close()

    def _event(self) -> Any:
        event = self.backend.event_create()
        self._events.append(event)
        return event
