"""A CPU baseline: compiled loops on one thread."""

from functools import partial

from snn.strategies.common.cpu import Arithmetic, CpuBaseline, Operations
from snn.strategies.common.numba import operation, perceptron_loops


class Sequential(CpuBaseline):
    """Training by loops that Numba compiles, on one thread.

    ``setup`` compiles the loops and allocates what every ``CpuBaseline`` does. After that one thread computes
    without any library, and nothing is allocated, copied or waited for.
    """

    convolves = True

    def arithmetic(self) -> Arithmetic:
        return perceptron_loops(parallel=False)

    def operations(self) -> Operations:
        return partial(operation, False)
