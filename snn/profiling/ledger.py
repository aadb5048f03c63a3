"""Observers that count a strategy's calls and bytes, and map the memory that they hold."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from snn.backends.base import Backend
from snn.profiling.calls import DEVICE_MEMORY, METHODS
from snn.profiling.memory import PURPOSES, Layout, layout, warnings
from snn.profiling.observed import Call, Live, Observer, Resource

_PAGEABLE: dict[str, tuple[str, ...]] = {
    "host_alloc": ("pageable_allocs", "pageable_alloc_bytes"),
    "host_free": (),
}
"""What a call of a host array that is not page-locked counts as, instead of its line in ``EveryCall``."""


class Ledger(Observer):
    """An observer that counts the calls that reach the device, and the most bytes alive at once.

    Its fields are those that the lines of ``EveryCall`` name. ``mallocs`` are cudaMalloc's; what pools and
    managed memory give is counted apart. Device bytes are those of all three, ``peak_pool_bytes`` those that
    pools have had from the system, in use or kept. What a graph has captured is counted as ``graph_kernels``
    each time it is launched.
    """

    def __init__(self) -> None:
        names = [name for method in METHODS.values() for name in method.counts]
        names += [*_PAGEABLE["host_alloc"], "graph_kernels"]
        names += ["peak_device_bytes", "peak_host_bytes", "peak_pool_bytes"]
        self._totals = dict.fromkeys(names, 0)

    def __getattr__(self, name: str) -> int:
        if name.startswith("_") or name not in self._totals:
            raise AttributeError(name)
        return self._totals[name]

    def totals(self) -> dict[str, int]:
        return dict(self._totals)

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        totals = self._totals
        counts = METHODS[call.name].counts
        if call.page_locked is False:
            counts = _PAGEABLE.get(call.name, counts)
        if not call.captured:
            for name, number in zip(counts, (1, call.nbytes), strict=False):
                totals[name] += number or 0
        if call.name == "graph_launch":
            totals["graph_kernels"] += live.kernels(call)
        elif call.name == "pool_malloc":
            totals["peak_pool_bytes"] = max(totals["peak_pool_bytes"], live.pool_bytes(call))
        if call.makes is not None:
            totals["peak_device_bytes"] = max(totals["peak_device_bytes"], live.device_bytes)
            totals["peak_host_bytes"] = max(totals["peak_host_bytes"], live.page_locked_bytes)


@dataclass
class Space:
    """Device or page-locked host memory: its live blocks by number, the peak, and the worst fragmentation."""

    blocks: dict[int, Resource] = field(default_factory=dict)
    live_bytes: int = 0
    peak_bytes: int = 0
    peak: list[Resource] = field(default_factory=list)
    peak_layout: Layout = field(default_factory=lambda: layout([]))
    worst: Layout = field(default_factory=lambda: layout([]))

    def add(self, number: int, block: Resource) -> bool:
        """Take note of an allocation; True if there has never been as much as now."""
        self.blocks[number] = block
        self.live_bytes += block.nbytes
        if self.live_bytes <= self.peak_bytes:
            return False
        self.peak_bytes, self.peak = self.live_bytes, list(self.blocks.values())
        self.peak_layout = self._layout()
        self._compare(self.peak_layout)
        return True

    def remove(self, number: int) -> None:
        self.live_bytes -= self.blocks.pop(number).nbytes
        if self.blocks:
            self._compare(self._layout())

    def describe(self) -> dict[str, Any]:
        """The peak by purpose with its layout, and the worst fragmentation: plain values for a record."""
        return {
            "peak_bytes": self.peak_bytes,
            "peak_by_kind": by_purpose(self.peak),
            "reserved_bytes": self.peak_layout.reserved_bytes,
            "largest_free_bytes": self.peak_layout.largest_free_bytes,
            "fragmentation": self.peak_layout.fragmentation,
            "worst_fragmentation": self.worst.fragmentation,
            "worst_stranded_bytes": self.worst.stranded_bytes,
        }

    def _layout(self) -> Layout:
        return layout((block.address, block.nbytes) for block in self.blocks.values())

    def _compare(self, now: Layout) -> None:
        self.worst = max(self.worst, now, key=lambda layout: layout.stranded_bytes)


class MemoryMap(Observer):
    """An observer that maps device memory and page-locked host memory, and notes how full the device was."""

    def __init__(self) -> None:
        self.device, self.page_locked = Space(), Space()
        self._least_free: tuple[int, int] | None = None

    def after(self, call: Call, live: Live, started: float, ended: float) -> None:
        if call.ends is not None:
            for space in (self.device, self.page_locked):
                if call.ends in space.blocks:
                    space.remove(call.ends)
        elif call.name in DEVICE_MEMORY and call.makes is not None:
            if self.device.add(call.makes, live.resources[call.makes]):
                free_and_total = live.backend.memory()
                self._least_free = min(self._least_free or free_and_total, free_and_total)
        elif call.page_locked and call.makes is not None:
            self.page_locked.add(call.makes, live.resources[call.makes])

    def describe(self, backend: Backend) -> dict[str, Any]:
        """Peaks by purpose, layout and warnings of the pass so far: plain values for a record."""
        free, total = self._least_free or backend.memory()
        return {
            "device": self.device.describe(),
            "page_locked": self.page_locked.describe(),
            "least_free_bytes": free,
            "total_bytes": total,
            "warnings": warnings(free, total),
        }


def by_purpose(blocks: Iterable[Resource]) -> dict[str, int]:
    """Bytes for each purpose; what was never copied to or from is workspace."""
    total = dict.fromkeys(PURPOSES, 0)
    for block in blocks:
        total[block.purpose or "workspace"] += block.nbytes
    return {purpose: nbytes for purpose, nbytes in total.items() if nbytes}
