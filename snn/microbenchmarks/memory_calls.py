"""Time of the calls that allocate and move memory, by size: allocations, copies, first touches, and overlap.

The last is of copies to the device and of kernels on what they bring, in chunks, on one to several streams.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
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
"""What is launched: an access to memory, and a product of a chunk and a matrix."""

HOST_ALLOC, MANAGED_ALLOC = "host_alloc", "managed_alloc"
PAGEABLE, PINNED, MANAGED, MANAGED_PREFETCH = "pageable", "pinned", "managed", "managed_prefetch"
TO_DEVICE, TO_HOST = "to_device", "to_host"
BY_DEVICE, BY_HOST = "by_device", "by_host"
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


# ---- copies, sparse accesses and first touches


def copies(backend: Backend, sizes: Sequence[int], effort: Effort) -> Iterator[Reading]:
    """A reading per kind of memory, direction and size in bytes."""
    for call in (PAGEABLE, PINNED, MANAGED, MANAGED_PREFETCH):
        for direction in (TO_DEVICE, TO_HOST):
            for nbytes in sizes:
                point: Point = {"kind": "copy", "call": call, "direction": direction, "bytes": nbytes}
                take = _managed if call in (MANAGED, MANAGED_PREFETCH) else _explicit
                yield reading(point, partial(take, backend, call, direction, nbytes, effort))
    for call in (PINNED, MANAGED):
        for nbytes in sizes:
            if nbytes >= _LEAST_SPARSE:
                point = {"kind": "sparse", "call": call, "direction": TO_DEVICE, "bytes": nbytes}
                sparse = _sparse_explicit if call == PINNED else _sparse_managed
                yield reading(point, partial(sparse, backend, nbytes, effort))
    for direction in (BY_DEVICE, BY_HOST):
        for nbytes in sizes:
            point = {"kind": "first_touch", "call": MANAGED, "direction": direction, "bytes": nbytes}
            yield reading(point, partial(_first_touch, backend, direction, nbytes, effort))


@contextmanager
def _two_blocks(backend: Backend, nbytes: int, is_pinned: bool) -> Iterator[tuple[np.ndarray, Any]]:
    """A host array whose pages exist, and as much device memory."""
    check_host(nbytes)
    shape = (-(-nbytes // 4),)
    with ExitStack() as stack:
        array = pinned(backend, shape) if is_pinned else backend.host_alloc(shape, page_locked=False)
        stack.callback(backend.host_free, array)
        array.fill(1.0)
        buffer = backend.malloc(array.nbytes)
        stack.callback(backend.free, buffer)
        yield array, buffer


def _explicit(backend: Backend, call: str, direction: str, nbytes: int, effort: Effort) -> list[float]:
    """Consecutive copies between a host array and device memory; the last one is waited for."""
    with _two_blocks(backend, nbytes, call == PINNED) as (array, buffer):
        backend.copy_in(buffer, array)
        if direction == TO_DEVICE:
            return effort.repeated(lambda: backend.copy_in(buffer, array), backend.synchronize)
        return effort.repeated(lambda: backend.copy_out(array, buffer), backend.synchronize)


def _managed(backend: Backend, call: str, direction: str, nbytes: int, effort: Effort) -> list[float]:
    """Until all of a new array whose pages lie on one side has been accessed on the other, prefetched or not.

    Each sample has an array of its own: the driver treats pages that come and go in another way.
    """

    def to_device(array: np.ndarray) -> None:
        if call == MANAGED_PREFETCH:
            backend.prefetch_in(array)
        _on_device(backend, array)

    def to_host(array: np.ndarray) -> None:
        if call == MANAGED_PREFETCH:
            backend.prefetch_out(array)
            backend.synchronize()
        _on_host(array)

    if direction == TO_DEVICE:
        return _of_new_arrays(backend, nbytes, effort, to_device, _on_host)
    return _of_new_arrays(backend, nbytes, effort, to_host, partial(_on_device, backend))


def _sparse_explicit(backend: Backend, nbytes: int, effort: Effort) -> list[float]:
    """A copy of a whole pinned array, of which the device then accesses a few pages."""
    with _two_blocks(backend, nbytes, is_pinned=True) as (array, buffer):

        def copy_and_access() -> None:
            backend.copy_in(buffer, array)
            _sparsely_on_device(backend, buffer, nbytes)

        return effort.prepared(copy_and_access, lambda: None)


def _sparse_managed(backend: Backend, nbytes: int, effort: Effort) -> list[float]:
    """Accesses of the device to a few pages of a new managed array whose pages lie on the host."""

    def access(array: np.ndarray) -> None:
        _sparsely_on_device(backend, backend.managed_buffer(array), nbytes)

    return _of_new_arrays(backend, nbytes, effort, access, _on_host)


def _first_touch(backend: Backend, direction: str, nbytes: int, effort: Effort) -> list[float]:
    """Until all of a new managed array has been accessed for the first time: its pages are made meanwhile."""
    touch = _on_host if direction == BY_HOST else partial(_on_device, backend)
    return _of_new_arrays(backend, nbytes, effort, touch, lambda array: None)


def _of_new_arrays(
    backend: Backend,
    nbytes: int,
    effort: Effort,
    access: Callable[[np.ndarray], None],
    before: Callable[[np.ndarray], None],
) -> list[float]:
    """Seconds of an access to a managed array that is new for each sample; what comes before is not timed.

    Raises Unsupported where host and device cannot share an array, or where it exceeds the budget.
    """
    probe = backend.managed_alloc((_PAGE,))
    try:
        backend.advise(probe, "preferred_location")
    finally:
        backend.managed_free(probe)
    with ExitStack() as stack:
        held: list[np.ndarray] = []

        def free() -> None:
            while held:
                backend.managed_free(held.pop())

        def allocate() -> None:
            held.append(backend.managed_alloc((-(-nbytes // 4),)))
            before(held[0])

        stack.callback(free)
        return effort.prepared(lambda: access(held[0]), allocate, free)


def _on_device(backend: Backend, array: np.ndarray) -> None:
    """Read and write all of a managed array on the device, and wait."""
    backend.launch("relu", (backend.managed_buffer(array),), (array.size,))
    backend.synchronize()


def _sparsely_on_device(backend: Backend, buffer: Any, nbytes: int) -> None:
    """Read and write ``_PLACES`` pages of a buffer on the device, far from each other, and wait."""
    for place in range(_PLACES):
        page = backend.part(buffer, place * (nbytes // _PLACES), 4 * _PAGE)
        backend.launch("relu", (page,), (_PAGE,))
    backend.synchronize()


def _on_host(array: np.ndarray) -> None:
    """Write to each page of a managed array on the host."""
    array[::_PAGE] = 1.0


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
                for count in streams:
                    for call in _CALLS:
                        yield refused(point(kind, call, count), error)
                continue
            for count in streams:
                parts = effort.together([work.copies, work.products, partial(work.both, count)])
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
        array = (
            pinned(backend, shape) if kind == FROM_PINNED else backend.host_alloc(shape, page_locked=False)
        )
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
        self._width = _WIDTHS[0]
        self._width = self._matching_width()

    def _matching_width(self) -> int:
        """The width with which the products take most nearly as long as the copies."""
        effort = Effort(samples=6, seconds=0.05)
        copies = median(effort.repeated(self.copies))
        apart = {}
        for self._width in _WIDTHS:
            products = median(effort.repeated(self.products))
            apart[self._width] = max(products, copies) / min(products, copies)
        return min(apart, key=lambda width: apart[width])

    def copies(self) -> None:
        self._each(1, self._copy)

    def products(self) -> None:
        self._each(1, self._multiply)

    def both(self, streams: int) -> None:
        def copy_and_multiply(chunk: int, stream: Any) -> None:
            self._copy(chunk, stream)
            self._multiply(chunk, stream)

        self._each(streams, copy_and_multiply)

    def _each(self, streams: int, do: Callable[[int, Any], None]) -> None:
        for chunk in range(_CHUNKS):
            do(chunk, self._streams[chunk % streams])
        self._backend.synchronize()

    def _copy(self, chunk: int, stream: Any) -> None:
        rows = self._array[chunk * self._rows : (chunk + 1) * self._rows]
        self._backend.copy_in(self._part(self._chunks, chunk, _FEATURES), rows, stream)

    def _multiply(self, chunk: int, stream: Any) -> None:
        A, C = self._part(self._chunks, chunk, _FEATURES), self._part(self._results, chunk, self._width)
        self._backend.launch("matmul", (A, self._factor, C), (self._rows, _FEATURES, self._width), stream)

    def _part(self, buffer: Any, chunk: int, columns: int) -> Any:
        nbytes = 4 * self._rows * columns
        return self._backend.part(buffer, chunk * nbytes, nbytes)
