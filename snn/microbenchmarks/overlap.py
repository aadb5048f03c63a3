"""Seconds of copies to the device and of kernels on what they bring, in chunks, on one to several streams."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.errors import OutOfMemory, Unsupported
from snn.microbenchmarks.allocations import pinned
from snn.microbenchmarks.readings import Effort, Point, Reading, refused

KERNELS = ("kernels/naive.cu",)
"""What is launched: a product of a chunk and a matrix."""

FROM_PINNED, FROM_PAGEABLE = "overlap", "overlap_pageable"
"""Kinds of readings, by the host memory that is copied from."""

COPIES, PRODUCTS, BOTH = _CALLS = "copies", "products", "copies_and_products"

_CHUNKS = 16
_FEATURES = 256  # columns of a chunk
_WIDTHS = (16, 32, 64, 128, 256, 512, 1024)  # columns of the matrix: more make a longer kernel


def measure(backend: Backend, nbytes: int, streams: Sequence[int], effort: Effort) -> Iterator[Reading]:
    """Three readings per kind of memory and number of streams: copies alone, products alone, and both.

    All are of ``_CHUNKS`` chunks of ``nbytes`` together. Alone they run on one stream; of both, each chunk
    has its copy and its product on the stream whose turn it is. The samples of the three are taken in turns,
    so that those of one position belong together.
    """
    for kind in (FROM_PINNED, FROM_PAGEABLE):
        with ExitStack() as stack:
            try:
                work = _Work(backend, kind, nbytes, max(streams), stack)
            except (Unsupported, OutOfMemory) as error:
                for count in streams:
                    for call in _CALLS:
                        yield refused(_point(kind, call, nbytes, count), error)
                continue
            for count in streams:
                parts = effort.together([work.copies, work.products, partial(work.both, count)])
                for call, seconds in zip(_CALLS, parts, strict=True):
                    yield Reading(_point(kind, call, nbytes, count), tuple(seconds))


def _point(kind: str, call: str, nbytes: int, streams: int) -> Point:
    return {"kind": kind, "call": call, "bytes": nbytes, "streams": streams}


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
        self._chunks, self._factor, self._results = (
            self._memory(4 * floats, stack)
            for floats in (rows * _FEATURES, _FEATURES * _WIDTHS[-1], rows * _WIDTHS[-1])
        )
        backend.copy_in(self._factor, np.ones((_FEATURES, _WIDTHS[-1]), np.float32))
        self._streams: list[Any] = []
        for _ in range(streams):
            self._streams.append(backend.stream_create())
            stack.callback(backend.stream_destroy, self._streams[-1])
        self._width = _WIDTHS[0]
        self._width = self._matching_width()

    def _memory(self, nbytes: int, stack: ExitStack) -> Any:
        buffer = self._backend.malloc(nbytes)
        stack.callback(self._backend.free, buffer)
        return buffer

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
