"""Allocators of device memory, and a trace replayed through one of them."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.microbenchmarks.traces import Trace

MALLOC, MALLOC_ASYNC, CUPY_POOL, FIRST_FIT = "malloc", "malloc_async", "cupy_pool", "first_fit"
ALLOCATORS = (MALLOC, MALLOC_ASYNC, CUPY_POOL, FIRST_FIT)


@dataclass(frozen=True)
class Allocator:
    """Allocates and frees blocks of device memory; whatever it keeps is freed with its context."""

    malloc: Callable[[int], Any]
    free: Callable[[Any], None]


class FirstFit:
    """A pool that hands out the first free block that is large enough, whole, and keeps every block.

    It is the memory pool of many guides: blocks are neither split nor merged.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._blocks: list[list[Any]] = []  # the block, its bytes, and whether it is in use

    def malloc(self, nbytes: int) -> list[Any]:
        for block in self._blocks:
            if not block[2] and block[1] >= nbytes:
                block[2] = True
                return block
        block = [self._backend.malloc(nbytes), nbytes, True]
        self._blocks.append(block)
        return block

    def free(self, block: list[Any]) -> None:
        block[2] = False

    def close(self) -> None:
        """Free all blocks."""
        while self._blocks:
            self._backend.free(self._blocks.pop()[0])


@contextmanager
def allocator(backend: Backend, name: str) -> Iterator[Allocator]:
    """An allocator by its name, new. Raises Unsupported where the device has none of that name."""
    if name == MALLOC:
        yield Allocator(backend.malloc, backend.free)
    elif name == FIRST_FIT:
        fitting = FirstFit(backend)
        try:
            yield Allocator(fitting.malloc, fitting.free)
        finally:
            fitting.close()
    else:
        stream = backend.stream_create() if name == MALLOC_ASYNC else None
        try:
            pool = backend.pool_create(stream)
            try:
                yield Allocator(
                    lambda nbytes: backend.pool_malloc(pool, nbytes),
                    lambda buffer: backend.pool_free(pool, buffer),
                )
            finally:
                backend.pool_destroy(pool)
        finally:
            if stream is not None:
                backend.stream_destroy(stream)


def address(backend: Backend, block: Any) -> int:
    """Where a block of an allocator lies."""
    return backend.address(block[0] if isinstance(block, list) else block)


def replay(trace: Trace, of: Allocator, after: Callable[[int, Any], None] | None = None) -> None:
    """Make all allocations and frees of a trace in their order.

    ``after`` is told the number of each event, and the block that it has allocated, None for a free. Where an
    allocation fails, all blocks are freed, and OutOfMemory is raised, with the number of the event in
    ``Served``.
    """
    held: dict[int, Any] = {}
    try:
        for at, (block, nbytes) in enumerate(trace.events):
            if nbytes:
                made = held[block] = of.malloc(nbytes)
            else:
                made = None
                of.free(held.pop(block))
            if after is not None:
                after(at, made)
    finally:
        for made in held.values():
            of.free(made)


@dataclass
class Watched:
    """Bytes reserved from the system and in use, after each event of a trace, and where blocks were put."""

    reserved: list[int] = field(default_factory=list)
    addresses: dict[int, int] = field(default_factory=dict)
    """By the number of the event that allocates a block: its address."""


def watched(backend: Backend, trace: Trace, of: Allocator, reserved: Callable[[], int]) -> Watched:
    """A replay, with what the system has handed out after every allocation."""
    found = Watched()

    def after(at: int, block: Any) -> None:
        if block is not None:
            found.addresses[at] = address(backend, block)
            found.reserved.append(reserved())
        else:
            found.reserved.append(found.reserved[-1])

    replay(trace, of, after)
    return found


def reserved_bytes(backend: Backend) -> Callable[[], int]:
    """A function for the bytes that the system has handed out since now: of the device, or to malloc.

    On a CPU free parts of the process's heap count too, as malloc keeps them. Raises Unsupported where malloc
    does not say what it has.
    """
    if backend.is_processor:
        return _of_glibc()
    free = backend.memory()[0]
    return lambda: free - backend.memory()[0]


class _Mallinfo2(ctypes.Structure):
    """What glibc has of the system: ``arena`` bytes by sbrk, ``uordblks`` in use; ``hblkhd`` by mmap."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def _of_glibc() -> Callable[[], int]:
    try:
        library = ctypes.CDLL(None)
        mallinfo2, trim = library.mallinfo2, library.malloc_trim
    except (AttributeError, OSError) as error:
        raise Unsupported("what malloc reserves is known of glibc 2.33 or later only") from error
    mallinfo2.restype = _Mallinfo2
    trim(0)
    before = mallinfo2()
    in_use = before.uordblks + before.hblkhd

    def reserved() -> int:
        said = mallinfo2()
        return int(said.arena + said.hblkhd - in_use)

    return reserved


@contextmanager
def ballast(backend: Backend, leave: int) -> Iterator[None]:
    """Hold all of the device's memory but so many bytes. Raises OutOfMemory where there are fewer."""
    free = backend.memory()[0]
    if free <= leave:
        raise OutOfMemory(f"{free} bytes are free, and {leave} shall be left")
    block = backend.malloc(free - leave)
    try:
        yield
    finally:
        backend.free(block)
