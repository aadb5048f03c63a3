"""Products in row tiles of A and C over several streams, as ``streams`` and ``combined`` do them."""

from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend

AUTO = "auto"
"""The value in place of a number of rows that lets ``tile_rows`` choose it for each product."""

HIDDEN_BYTES = 128 << 10
"""Bytes of transfer that a tile must hide: what a pinned copy moves in the time of a few API calls."""

FLOP_PER_BYTE = 20
"""Operations of a kernel in the time of copying one byte: a low figure, which overestimates kernel time."""

PAPER_ROWS = 128
"""Rows of a tile in the paper. ``tile_rows`` never makes more tiles than this number of rows would."""


def tile_rows(m: int, k: int, n: int) -> int:
    """Number of rows of A (m, k) and C (m, n) in a tile, where the configuration does not fix it.

    Tiles overlap the copy in, the kernel and the copy out of a product. At best the longest of the three
    hides the other two. A product therefore gets one tile for each ``HIDDEN_BYTES`` that those two are
    equivalent to: at least one, and at most as many as with ``PAPER_ROWS``. All tiles but the last have the
    same number of rows. The host's calls per tile cost the same whatever its size, so a tile without
    anything to hide is pure overhead.
    """
    stages = 4 * m * k, 4 * m * n, 2 * m * k * n // FLOP_PER_BYTE
    worthwhile = (sum(stages) - max(stages)) // HIDDEN_BYTES
    tiles = max(1, min(worthwhile, -(-m // PAPER_ROWS)))
    return -(-m // tiles)


class _TileBuffer(NamedTuple):
    buffer: Any
    nbytes: int


class TileSlots:
    """Streams, each with a device buffer for a tile of A and one for a tile of C.

    With ``rows`` auto, a product creates no more slots than it has tiles, and only the slots that it uses
    grow.
    """

    def __init__(self, backend: Backend, count: int, rows: int | str) -> None:
        self._backend = backend
        self._auto = rows == AUTO
        self._max_slots = self._slots_in_use = count
        self._rows = 0 if isinstance(rows, str) else rows
        self._streams: list[Any] = []
        self._A: list[_TileBuffer] = []
        self._C: list[_TileBuffer] = []

    def ensure(self, m: int, k: int, n: int) -> None:
        """Create the streams and buffers that A (m, k) and C (m, n) lack, and replace buffers too small."""
        if self._auto:
            self._rows = tile_rows(m, k, n)
            self._slots_in_use = min(self._max_slots, -(-m // self._rows))
        self._fit(self._A, 4 * self._rows * k)
        self._fit(self._C, 4 * self._rows * n)
        while len(self._streams) < self._slots_in_use:
            self._streams.append(self._backend.stream_create())

    def multiply(self, A: np.ndarray, dB: Any, C: np.ndarray) -> None:
        """C = A B, with B on the device. Waits for the result.

        Tiles take the streams in turn: copy in, launch, copy out.
        """
        backend, rows = self._backend, self._rows
        k, n = A.shape[1], C.shape[1]
        try:
            for tile, start in enumerate(range(0, len(A), rows)):
                slot = tile % self._slots_in_use
                stream, dA, dC = self._streams[slot], self._A[slot].buffer, self._C[slot].buffer
                A_tile, C_tile = A[start : start + rows], C[start : start + rows]
                backend.copy_in(dA, A_tile, stream)
                backend.launch("matmul", (dA, dB, dC), (len(A_tile), k, n), stream)
                backend.copy_out(C_tile, dC, stream)
        finally:
            for stream in self._streams[: self._slots_in_use]:
                backend.stream_synchronize(stream)

    def close(self) -> None:
        """Destroy the streams and free the buffers."""
        while self._streams:
            self._backend.stream_destroy(self._streams.pop())
        for buffers in (self._A, self._C):
            while buffers:
                self._backend.free(buffers.pop().buffer)

    def _fit(self, buffers: list[_TileBuffer], nbytes: int) -> None:
        """Make the buffers of the slots in use at least ``nbytes`` large."""
        too_small = [i for i, tile in enumerate(buffers[: self._slots_in_use]) if tile.nbytes < nbytes]
        for i in reversed(too_small):
            self._backend.free(buffers.pop(i).buffer)
        for i in (*too_small, *range(len(buffers) + len(too_small), self._slots_in_use)):
            buffers.insert(i, _TileBuffer(self._backend.malloc(nbytes), nbytes))
