"""What memory is held, by kind and by the line that asked for it, and how it lies in the address space."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from snn.config.groups import ROOT

KINDS = ("data", "weights", "activations", "gradients", "workspace")
CHUNK = 2 << 20
"""Bytes that a CUDA driver maps at a time, and a huge page of a host: small blocks share such a chunk."""

# What passes a call on; the line that asked is the first outside of it.
_HELPERS = ("allocate", "result", "scratch", "discard", "_hold")
_PASSING_ON = (
    "snn/profiling/accounting.py",
    "snn/profiling/memory.py",
    "snn/profiling/tracer.py",
    "snn/profiling/time_breakdown.py",
    "snn/backends",
)


@dataclass
class Block:
    """A live allocation. A ``kind`` that was not ``told`` is None until something is copied in or out."""

    address: int
    nbytes: int
    kind: str | None
    site: str
    told: bool = True


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
        if first > region_end or not live:
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
    """One memory, of the device or page-locked on the host: what lives in it, and its two worst moments."""

    blocks: dict[Any, Block] = field(default_factory=dict)
    live_bytes: int = 0
    peak_bytes: int = 0
    peak: list[Block] = field(default_factory=list)
    peak_layout: Layout = field(default_factory=lambda: layout([]))
    worst: Layout = field(default_factory=lambda: layout([]))

    def add(self, key: Any, block: Block) -> bool:
        """Take note of an allocation; True where there has never been as much as now."""
        self.blocks[key] = block
        self.live_bytes += block.nbytes
        if self.live_bytes <= self.peak_bytes:
            return False
        self.peak_bytes, self.peak = self.live_bytes, list(self.blocks.values())
        self.peak_layout = self._layout()
        self.worst = max(self.worst, self.peak_layout, key=lambda one: one.stranded_bytes)
        return True

    def remove(self, key: Any) -> Block:
        """Take note of a free."""
        block = self.blocks.pop(key)
        self.live_bytes -= block.nbytes
        if self.blocks:
            self.worst = max(self.worst, self._layout(), key=lambda one: one.stranded_bytes)
        return block

    def describe(self) -> dict[str, Any]:
        """The peak by kind with its layout, and the worst fragmentation: plain values for a record."""
        return {
            "peak_bytes": self.peak_bytes,
            "peak_by_kind": by_kind(self.peak),
            "reserved_bytes": self.peak_layout.reserved_bytes,
            "largest_free_bytes": self.peak_layout.largest_free_bytes,
            "fragmentation": self.peak_layout.fragmentation,
            "worst_fragmentation": self.worst.fragmentation,
            "worst_stranded_bytes": self.worst.stranded_bytes,
        }

    def _layout(self) -> Layout:
        return layout((block.address, block.nbytes) for block in self.blocks.values())


def by_kind(blocks: Iterable[Block]) -> dict[str, int]:
    """Bytes of each kind; what was never copied to or from is workspace."""
    total = dict.fromkeys(KINDS, 0)
    for block in blocks:
        total[block.kind or "workspace"] += block.nbytes
    return {kind: nbytes for kind, nbytes in total.items() if nbytes}


def held(blocks: Iterable[Block]) -> str:
    """What holds memory, largest first, each with the line that allocated it: for messages."""
    sites: dict[tuple[str, str], list[int]] = {}
    for block in blocks:
        noun = f"{block.kind} block" if block.kind else "block"
        sites.setdefault((noun, block.site), []).append(block.nbytes)
    lines = sorted(sites.items(), key=lambda item: -sum(item[1]))
    return ", ".join(
        f"{count(len(sizes), noun)} with {size(sum(sizes))} from {site}" for (noun, site), sizes in lines
    )


def warnings(free: int, total: int, share: float = 0.9) -> list[str]:
    """A sentence where more of a device's memory is in use than the given share."""
    used = total - free
    if total and used > share * total:
        return [f"{used / total:.0%} of the memory was in use: {size(free)} of {size(total)} were left"]
    return []


def caller() -> str:
    """The line of the strategy that asked for what is being done now: ``snn/strategies/x.py:12 in f``."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        file = _relative(frame.f_code.co_filename)
        if not file.startswith(_PASSING_ON) and frame.f_code.co_name not in _HELPERS:
            return f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return "unknown"


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


@cache
def _relative(file: str) -> str:
    path = Path(file)
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
