"""Exact counts and bytes of the calls that a strategy makes of its backend."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from snn.profiling.calls import Call, Observer

if TYPE_CHECKING:
    from snn.profiling.live import Live

_FIELDS: dict[str, tuple[str, str | None]] = {
    "malloc": ("mallocs", "malloc_bytes"),
    "free": ("frees", None),
    "host_alloc": ("host_allocs", "host_alloc_bytes"),
    "host_free": ("host_frees", None),
    "pool_malloc": ("pool_allocs", "pool_alloc_bytes"),
    "pool_free": ("pool_frees", None),
    "pool_host_alloc": ("pool_host_allocs", "pool_host_alloc_bytes"),
    "pool_host_free": ("pool_host_frees", None),
    "managed_alloc": ("managed_allocs", "managed_alloc_bytes"),
    "managed_free": ("managed_frees", None),
    "advise": ("advices", None),
    "prefetch_in": ("prefetches", "prefetch_bytes"),
    "prefetch_out": ("prefetches", "prefetch_bytes"),
    "copy_in": ("h2d_copies", "h2d_bytes"),
    "copy_out": ("d2h_copies", "d2h_bytes"),
    "launch": ("launches", None),
    "graph_launch": ("graph_launches", None),
    "synchronize": ("synchronizations", None),
    "stream_synchronize": ("synchronizations", None),
    "event_synchronize": ("synchronizations", None),
    "stream_create": ("streams_created", None),
    "stream_destroy": ("streams_destroyed", None),
}
"""The fields of a ledger that a call adds 1 and its bytes to."""

_PAGEABLE = {"host_alloc": ("pageable_allocs", "pageable_alloc_bytes"), "host_free": None}
"""The same of a host array that is not page-locked."""


@dataclass
class Ledger(Observer):
    """An observer that counts the calls that reach the device, and the most bytes alive at once.

    ``mallocs`` are cudaMalloc's; what pools and managed memory give is counted apart. Device bytes are those
    of all three, ``peak_pool_bytes`` those that pools have had from the system, in use or kept. What a graph
    has captured is counted as ``graph_kernels`` each time it is launched.
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

    def after(self, call: Call, live: "Live", started: float, ended: float) -> None:
        fields = (_PAGEABLE if call.page_locked is False else _FIELDS).get(call.name, _FIELDS.get(call.name))
        if fields is not None and not call.captured:
            calls, nbytes = fields
            vars(self)[calls] += 1
            if nbytes is not None:
                vars(self)[nbytes] += call.nbytes
        if call.name == "graph_launch":
            self.graph_kernels += live.kernels(call)
        elif call.name == "pool_malloc":
            self.peak_pool_bytes = max(self.peak_pool_bytes, live.pool_bytes(call))
        if call.makes is not None:
            self.peak_device_bytes = max(self.peak_device_bytes, live.device_bytes)
            self.peak_host_bytes = max(self.peak_host_bytes, live.page_locked_bytes)
