"""Row tiles of A and C, each with its own stream: the part that ``streams`` and ``combined`` share."""

from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend

AUTO = "auto"
"""Instead of a number of rows: as ``tile_rows`` finds for each product."""

HIDDEN_BYTES = 128 << 10
"""Bytes of transfer that a tile must hide: what page-locked memory moves in the time of a few calls."""

FLOP_A_BYTE = 20
"""Operations of a kernel in the time that a byte's copy takes: few, so a kernel rather counts as long."""

PAPER_ROWS = 128
"""Rows of the paper's tiles: there are never more tiles than with these."""


def tile_rows(m: int, k: int, n: int) -> int:
    """How many rows of A (m, k) and C (m, n) a tile has where it is not fixed.

    Tiles overlap the copy in, the kernel and the copy out of a product. At best the longest of the three
    hides the other two, so a product has one tile for each ``HIDDEN_BYTES`` that those two are worth: at
    least one, at most as many as with ``PAPER_ROWS``, all of the same number of rows but the last. A tile
    costs the host its calls, whatever its size; where there is nothing to hide, it is only that.
    """
    stages = 4 * m * k, 4 * m * n, 2 * m * k * n // FLOP_A_BYTE
    worth = (sum(stages) - max(stages)) // HIDDEN_BYTES
    tiles = max(1, min(worth, -(-m // PAPER_ROWS)))
    return -(-m // tiles)


class _Held(NamedTuple):
    buffer: Any
    size: int  # bytes


class TileSlots:
    """A few streams, each with a device buffer for a tile of A and one for a tile of C.

    With ``rows`` auto no slot is made that a product has no tile for, and none grows that it does not use.
    """

    def __init__(self, backend: Backend, count: int, rows: int | str) -> None:
        self._backend = backend
        self._auto = rows == AUTO
        self._most = self._count = count
        self._rows = 0 if isinstance(rows, str) else rows
        self._streams: list[Any] = []
        self._A: list[_Held] = []
        self._C: list[_Held] = []

    def ensure(self, m: int, k: int, n: int) -> None:
        """Make what a product of these sizes needs where it is not there, and replace buffers too small."""
        if self._auto:
            self._rows = tile_rows(m, k, n)
            self._count = min(self._most, -(-m // self._rows))
        self._fit(self._A, 4 * self._rows * k)
        self._fit(self._C, 4 * self._rows * n)
        while len(self._streams) < self._count:
            self._streams.append(self._backend.stream_create())

    def multiply(self, A: np.ndarray, dB: Any, C: np.ndarray) -> None:
        """C = A B, B on the device: tiles go round the streams, copy in, launch, copy out; then wait."""
        backend, rows = self._backend, self._rows
        k, n = A.shape[1], C.shape[1]
        try:
            for tile, start in enumerate(range(0, len(A), rows)):
                slot = tile % self._count
                stream, dA, dC = self._streams[slot], self._A[slot].buffer, self._C[slot].buffer
                A_tile, C_tile = A[start : start + rows], C[start : start + rows]
                backend.copy_in(dA, A_tile, stream)
                backend.launch("matmul", (dA, dB, dC), (len(A_tile), k, n), stream)
                backend.copy_out(C_tile, dC, stream)
        finally:
            for stream in self._streams[: self._count]:
                backend.stream_synchronize(stream)

    def close(self) -> None:
        """Destroy the streams and free the buffers."""
        while self._streams:
            self._backend.stream_destroy(self._streams.pop())
        for buffers in (self._A, self._C):
            while buffers:
                self._backend.free(buffers.pop().buffer)

    def _fit(self, buffers: list[_Held], needed: int) -> None:
        """Buffers of the bytes needed, or more, for the slots in use."""
        short = [i for i, held in enumerate(buffers[: self._count]) if held.size < needed]
        for i in reversed(short):
            self._backend.free(buffers.pop(i).buffer)
        for i in (*short, *range(len(buffers) + len(short), self._count)):
            buffers.insert(i, _Held(self._backend.malloc(needed), needed))
