"""The paper's third strategy: pinned host memory, with streams and tile buffers kept across products."""

import numpy as np

from snn.backends.base import Backend
from snn.strategies.common.host_driven import HostDriven, TileSlots


class Combined(HostDriven):
    """Host-driven training in row tiles over streams, with pinned host matrices.

    Streams and tile buffers are created at the first product, and replaced when a product needs larger ones.
    Per product there remain, as in the paper's program, 1 malloc, 1 synchronous copy and 1 free for B, then
    per tile 1 asynchronous copy in, 1 launch and 1 asynchronous copy out, and 3 stream synchronisations.
    Every host matrix is a pinned allocation of its own. With ``tile_rows`` auto the number of tiles is chosen
    for each product, which waits for no more streams than it has tiles.
    """

    page_locked = True

    def __init__(self, backend: Backend, streams: int = 3, tile_rows: int | str = 128) -> None:
        super().__init__(backend)
        self._slots = TileSlots(backend, streams, tile_rows)

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        self._slots.ensure(A.shape[0], A.shape[1], B.shape[1])
        dB = self.backend.malloc(B.nbytes)
        try:
            self.backend.copy_in(dB, B)
            self._slots.multiply(A, dB, C)
        finally:
            self.backend.free(dB)
        return C

    def close(self) -> None:
        self._slots.close()
        super().close()
