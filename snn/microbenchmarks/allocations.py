"""Seconds of one allocation and its free, by allocator and size."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.hardware.devices import usable_bytes
from snn.microbenchmarks.allocators import CUPY_POOL, MALLOC, MALLOC_ASYNC
from snn.microbenchmarks.readings import Effort, Point, Reading, reading

HOST_ALLOC, MANAGED_ALLOC = "host_alloc", "managed_alloc"

_LIVE = {MALLOC: (0, 1), MALLOC_ASYNC: (0,), CUPY_POOL: (0,), HOST_ALLOC: (0, 1), MANAGED_ALLOC: (1,)}
"""Other blocks of the allocator and size that are alive: the driver may carve a small one out of them.

Managed memory always has one, so that its budget is not counted again for each allocation.
"""

_HOST_SHARE = 4  # an array may take a quarter of the host's memory

Pair = tuple[Callable[[], Any], Callable[[Any], None]]
"""Allocates, and frees what was allocated."""


def measure(backend: Backend, sizes: Sequence[int], effort: Effort) -> Iterator[Reading]:
    """A reading per allocator, size in bytes and number of live blocks."""
    for call, counts in _LIVE.items():
        for live in counts:
            for nbytes in sizes:
                point: Point = {"kind": "allocation", "call": call, "bytes": nbytes, "live": live}
                yield reading(point, partial(_seconds, backend, call, nbytes, live, effort))


def _seconds(backend: Backend, call: str, nbytes: int, live: int, effort: Effort) -> list[float]:
    if call == MALLOC_ASYNC:
        stream = backend.stream_create()
        try:
            return _with_pool(backend, nbytes, effort, stream)
        finally:
            backend.stream_destroy(stream)
    if call == CUPY_POOL:
        return _with_pool(backend, nbytes, effort, None)
    allocate, free = _pair(backend, call, nbytes)
    held: list[Any] = []
    try:
        held += [allocate() for _ in range(live)]
        return effort.repeated(lambda: free(allocate()), backend.synchronize)
    finally:
        for block in held:
            free(block)


def _pair(backend: Backend, call: str, nbytes: int) -> Pair:
    shape = (-(-nbytes // 4),)
    if call == MALLOC:
        return lambda: backend.malloc(nbytes), backend.free
    if call == HOST_ALLOC:
        return lambda: pinned(backend, shape), backend.host_free
    return lambda: backend.managed_alloc(shape), backend.managed_free


def _with_pool(backend: Backend, nbytes: int, effort: Effort, stream: Any) -> list[float]:
    pool = backend.pool_create(stream)
    try:
        return effort.repeated(
            lambda: backend.pool_free(pool, backend.pool_malloc(pool, nbytes)), backend.synchronize
        )
    finally:
        backend.pool_destroy(pool)


def check_host(nbytes: int) -> None:
    """Raise OutOfMemory for an array of more than a quarter of the host's memory."""
    if nbytes > usable_bytes() // _HOST_SHARE:
        raise OutOfMemory(f"{nbytes} bytes are more than a quarter of the host's memory, {usable_bytes()}")


def pinned(backend: Backend, shape: tuple[int, ...]) -> Any:
    """A pinned host array. Raises Unsupported where the system refuses, and on a CPU, which has none.

    Raises OutOfMemory for more than a share of the host's memory, which would leave too little for others.
    """
    if backend.is_processor:
        raise Unsupported("pinned memory is for copies to a CUDA device")
    check_host(4 * math.prod(shape))
    refused = backend.pageable_fallbacks
    array = backend.host_alloc(shape)
    if backend.pageable_fallbacks > refused:
        backend.host_free(array)
        raise Unsupported(f"the system refuses to pin {4 * shape[0]} bytes of host memory")
    return array
