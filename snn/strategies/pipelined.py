"""Data on the host, weights on the device: the next batches are copied while one trains."""

from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.device_driven import DeviceDriven


class _Slot:
    """A page-locked batch and its place on the device; events say when it was copied, and when used."""

    def __init__(
        self, X: np.ndarray, Y: np.ndarray, on_device: tuple[Any, Any], copied: Any, used: Any
    ) -> None:
        self.X, self.Y = X, Y
        self.on_device = on_device
        self.copied, self.used = copied, used


class Pipelined(DeviceDriven):
    """For data larger than the device: it stays in pageable host memory. ``setup`` allocates ``buffers``
    page-locked batches with as many on the device, and a stream for copies.

    Per step the host waits until the batch's slot was copied the last time, writes the batch to it, and asks
    for 2 asynchronous copies in, which wait for the step that used the slot and run beside the steps before
    this one. What is launched waits for the copies. Nothing is allocated.
    """

    def __init__(self, backend: Backend, buffers: int = 3) -> None:
        super().__init__(backend)
        self._count = buffers
        self._copies: Any = None
        self._events: list[Any] = []
        self._slots: list[_Slot] = []
        self._next = 0

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        super().setup(network, X, Y, batch_size, learning_rate)
        self._data = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in range(0, len(X), batch_size)]
        self._copies = self.backend.stream_create()
        batch = min(batch_size, len(X))
        for _ in range(self._count):
            pages = [self.host((batch, one.shape[1]), "data") for one in (X, Y)]
            on_device = (self.malloc(pages[0].size, "data"), self.malloc(pages[1].size, "data"))
            self._slots.append(_Slot(pages[0], pages[1], on_device, self._event(), self._event()))

    def epoch(self) -> None:
        backend = self.backend
        for X, Y in self._data:
            slot, rows = self._slots[self._next], len(X)
            self._next = (self._next + 1) % self._count
            backend.event_synchronize(slot.copied)
            slot.X[:rows], slot.Y[:rows] = X, Y
            backend.event_wait(slot.used, self._copies)
            backend.copy_in(slot.on_device[0], slot.X[:rows], self._copies)
            backend.copy_in(slot.on_device[1], slot.Y[:rows], self._copies)
            backend.event_record(slot.copied, self._copies)
            backend.event_wait(slot.copied, self._stream)
            self.step((*slot.on_device, rows))
            backend.event_record(slot.used, self._stream)

    def close(self) -> None:
        if self._copies is not None:
            self.backend.stream_synchronize(self._copies)
            self.backend.stream_destroy(self._copies)
            self._copies = None
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
