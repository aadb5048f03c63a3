"""Time of the calls that allocate and move memory, by size: allocations, copies, first touches, and overlap.

Overlap is measured between copies to the device and kernels on the copied chunks, on one to several streams.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from snn import backends
from snn.backends.base import Backend
from snn.config import groups
from snn.errors import OutOfMemory, Unsupported
from snn.hardware.devices import usable_bytes
from snn.microbenchmarks.allocators import CUPY_POOL, MALLOC, MALLOC_ASYNC, allocator
from snn.microbenchmarks.readings import Effort, Point, Reading, reading, refused

KERNELS = ("kernels/elementwise.cu", "kernels/naive.cu")
"""Sources of the launched kernels: an access to memory, and a product of a chunk and a matrix."""

HOST_ALLOC, MANAGED_ALLOC = "host_alloc", "managed_alloc"
COPY, SPARSE, FIRST_TOUCH = "copy", "sparse", "first_touch"
PAGEABLE, PINNED, MANAGED, MANAGED_PREFETCH = "pageable", "pinned", "managed", "managed_prefetch"
TO_DEVICE, TO_HOST = "to_device", "to_host"
BY_DEVICE, BY_HOST = "by_device", "by_host"
_MOVES = (
    *product((COPY,), (PAGEABLE, PINNED, MANAGED, MANAGED_PREFETCH), (TO_DEVICE, TO_HOST)),
    *product((SPARSE,), (PINNED, MANAGED), (TO_DEVICE,)),
    *product((FIRST_TOUCH,), (MANAGED,), (BY_DEVICE, BY_HOST)),
)
"""The measured operations, each with the kind of memory and the direction or the processor."""

FROM_PINNED, FROM_PAGEABLE = "overlap", "overlap_pageable"
"""Kinds of readings of overlap, by the host memory that is copied from."""
COPIES, PRODUCTS, BOTH = _CALLS = "copies", "products", "copies_and_products"

_LIVE = {MALLOC: (0, 1), MALLOC_ASYNC: (0,), CUPY_POOL: (0,), HOST_ALLOC: (0, 1), MANAGED_ALLOC: (1,)}
"""Other blocks of the allocator and size that are alive: the driver may carve a small one out of them.

Managed memory always has one, so that its budget is not counted again for each allocation.
"""

_HOST_SHARE = 4  # an array may take a quarter of the host's memory
_PAGE = 1024  # floats of the smallest page that hosts have
_PLACES = 8  # pages that a sparse access touches
_LEAST_SPARSE = 1 << 20  # bytes of which so few pages are a small part
_CHUNKS = 16
_FEATURES = 256  # columns of a chunk
_WIDTHS = (16, 32, 64, 128, 256, 512, 1024)  # columns of the matrix: more make a longer kernel


def measure(backend: str, settings: Mapping[str, Any]) -> Iterator[Reading]:
    """The readings of allocations, of copies, of first touches, and of overlap by the number of streams."""
    device = backends.make(backend, groups.load("kernel", "naive"))
    effort = Effort(settings["samples"], settings["seconds"])
    yield from allocations(device, settings["sizes"], effort)
    yield from copies(device, settings["sizes"], effort)
    yield from overlap(device, settings["overlapped"], settings["streams"], effort)


# ---- allocations


def allocations(backend: Backend, sizes: Sequence[int], effort: Effort) -> Iterator[Reading]:
    """Seconds of one allocation and its free: a reading per allocator, size and number of live blocks."""
    for call, counts in _LIVE.items():
        for live in counts:
            for nbytes in sizes:
                point: Point = {"kind": "allocation", "call": call, "bytes": nbytes, "live": live}
                yield reading(point, partial(_allocation, backend, call, nbytes, live, effort))


def _allocation(backend: Backend, call: str, nbytes: int, live: int, effort: Effort) -> list[float]:
    with ExitStack() as stack:
        if call in (MALLOC, MALLOC_ASYNC, CUPY_POOL):
            of = stack.enter_context(allocator(backend, call))
            allocate, free = partial(of.malloc, nbytes), of.free
        elif call == HOST_ALLOC:
            allocate, free = partial(pinned, backend, (-(-nbytes // 4),)), backend.host_free
        else:
            allocate, free = partial(backend.managed_alloc, (-(-nbytes // 4),)), backend.managed_free
        for _ in range(live):
            stack.callback(free, allocate())
        return effort.repeated(lambda: free(allocate()), backend.synchronize)


def check_host(nbytes: int) -> None:
    """Raise OutOfMemory for an array of more than a quarter of the host's memory."""
    if nbytes > usable_bytes() // _HOST_SHARE:
        raise OutOfMemory(f"{nbytes} bytes are more than a quarter of the host's memory, {usable_bytes()}")


