"""What memory is for, how blocks lie in the address space, and bytes in words."""

from collections.abc import Iterable
from dataclasses import dataclass

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
