"""Observers that count a strategy's calls and bytes, and map the memory that they hold."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from snn.backends.base import Backend
from snn.profiling.calls import DEVICE_MEMORY, METHODS
from snn.profiling.memory import CHUNK, PURPOSES, size
from snn.profiling.observed import Call, Live, Observer, Resource

_PAGEABLE = {"host_alloc": ("pageable_allocs", "pageable_alloc_bytes"), "host_free": ()}
"""Counters for a host array that is not page-locked, instead of its line in ``EveryCall``."""


class Ledger(Observer):
    """An observer that counts the calls that reach the device, and the most bytes alive at once.

    The lines of ``EveryCall`` name its fields. ``mallocs`` counts cudaMalloc alone; pools and managed
    memory have separate counters. Device bytes include all three; ``peak_pool_bytes`` is the most that pools
    have reserved from the system. A graph's launches are ``graph_kernels`` each time it is launched.
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
        if counts and not call.captured:
            totals[counts[0]] += 1
            if len(counts) > 1:
                totals[counts[1]] += call.nbytes or 0
        if call.name == "graph_launch":
            totals["graph_kernels"] += live.kernels(call)
        elif call.name == "pool_malloc":
            totals["peak_pool_bytes"] = max(totals["peak_pool_bytes"], live.pool_bytes(call))
        if call.makes is not None:
            totals["peak_device_bytes"] = max(totals["peak_device_bytes"], live.device_bytes)
            totals["peak_host_bytes"] = max(totals["peak_host_bytes"], live.page_locked_bytes)


class Layout(NamedTuple):
    """Layout of live blocks in the chunks that they hold, in bytes.

    ``reserved_bytes``: all chunks that a block touches. ``largest_free_bytes``: the longest run between
    blocks in them. ``fragmentation``: the share of their free bytes that lies outside of it, 0 to 1.
    """

    live_bytes: int
    reserved_bytes: int
    largest_free_bytes: int
    fragmentation: float

    @property
    def stranded_bytes(self) -> int:
        return self.reserved_bytes - self.live_bytes - self.largest_free_bytes


def layout(blocks: Iterable[tuple[int, int]], chunk: int = CHUNK) -> Layout:
    """The layout of blocks, each an address and a size in bytes, that do not overlap."""
    live = reserved = 0
    gaps = [0]
    cursor = region_end = 0  # behind the last block; behind the last chunk of an unbroken row of them
    for address, nbytes in sorted(blocks):
        first, end = address // chunk * chunk, -(-(address + nbytes) // chunk) * chunk
        if first > region_end:
            gaps.append(region_end - cursor)
            reserved += end - first
            cursor, region_end = first, end
        elif end > region_end:
            reserved += end - region_end
            region_end = end
        gaps.append(address - cursor)
        cursor = address + nbytes
        live += nbytes
    largest = max(*gaps, region_end - cursor)
    free = reserved - live
    return Layout(live, reserved, largest, 1 - largest / free if free else 0.0)


class Space:
    """Device or page-locked host memory: its live blocks by number, the peak, and the worst fragmentation."""

    def __init__(self) -> None:
        self.blocks: dict[int, Resource] = {}
        self.peak: list[Resource] = []
        self.live_bytes = self.peak_bytes = 0
        self.peak_layout = self.worst = layout([])

    def add(self, number: int, block: Resource) -> bool:
        """Take note of an allocation; True if there has never been as much as now."""
        self.blocks[number] = block
        self.live_bytes += block.nbytes
        if self.live_bytes <= self.peak_bytes:
            return False
        self.peak_bytes, self.peak = self.live_bytes, list(self.blocks.values())
        self.peak_layout = self._look()
        return True

    def remove(self, number: int) -> None:
        self.live_bytes -= self.blocks.pop(number).nbytes
        if self.blocks:
            self._look()

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

    def _look(self) -> Layout:
        """The layout of the live blocks, remembered if it is the worst."""
        now = layout((block.address, block.nbytes) for block in self.blocks.values())
        self.worst = max(self.worst, now, key=lambda layout: layout.stranded_bytes)
        return now


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
        used, full = total - free, f"{size(free)} of {size(total)} were left"
        return {
            "device": self.device.describe(),
            "page_locked": self.page_locked.describe(),
            "least_free_bytes": free,
            "total_bytes": total,
            "warnings": [f"{used / total:.0%} of the memory was in use: {full}"]
            if used > 0.9 * total
            else [],
        }


def by_purpose(blocks: Iterable[Resource]) -> dict[str, int]:
    """Bytes for each purpose; memory that was never copied to or from is workspace."""
    total = dict.fromkeys(PURPOSES, 0)
    for block in blocks:
        total[block.purpose or "workspace"] += block.nbytes
    return {purpose: nbytes for purpose, nbytes in total.items() if nbytes}
