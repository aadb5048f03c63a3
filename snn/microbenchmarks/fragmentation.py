"""Fragmentation: traces of allocations replayed through each allocator, and with little memory."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import OutOfMemory, Unsupported
from snn.microbenchmarks.allocators import (
    ALLOCATORS,
    MALLOC,
    Allocator,
    Trace,
    allocator,
    ballast,
    replay,
    reserved_bytes,
    trace,
    watched,
)
from snn.microbenchmarks.readings import OUT_OF_MEMORY, UNSUPPORTED, Effort, Point, Reading, reading, refused
from snn.profiling.memory import CHUNK

FIRST, AGAIN, CAP = "first", "again", "cap"
"""The kinds of readings: through a new allocator, one that has served the trace before, and under a cap."""

_ROOM = 64 << 20  # bytes that are left beside the largest cap


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """The readings of each trace and allocator: time, peak reserved, and the caps that it is served under."""
    device = backends.make(backend, groups.load("kernel", "naive"))
    effort = Effort(settings["samples"], settings["seconds"])
    for name in settings["traces"]:
        traced = trace(name, settings["bytes"], settings["calls"], settings["seed"])
        for of in ALLOCATORS:
            yield from _replayed(device, traced, of, effort)
        yield from _capped(device, traced, sorted(settings["caps"]))


def _point(kind: str, traced: Trace, of: str) -> Point:
    calls = {"calls": len(traced.events), "peak_bytes": traced.peak_bytes}
    return {"kind": kind, "trace": traced.name, "allocator": of, **calls}


def _replayed(device: Backend, traced: Trace, of: str, effort: Effort) -> Iterator[Reading]:
    """Seconds of a replay through a new allocator, and again through the same one where it keeps memory."""
    first, again = (_point(kind, traced, of) for kind in (FIRST, AGAIN))
    try:
        reserved = reserved_bytes(device)
        with allocator(device, of) as made:
            first["reserved_bytes"] = max(0, *watched(device, traced, made, reserved).reserved)
    except (Unsupported, OutOfMemory) as error:
        yield refused(first, error)
        return
    yield reading(first, lambda: _through_new(device, traced, of, effort))
    if of != MALLOC:
        yield reading(again, lambda: _through_one(device, traced, of, effort))


def _through_new(device: Backend, traced: Trace, of: str, effort: Effort) -> list[float]:
    """Seconds of replays, each through a new allocator."""
    with ExitStack() as stack:
        made: list[Allocator] = []
        return effort.prepared(
            lambda: _replay(device, traced, made[0]),
            lambda: made.insert(0, stack.enter_context(allocator(device, of))),
            stack.close,
        )


def _through_one(device: Backend, traced: Trace, of: str, effort: Effort) -> list[float]:
    """Seconds of replays through one allocator, but for the first."""
    with allocator(device, of) as made:
        return effort.prepared(lambda: _replay(device, traced, made), lambda: None)


def _replay(device: Backend, traced: Trace, made: Allocator) -> None:
    replay(traced, made)
    device.synchronize()


def _capped(device: Backend, traced: Trace, caps: Sequence[int]) -> Iterator[Reading]:
    """By allocator the caps, percentages of the peak in use, up to the least one that suffices."""
    room, free = _left(traced, caps[-1]) + _ROOM, device.memory()[0]
    reason = f"{room} bytes are not free, but {free}" if free <= room else ""
    reason = "the memory of a host is not filled up" if device.is_processor else reason
    if reason:
        for of in ALLOCATORS:
            yield Reading(_point(CAP, traced, of), status=UNSUPPORTED, reason=reason)
        return
    with ballast(device, room):  # held once, as it takes long: then the caps differ by little
        for of in ALLOCATORS:
            for percent in caps:
                found = _under(device, traced, of, percent)
                yield found
                if found.status != OUT_OF_MEMORY:
                    break


def _left(traced: Trace, percent: int) -> int:
    """Bytes that a cap leaves: whole chunks, as the driver maps them."""
    return -(-traced.peak_bytes * percent // (100 * CHUNK)) * CHUNK


def _under(device: Backend, traced: Trace, of: str, percent: int) -> Reading:
    """One replay with so much memory left; of one that fails, how many calls were served."""
    point = _point(CAP, traced, of) | {"percent": percent, "served": 0}

    def served(at: int, block: Any) -> None:
        point["served"] = at + 1

    def take() -> list[float]:
        with allocator(device, of) as made, ballast(device, _left(traced, percent)):
            started = time.perf_counter()
            replay(traced, made, served)
            return [time.perf_counter() - started]

    return reading(point, take)
