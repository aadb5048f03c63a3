"""A baseline on the processor: one thread, compiled loops."""

from snn.strategies.common.cpu_baseline import Arithmetic, OnHost
from snn.strategies.common.numba_loops import compiled


class Sequential(OnHost):
    """``setup`` compiles the loops, and allocates all that ``OnHost`` does; after it one thread computes,
    through no library. Nothing is allocated, copied or waited for."""

    def arithmetic(self) -> Arithmetic:
        return compiled(parallel=False)
