"""A CPU baseline: the loops of ``sequential`` on several threads."""

from functools import partial
from typing import Any

from snn.backends.base import Backend
from snn.strategies.common.cpu import Arithmetic, CpuBaseline, Operations, check_threads
from snn.strategies.common.numba import operation, perceptron_loops
from snn.strategies.common.strategy import required


class Threads(CpuBaseline):
    """Training by loops that Numba compiles, on a given number of threads.

    ``setup`` compiles the loops, sets the number of Numba threads, and allocates what every ``CpuBaseline``
    does. Each product, and each pass over a matrix, is divided by rows among the threads and waits for the
    last of them. Nothing is allocated or copied. ``close`` restores the number of Numba threads.
    """

    convolves = True

    def __init__(self, backend: Backend, threads: int = 1) -> None:
        super().__init__(backend)
        self._threads = threads
        self._numba: Any = None
        self._previous_threads = 0

    def limit_threads(self) -> None:
        numba = required("numba")
        check_threads(self._threads, numba.config.NUMBA_NUM_THREADS)
        self._previous_threads, self._numba = numba.get_num_threads(), numba
        numba.set_num_threads(self._threads)

    def arithmetic(self) -> Arithmetic:
        return perceptron_loops(parallel=True)

    def operations(self) -> Operations:
        return partial(operation, True)

    def close(self) -> None:
        if self._numba is not None:
            self._numba.set_num_threads(self._previous_threads)
            self._numba = None
        super().close()
