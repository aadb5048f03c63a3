"""Time of one allocation and of its free by size, alone and while a small block is alive."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import OutOfMemory, Unsupported
from snn.microbenchmarks.allocators import MALLOC
from snn.microbenchmarks.memory_calls import HOST_ALLOC, pinned
from snn.microbenchmarks.readings import Effort, Point, Reading, refused

ALLOCATION, FREE = _KINDS = "allocation", "free"
SMALL = 256
"""Bytes of the block that is alive."""


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """Two readings per call, number of live blocks and size: of the allocation, and of its free."""
    device = backends.make(backend, groups.load("kernel", "naive"))
    effort = Effort(settings["samples"], settings["seconds"])
    for call in (MALLOC, HOST_ALLOC):
        for live in settings["live"]:
            for nbytes in settings["sizes"]:
                points = [_point(kind, call, nbytes, live) for kind in _KINDS]
                try:
                    times = _taken(device, call, nbytes, live, effort)
                except (Unsupported, OutOfMemory) as error:
                    yield from (refused(point, error) for point in points)
                    continue
                for point, seconds in zip(points, times, strict=True):
                    yield Reading(point, tuple(seconds))


def _point(kind: str, call: str, nbytes: int, live: int) -> Point:
    return {"kind": kind, "call": call, "bytes": nbytes, "live": live}


def _taken(backend: Backend, call: str, nbytes: int, live: int, effort: Effort) -> list[list[float]]:
    """Seconds of allocations, and of their frees, each of a block that nothing has used."""
    allocate: Callable[[int], Any] = backend.malloc
    free: Callable[[Any], None] = backend.free
    if call == HOST_ALLOC:
        allocate, free = (lambda size: pinned(backend, (-(-size // 4),))), backend.host_free
    held: list[Any] = []
    with ExitStack() as stack:
        for _ in range(live):
            stack.callback(free, allocate(SMALL))
        return effort.together([lambda: held.append(allocate(nbytes)), lambda: free(held.pop())])
