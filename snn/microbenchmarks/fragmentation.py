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
    watch,
)
from snn.microbenchmarks.readings import OUT_OF_MEMORY, UNSUPPORTED, Effort, Point, Reading, reading, refused
from snn.profiling.memory import CHUNK

FIRST, AGAIN, CAP = "first", "again", "cap"
"""The kinds of readings: through a new allocator, one that has served the trace before, and under a cap."""

_ROOM = 64 << 20  # bytes that stay free with the largest cap


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
    """Seconds of a replay through a new allocator, and again through the same one if it keeps memory."""
    first, again = (_point(kind, traced, of) for kind in (FIRST, AGAIN))
    try:
        reserved = reserved_bytes(device)
        with allocator(device, of) as made:
            first["reserved_bytes"] = max(0, *watch(device, traced, made, reserved)[0])
    except (Unsupported, OutOfMemory) as error:
        yield refused(first, error)
        return

    def replay_all(made: Allocator) -> None:
        replay(traced, made)
        device.synchronize()

    def through_new() -> list[float]:
        with ExitStack() as stack:
            made: list[Allocator] = []
            return effort.prepared(
                lambda: replay_all(made[0]),
                lambda: made.insert(0, stack.enter_context(allocator(device, of))),
                stack.close,
            )

    def through_one() -> list[float]:
        with allocator(device, of) as made:
            return effort.prepared(lambda: replay_all(made), lambda: None)

    yield reading(first, through_new)
    if of != MALLOC:
        yield reading(again, through_one)


def _left(traced: Trace, percent: int) -> int:
    """Bytes that a cap leaves: whole chunks, as the driver maps them."""
    return -(-traced.peak_bytes * percent // (100 * CHUNK)) * CHUNK


def _capped(device: Backend, traced: Trace, caps: Sequence[int]) -> Iterator[Reading]:
    """Readings by allocator at rising caps, percentages of the peak in use, until one suffices."""
    room, free = _left(traced, caps[-1]) + _ROOM, device.memory()[0]
    reason = f"{room} bytes are needed, but only {free} are free" if free <= room else ""
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


def _under(device: Backend, traced: Trace, of: str, percent: int) -> Reading:
    """One replay with ``percent`` of the peak in use left; if it fails, the number of calls served."""
    point = _point(CAP, traced, of) | {"percent": percent, "served": 0}

    def served(at: int, block: Any) -> None:
        point["served"] = at + 1

    def take() -> list[float]:
        with allocator(device, of) as made, ballast(device, _left(traced, percent)):
            started = time.perf_counter()
            replay(traced, made, served)
            return [time.perf_counter() - started]

    return reading(point, take)
