"""A baseline on the processor: the loops of ``sequential``, shared out to threads."""

from typing import Any

from snn.backends.base import Backend
from snn.strategies.common.cpu_baseline import Arithmetic, OnHost, check_threads
from snn.strategies.common.numba_loops import compiled
from snn.strategies.common.optional import needed


class Threads(OnHost):
    """``setup`` compiles the loops, sets how many of Numba's threads share them, and allocates all that
    ``OnHost`` does. Each product, and each pass over a matrix, is shared out by rows and waits for the last
    of the threads; nothing is allocated or copied. ``close`` sets Numba's threads back."""

    def __init__(self, backend: Backend, threads: int = 1) -> None:
        super().__init__(backend)
        self._threads = threads
        self._numba: Any = None
        self._before = 0

    def arithmetic(self) -> Arithmetic:
        numba = needed("numba")
        check_threads(self._threads, numba.config.NUMBA_NUM_THREADS)
        loops = compiled(parallel=True)
        self._before, self._numba = numba.get_num_threads(), numba
        numba.set_num_threads(self._threads)
        return loops

    def close(self) -> None:
        if self._numba is not None:
            self._numba.set_num_threads(self._before)
            self._numba = None
        super().close()
