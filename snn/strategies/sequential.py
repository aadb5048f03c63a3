"""A CPU baseline: compiled loops on one thread."""

from functools import partial

from snn.strategies.common import numba_layers
from snn.strategies.common.cpu_baseline import CpuBaseline
from snn.strategies.common.cpu_layers import Operations
from snn.strategies.common.cpu_perceptron import Arithmetic
from snn.strategies.common.numba_loops import compiled


class Sequential(CpuBaseline):
    """Training by loops that Numba compiles, on one thread.

    ``setup`` compiles the loops and allocates what every ``CpuBaseline`` does. After that one thread computes
    without any library, and nothing is allocated, copied or waited for.
    """

    convolves = True

    def arithmetic(self) -> Arithmetic:
        return compiled(parallel=False)

    def operations(self) -> Operations:
        return partial(numba_layers.operation, False)
