"""Exact counts and bytes of what a strategy asked of its backend."""

from dataclasses import asdict, dataclass


@dataclass
class Ledger:
    """Totals of the calls that reached the device, and the most bytes alive at once.

    ``mallocs`` are cudaMalloc's; what pools and managed memory give is counted apart. Device bytes are those
    of all three, ``peak_pool_bytes`` those that pools have had from the system, in use or kept.
    """

    mallocs: int = 0
    malloc_bytes: int = 0
    frees: int = 0
    host_allocs: int = 0
    host_alloc_bytes: int = 0
    host_frees: int = 0
    pageable_allocs: int = 0
    pageable_alloc_bytes: int = 0
    pool_allocs: int = 0
    pool_alloc_bytes: int = 0
    pool_frees: int = 0
    pool_host_allocs: int = 0
    pool_host_alloc_bytes: int = 0
    pool_host_frees: int = 0
    managed_allocs: int = 0
    managed_alloc_bytes: int = 0
    managed_frees: int = 0
    advices: int = 0
    prefetches: int = 0
    prefetch_bytes: int = 0
    h2d_copies: int = 0
    h2d_bytes: int = 0
    d2h_copies: int = 0
    d2h_bytes: int = 0
    launches: int = 0
    graph_launches: int = 0
    graph_kernels: int = 0
    synchronizations: int = 0
    streams_created: int = 0
    streams_destroyed: int = 0
    peak_device_bytes: int = 0
    peak_host_bytes: int = 0
    peak_pool_bytes: int = 0

    def totals(self) -> dict[str, int]:
        return asdict(self)
