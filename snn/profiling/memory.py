"""What memory is held, by purpose and by call site, and how it lies in the address space."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from snn.backends.base import Backend
from snn.profiling.calls import DEVICE_MEMORY, Call, Observer, Resource

if TYPE_CHECKING:
    from snn.profiling.live import Live

PURPOSES = ("data", "weights", "activations", "gradients", "workspace")
CHUNK = 2 << 20
"""Bytes that a CUDA driver maps at a time, and a huge page of a host: small blocks share such a chunk."""


@dataclass(frozen=True)
class Layout:
    """How live blocks lie in the chunks that they hold, in bytes.

    ``reserved_bytes``: all chunks that a block touches. ``largest_free_bytes``: the longest run between
    blocks in them. ``fragmentation``: the share of their free bytes that lies outside of it, 0 to 1.
    """

    live_bytes: int
    reserved_bytes: int
    largest_free_bytes: int
    fragmentation: float

    @property
    def stranded_bytes(self) -> int:
        """Reserved bytes that are free, but not where the largest free run is."""
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
        """Take note of a free."""
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

    def after(self, call: Call, live: "Live", started: float, ended: float) -> None:
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


def held(blocks: Iterable[Resource]) -> str:
    """What holds memory, largest first, each with its call site: for messages."""
    sites: dict[tuple[str, str], list[int]] = {}
    for block in blocks:
        noun = f"{block.purpose} block" if block.purpose else "block"
        sites.setdefault((noun, block.call_site), []).append(block.nbytes)
    lines = sorted(sites.items(), key=lambda item: -sum(item[1]))
    return ", ".join(
        f"{count(len(sizes), noun)} with {size(sum(sizes))} from {site}" for (noun, site), sizes in lines
    )


def warnings(free: int, total: int, share: float = 0.9) -> list[str]:
    """A sentence if more of a device's memory is in use than the given share."""
    used = total - free
    if used > share * total:
        return [f"{used / total:.0%} of the memory was in use: {size(free)} of {size(total)} were left"]
    return []


def size(nbytes: int) -> str:
    """Bytes for a reader: 12 bytes, 96 KiB, 1.5 GiB."""
    value, unit = float(nbytes), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.4g} {unit}"


def count(number: int, noun: str) -> str:
    """1 block, 2 blocks."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
