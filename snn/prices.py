"""What each call of a strategy costs by itself: measured alone, at the size at which the strategy asks it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.trace import Signature

_REPEATS = 15
_IN_A_ROW = 8


@dataclass(frozen=True)
class Price:
    """Microseconds: of the host for the call, of the device for the work, and of waiting until it begins.

    A call that returns when all is done has only the first.
    """

    host_us: float
    device_us: float = 0.0
    latency_us: float = 0.0


def price(backend: Backend, signatures: Iterable[Signature]) -> dict[Signature, Price]:
    """The median price of each call, once each. Everything allocated for it is freed.

    An ``alone`` allocation is priced while nothing is held, another one beside a block of its own size.
    Work that the host does not wait for is priced three times: the call, the call until it is done, and
    several in a row on the device's clock; what the second has beyond the others is latency.
    """
    prices: dict[Signature, Price] = {}
    # Allocations first, while the device holds nothing.
    for one in sorted(
        set(signatures), key=lambda one: (one.call not in ("malloc", "free"), one.context, one)
    ):
        if one not in prices:
            prices |= _PRICERS[one.call](backend, one)
    return prices


def _malloc(backend: Backend, one: Signature) -> dict[Signature, Price]:
    beside = [] if one.context == "alone" else [backend.malloc(one.size[0])]
    try:
        prices = _pair(one, ("malloc", "free"), lambda: backend.malloc(one.size[0]), backend.free)
    finally:
        for buffer in beside:
            backend.free(buffer)
    return prices


def _host_alloc(backend: Backend, one: Signature) -> dict[Signature, Price]:
    shape, page_locked = (one.size[0] // 4,), bool(one.page_locked)
    beside = backend.host_alloc(shape, page_locked=page_locked)
    try:
        return _pair(
            one,
            ("host_alloc", "host_free"),
            lambda: backend.host_alloc(shape, page_locked=page_locked),
            backend.host_free,
        )
    finally:
        backend.host_free(beside)


def _stream(backend: Backend, one: Signature) -> dict[Signature, Price]:
    return _pair(one, ("stream_create", "stream_destroy"), backend.stream_create, backend.stream_destroy)


def _synchronize(backend: Backend, one: Signature) -> dict[Signature, Price]:
    if one.call == "synchronize":
        return {one: Price(_median(_times(backend.synchronize)))}
    stream = backend.stream_create()
    try:
        return {one: Price(_median(_times(lambda: backend.stream_synchronize(stream))))}
    finally:
        backend.stream_destroy(stream)


def _copy(backend: Backend, one: Signature) -> dict[Signature, Price]:
    array = backend.host_alloc((one.size[0] // 4,), page_locked=bool(one.page_locked))
    buffer = None
    try:
        array[...] = 1.0
        buffer = backend.malloc(one.size[0])
        if one.call == "copy_in":
            return {one: _work(backend, one, lambda stream: backend.copy_in(buffer, array, stream))}
        backend.copy_in(buffer, array)
        return {one: _work(backend, one, lambda stream: backend.copy_out(array, buffer, stream))}
    finally:
        if buffer is not None:
            backend.free(buffer)
        backend.host_free(array)


def _matmul(backend: Backend, one: Signature) -> dict[Signature, Price]:
    m, k, n = one.size
    random = np.random.default_rng(0)
    buffers: list[Any] = []
    try:
        for rows, columns in ((m, k), (k, n), (m, n)):
            buffers.append(backend.malloc(4 * rows * columns))
            backend.copy_in(buffers[-1], random.random((rows, columns), dtype=np.float32))
        A, B, C = buffers
        return {one: _work(backend, one, lambda stream: backend.matmul(A, B, C, m, k, n, stream))}
    finally:
        for buffer in buffers:
            backend.free(buffer)


_PRICERS: dict[str, Callable[[Backend, Signature], dict[Signature, Price]]] = {
    "malloc": _malloc,
    "free": _malloc,
    "host_alloc": _host_alloc,
    "host_free": _host_alloc,
    "stream_create": _stream,
    "stream_destroy": _stream,
    "stream_synchronize": _synchronize,
    "synchronize": _synchronize,
    "copy_in": _copy,
    "copy_out": _copy,
    "matmul": _matmul,
}


def _pair(
    one: Signature, calls: tuple[str, str], make: Callable[[], Any], unmake: Callable[[Any], None]
) -> dict[Signature, Price]:
    """The prices of making something and of unmaking it."""
    seconds = []
    for _ in range(_REPEATS + 1):
        started = time.perf_counter()
        made = make()
        between = time.perf_counter()
        unmake(made)
        seconds.append((between - started, time.perf_counter() - between))
    making, unmaking = zip(*seconds[1:], strict=True)
    return {
        one._replace(call=calls[0]): Price(_median(making)),
        one._replace(call=calls[1]): Price(_median(unmaking)),
    }


def _work(backend: Backend, one: Signature, call: Callable[[Any], None]) -> Price:
    """The price of a copy or a product; on a fresh stream each time where the signature says so."""
    if not backend.asynchronous or (one.call != "matmul" and not one.streamed):
        return Price(_median(_times(lambda: call(None))))
    stream = backend.stream_create() if one.streamed else None
    try:
        wait = backend.synchronize if stream is None else lambda: backend.stream_synchronize(stream)
        device = _in_a_row(backend, lambda: call(stream), stream, wait)
        idle = _median(_times(wait))
        asked, done = [], []
        for _ in range(_REPEATS + 1):
            used = backend.stream_create() if one.context == "fresh" else stream
            started = time.perf_counter()
            call(used)
            asked.append(time.perf_counter() - started)
            if used is None:
                backend.synchronize()
            else:
                backend.stream_synchronize(used)
            done.append(time.perf_counter() - started)
            if used is not stream:
                backend.stream_destroy(used)
        host, total = _median(asked[1:]), _median(done[1:])
        return Price(host, device, max(total - host - device - idle, 0.0))
    finally:
        if stream is not None:
            backend.stream_destroy(stream)


def _in_a_row(backend: Backend, call: Callable[[], None], stream: Any, wait: Callable[[], None]) -> float:
    """Microseconds that one of several calls in a row keeps the device busy, at best."""
    least = float("inf")
    for _ in range(3):
        first = backend.mark(stream)
        for _ in range(_IN_A_ROW):
            call()
        last = backend.mark(stream)
        wait()
        least = min(least, backend.seconds_between(first, last) / _IN_A_ROW)
    return 1e6 * least


def _times(call: Callable[[], Any]) -> list[float]:
    """Seconds of each of several calls, after one that pays for what is loaded or grown late."""
    seconds = []
    for _ in range(_REPEATS + 1):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def _median(seconds: Iterable[float]) -> float:
    return 1e6 * float(np.median(list(seconds)))
