"""Row tiles of A and C, each with its own stream: the part that ``streams`` and ``combined`` share."""

from typing import Any

import numpy as np

from snn.backends.base import Backend


class TileSlots:
    """A few streams, each with a device buffer for a tile of A and one for a tile of C."""

    def __init__(self, backend: Backend, count: int, tile_rows: int) -> None:
        self._backend = backend
        self._count = count
        self._tile_rows = tile_rows
        self._streams: list[Any] = []
        self._A: list[Any] = []
        self._C: list[Any] = []
        self._columns_A = self._columns_C = 0

    def ensure(self, columns_A: int, columns_C: int) -> None:
        """Make streams and buffers where there are none, and replace buffers that are too small."""
        if columns_A > self._columns_A:
            self._columns_A = self._resize(self._A, columns_A)
        if columns_C > self._columns_C:
            self._columns_C = self._resize(self._C, columns_C)
        while len(self._streams) < self._count:
            self._streams.append(self._backend.stream_create())

    def multiply(self, A: np.ndarray, dB: Any, C: np.ndarray) -> None:
        """C = A B, B on the device: tiles go round the streams, copy in, launch, copy out; then wait."""
        backend, rows = self._backend, self._tile_rows
        k, n = A.shape[1], C.shape[1]
        try:
            for tile, start in enumerate(range(0, len(A), rows)):
                slot = tile % self._count
                stream, dA, dC = self._streams[slot], self._A[slot], self._C[slot]
                A_tile, C_tile = A[start : start + rows], C[start : start + rows]
                backend.copy_in(dA, A_tile, stream)
                backend.launch("matmul", (dA, dB, dC), (len(A_tile), k, n), stream)
                backend.copy_out(C_tile, dC, stream)
        finally:
            for stream in self._streams:
                backend.stream_synchronize(stream)

    def close(self) -> None:
        """Destroy the streams and free the buffers."""
        while self._streams:
            self._backend.stream_destroy(self._streams.pop())
        for buffers in (self._A, self._C):
            while buffers:
                self._backend.free(buffers.pop())
        self._columns_A = self._columns_C = 0

    def _resize(self, buffers: list[Any], columns: int) -> int:
        while buffers:
            self._backend.free(buffers.pop())
        for _ in range(self._count):
            buffers.append(self._backend.malloc(4 * self._tile_rows * columns))
        return columns
