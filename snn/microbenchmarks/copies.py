"""Seconds of copies by kind of host memory and direction, of sparse accesses, and of first touches."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.microbenchmarks.allocations import check_host, pinned
from snn.microbenchmarks.readings import Effort, Point, Reading, reading

KERNELS = ("kernels/elementwise.cu",)
"""What is launched to access managed memory on the device."""

PAGEABLE, PINNED, MANAGED, MANAGED_PREFETCH = "pageable", "pinned", "managed", "managed_prefetch"
TO_DEVICE, TO_HOST = "to_device", "to_host"
BY_DEVICE, BY_HOST = "by_device", "by_host"

_PAGE = 1024  # floats of the smallest page that hosts have
_PLACES = 8  # pages that a sparse access touches
_LEAST_SPARSE = 1 << 20  # bytes of which so few pages are a small part


def measure(backend: Backend, sizes: Sequence[int], effort: Effort) -> Iterator[Reading]:
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


def _explicit(backend: Backend, call: str, direction: str, nbytes: int, effort: Effort) -> list[float]:
    """Consecutive copies between a host array and device memory; the last one is waited for."""
    check_host(nbytes)
    shape = (-(-nbytes // 4),)
    with ExitStack() as stack:
        array = pinned(backend, shape) if call == PINNED else backend.host_alloc(shape, page_locked=False)
        stack.callback(backend.host_free, array)
        array.fill(1.0)  # its pages exist from here on
        buffer = backend.malloc(array.nbytes)
        stack.callback(backend.free, buffer)
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
    return _of_new_arrays(backend, nbytes, effort, to_host, lambda array: _on_device(backend, array))


def _sparse_explicit(backend: Backend, nbytes: int, effort: Effort) -> list[float]:
    """A copy of a whole pinned array, of which the device then accesses a few pages."""
    with ExitStack() as stack:
        array = pinned(backend, (nbytes // 4,))
        stack.callback(backend.host_free, array)
        array.fill(1.0)
        buffer = backend.malloc(nbytes)
        stack.callback(backend.free, buffer)

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
    _check_concurrent(backend)
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


def _check_concurrent(backend: Backend) -> None:
    probe = backend.managed_alloc((_PAGE,))
    try:
        backend.advise(probe, "preferred_location")
    finally:
        backend.managed_free(probe)


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