def pinned(backend: Backend, shape: tuple[int, ...]) -> Any:
    """A pinned host array. Raises Unsupported if the system cannot pin it, and always on a CPU backend.

    Raises OutOfMemory for more than a share of the host's memory, which would leave too little for others.
    """
    if backend.is_processor:
        raise Unsupported("pinned memory is for copies to a CUDA device")
    check_host(4 * math.prod(shape))
    refused = backend.pageable_fallbacks
    array = backend.host_alloc(shape)
    if backend.pageable_fallbacks > refused:
        backend.host_free(array)
        raise Unsupported(f"the system cannot pin {4 * shape[0]} bytes of host memory")
    return array


# ---- copies, sparse accesses and first touches


def copies(backend: Backend, sizes: Sequence[int], effort: Effort) -> Iterator[Reading]:
    """A reading per kind of memory, direction and size in bytes."""
    for kind, call, direction in _MOVES:
        for nbytes in sizes:
            if kind != SPARSE or nbytes >= _LEAST_SPARSE:
                point: Point = {"kind": kind, "call": call, "direction": direction, "bytes": nbytes}
                move = _explicit if call in (PAGEABLE, PINNED) else _managed
                yield reading(point, partial(move, backend, kind, call, direction, nbytes, effort))


def _explicit(
    backend: Backend, kind: str, call: str, direction: str, nbytes: int, effort: Effort
) -> list[float]:
    """Seconds per copy between a host array whose pages exist and device memory, with a wait for the last.

    For a sparse access, a whole pinned array is copied, and the device then accesses a few of its pages.
    """
    check_host(nbytes)
    shape = (-(-nbytes // 4),)
    with ExitStack() as stack:
        array = pinned(backend, shape) if call == PINNED else backend.host_alloc(shape, page_locked=False)
        stack.callback(backend.host_free, array)
        array.fill(1.0)
        buffer = backend.malloc(array.nbytes)
        stack.callback(backend.free, buffer)

        def copy_and_access() -> None:
            backend.copy_in(buffer, array)
            _sparsely_on_device(backend, buffer, nbytes)

        if kind == SPARSE:
            return effort.prepared(copy_and_access, lambda: None)
        backend.copy_in(buffer, array)
        if direction == TO_DEVICE:
            return effort.repeated(lambda: backend.copy_in(buffer, array), backend.synchronize)
        return effort.repeated(lambda: backend.copy_out(array, buffer), backend.synchronize)


def _managed(
    backend: Backend, kind: str, call: str, direction: str, nbytes: int, effort: Effort
) -> list[float]:
    """Seconds until all of a new array on one side has been accessed on the other, prefetched or not.

    In a sparse access the device reads a few pages; a first touch creates the pages. Each sample uses a new
    array: the driver treats pages that come and go differently. Raises Unsupported if host and device cannot
    share an array, or if it exceeds the budget.
    """
    probe = backend.managed_alloc((_PAGE,))
    try:
        backend.advise(probe, "preferred_location")
    finally:
        backend.managed_free(probe)
    is_on_device, is_prefetched = direction in (TO_DEVICE, BY_DEVICE), call == MANAGED_PREFETCH
    held: list[np.ndarray] = []

    def touch(array: np.ndarray, on_device: bool) -> None:
        if on_device:
            backend.launch("relu", (backend.shared_buffer(array),), (array.size,))
            backend.synchronize()
        else:
            array[::_PAGE] = 1.0  # each page

    def allocate() -> None:
        held.append(backend.managed_alloc((-(-nbytes // 4),)))
        if kind != FIRST_TOUCH:
            touch(held[0], not is_on_device)

    def access() -> None:
        if kind == SPARSE:
            _sparsely_on_device(backend, backend.shared_buffer(held[0]), nbytes)
            return
        if is_prefetched and is_on_device:
            backend.prefetch_in(held[0])
        elif is_prefetched:
            backend.prefetch_out(held[0])
            backend.synchronize()
        touch(held[0], is_on_device)

    def free() -> None:
        while held:
            backend.managed_free(held.pop())

    try:
        return effort.prepared(access, allocate, free)
    finally:
        free()


def _sparsely_on_device(backend: Backend, buffer: Any, nbytes: int) -> None:
    """Read and write ``_PLACES`` pages of a buffer on the device, far from each other, and wait."""
    for place in range(_PLACES):
        page = backend.part(buffer, place * (nbytes // _PLACES), 4 * _PAGE)
        backend.launch("relu", (page,), (_PAGE,))
    backend.synchronize()


# ---- overlap


def overlap(backend: Backend, nbytes: int, streams: Sequence[int], effort: Effort) -> Iterator[Reading]:
    """Three readings per kind of memory and number of streams: copies alone, products alone, and both.

    All are of ``_CHUNKS`` chunks of ``nbytes`` together. Alone they run on one stream; of both, each chunk
    has its copy and its product on the stream whose turn it is. The samples of the three are taken in turns,
    so that those of one position belong together.
    """

    def point(kind: str, call: str, count: int) -> Point:
        return {"kind": kind, "call": call, "bytes": nbytes, "streams": count}

    for kind in (FROM_PINNED, FROM_PAGEABLE):
        with ExitStack() as stack:
            try:
                work = _Work(backend, kind, nbytes, max(streams), stack)
            except (Unsupported, OutOfMemory) as error:
                yield from (refused(point(kind, call, count), error) for count in streams for call in _CALLS)
                continue
            for count in streams:
                parts = effort.together([work.copy, work.multiply, partial(work.do, count)])
                for call, seconds in zip(_CALLS, parts, strict=True):
                    yield Reading(point(kind, call, count), tuple(seconds))


class _Work:
    """The chunks, and the streams that copy and multiply them; ``stack`` frees everything."""

    def __init__(self, backend: Backend, kind: str, nbytes: int, streams: int, stack: ExitStack) -> None:
        if not backend.asynchronous:
            raise Unsupported("the CPU backend runs the work of a stream at once: nothing overlaps")
        self._backend = backend
        self._rows = max(1, nbytes // (4 * _FEATURES * _CHUNKS))
        rows = self._rows * _CHUNKS
        shape = (rows * _FEATURES,)
        is_pinned = kind == FROM_PINNED
        array = pinned(backend, shape) if is_pinned else backend.host_alloc(shape, page_locked=False)
        stack.callback(backend.host_free, array)
        array.fill(1.0)
        self._array = array.reshape(rows, _FEATURES)
        buffers = []
        for floats in (rows * _FEATURES, _FEATURES * _WIDTHS[-1], rows * _WIDTHS[-1]):
            buffers.append(backend.malloc(4 * floats))
            stack.callback(backend.free, buffers[-1])
        self._chunks, self._factor, self._results = buffers
        backend.copy_in(self._factor, np.ones((_FEATURES, _WIDTHS[-1]), np.float32))
        self._streams: list[Any] = []
        for _ in range(streams):
            self._streams.append(backend.stream_create())
            stack.callback(backend.stream_destroy, self._streams[-1])
        # The width with which the products take most nearly as long as the copies.
        effort, apart = Effort(samples=6, seconds=0.05), {}
        copies = median(effort.repeated(self.copy))
        for self._width in _WIDTHS:
            products = median(effort.repeated(self.multiply))
            apart[self._width] = max(products, copies) / min(products, copies)
        self._width = min(apart, key=lambda width: apart[width])

    def copy(self) -> None:
        self.do(1, multiplies=False)

    def multiply(self) -> None:
        self.do(1, copies=False)

    def do(self, streams: int, copies: bool = True, multiplies: bool = True) -> None:
        """Copy and multiply each chunk on the stream whose turn it is, and wait."""
        for chunk in range(_CHUNKS):
            stream, A = self._streams[chunk % streams], self._part(self._chunks, chunk, _FEATURES)
            if copies:
                rows = self._array[chunk * self._rows : (chunk + 1) * self._rows]
                self._backend.copy_in(A, rows, stream)
            if multiplies:
                buffers = A, self._factor, self._part(self._results, chunk, self._width)
                self._backend.launch("matmul", buffers, (self._rows, _FEATURES, self._width), stream)
        self._backend.synchronize()

    def _part(self, buffer: Any, chunk: int, columns: int) -> Any:
        nbytes = 4 * self._rows * columns
        return self._backend.part(buffer, chunk * nbytes, nbytes)
