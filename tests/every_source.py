"""A CPU backend that has memory from every source: what each is for, without what CUDA does for it."""

import numpy as np

from snn.backends.cpu.backend import CpuBackend
from snn.errors import Unsupported


class Pool:
    """Counts its live bytes, and keeps its most as what it had from the system."""

    def __init__(self):
        self.live = self.most = 0


class EverySource(CpuBackend):
    """Pools over ``malloc`` and ``host_alloc``, and managed arrays that are their own device memory."""

    prefetches_out = True

    def pool_create(self, stream=None):
        return Pool()

    def pool_destroy(self, pool):
        assert pool.live == 0

    def pool_malloc(self, pool, nbytes, kind=None):
        buffer = self.malloc(nbytes, kind)
        pool.live += nbytes
        pool.most = max(pool.most, pool.live)
        return buffer

    def pool_free(self, pool, buffer):
        pool.live -= buffer.words.nbytes
        self.free(buffer)

    def pool_host_alloc(self, pool, shape, kind="workspace"):
        return self.host_alloc(shape, kind, True)

    def pool_host_free(self, pool, array):
        self.host_free(array)

    def pool_bytes(self, pool):
        return pool.most

    def managed_alloc(self, shape, kind="workspace"):
        return self.host_alloc(shape, kind, True)

    def managed_free(self, array):
        array.fill(np.nan)  # whoever uses it afterwards shall notice

    def advise(self, array, advice):
        assert advice in ("read_mostly", "preferred_location", "accessed_by")

    def prefetch_in(self, array):
        """It is there already."""

    def prefetch_out(self, array):
        """It is there already."""


class Captures(EverySource):
    """Has graphs as well, which do nothing, so that each strategy asks for all that it asks of a GPU.

    ``plan``: whether a whole training in one launch can be planned.
    """

    overlap_launches = graph_begin = graph_launch = graph_destroy = lambda self, *arguments: None

    def graph_end(self, stream, buffer=None):
        return object()

    def __init__(self, plan=True, **kernel):
        super().__init__(**kernel)
        self._plan = plan

    def training_launch(self, shape):
        if not self._plan:
            raise Unsupported("no cluster")
        return super().training_launch(shape)
