"""The paper's first strategy: row tiles over streams, which are created and destroyed for every product."""

import numpy as np

from snn.backends.base import Backend
from snn.strategies.common.host_driven import HostDriven, TileSlots


class Streams(HostDriven):
    """Host-driven training in row tiles over streams, with pinned host matrices.

    Per product, with 3 streams and tiles of 128 rows: 1 + 2 x 3 mallocs and frees (B, and for each stream a
    tile of A and one of C), 3 streams created, synchronised and destroyed, 1 synchronous copy of B, then per
    tile 1 asynchronous copy in, 1 launch, 1 asynchronous copy out. Every host matrix is a pinned allocation
    of its own. With ``tile_rows`` auto the number of tiles is chosen for each product, which has no more
    streams and buffers than tiles.
    """

    page_locked = True

    def __init__(self, backend: Backend, streams: int = 3, tile_rows: int | str = 128) -> None:
        super().__init__(backend)
        self._stream_count, self._tile_rows = streams, tile_rows

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        slots = TileSlots(self.backend, self._stream_count, self._tile_rows)
        dB = self.backend.malloc(B.nbytes)
        try:
            self.backend.copy_in(dB, B)
            slots.ensure(A.shape[0], A.shape[1], B.shape[1])
            slots.multiply(A, dB, C)
        finally:
            slots.close()
            self.backend.free(dB)
        return C
