"""Exact counts and bytes of what a strategy asked of its backend."""

from dataclasses import asdict, dataclass

import numpy as np

from snn.backends.base import Backend, Buffer, Stream
from snn.errors import LeakError


@dataclass
class Ledger:
    """Totals of the calls that reached the device, and the most bytes alive at once."""

    mallocs: int = 0
    malloc_bytes: int = 0
    frees: int = 0
    host_allocs: int = 0
    host_alloc_bytes: int = 0
    host_frees: int = 0
    h2d_copies: int = 0
    h2d_bytes: int = 0
    d2h_copies: int = 0
    d2h_bytes: int = 0
    launches: int = 0
    synchronizations: int = 0
    streams_created: int = 0
    streams_destroyed: int = 0
    peak_device_bytes: int = 0
    peak_host_bytes: int = 0

    def totals(self) -> dict[str, int]:
        return asdict(self)


class CountingBackend(Backend):
    """A backend that passes every call on, counts it, and refuses misuse.

    It is used in an untimed pass only; a timed pass talks to the backend itself. Raises LeakError
    where a strategy frees or uses what it does not hold, copies more than a buffer has room for, or
    copies an array that is not C-contiguous float32.
    """

    def __init__(self, inner: Backend) -> None:
        self.ledger = Ledger()
        self._inner = inner
        self._device: dict[Buffer, int] = {}
        self._host: dict[int, np.ndarray] = {}
        self._streams: set[Stream] = set()

    def malloc(self, nbytes: int) -> Buffer:
        buffer = self._inner.malloc(nbytes)
        self._device[buffer] = nbytes
        self.ledger.mallocs += 1
        self.ledger.malloc_bytes += nbytes
        self.ledger.peak_device_bytes = max(self.ledger.peak_device_bytes, sum(self._device.values()))
        return buffer

    def free(self, buffer: Buffer) -> None:
        self._room(buffer)
        del self._device[buffer]
        self.ledger.frees += 1
        self._inner.free(buffer)

    def host_alloc(self, shape: tuple[int, ...]) -> np.ndarray:
        array = self._inner.host_alloc(shape)
        self._host[id(array)] = array
        self.ledger.host_allocs += 1
        self.ledger.host_alloc_bytes += array.nbytes
        self.ledger.peak_host_bytes = max(self.ledger.peak_host_bytes, self._host_bytes())
        return array

    def host_free(self, array: np.ndarray) -> None:
        if id(array) not in self._host:
            raise LeakError("a host array was freed that is not allocated (or was freed before)")
        del self._host[id(array)]
        self.ledger.host_frees += 1
        self._inner.host_free(array)

    def copy_in(self, buffer: Buffer, array: np.ndarray, stream: Stream | None = None) -> None:
        self._check_copy(buffer, array)
        self._check_stream(stream)
        self.ledger.h2d_copies += 1
        self.ledger.h2d_bytes += array.nbytes
        self._inner.copy_in(buffer, array, stream)

    def copy_out(self, array: np.ndarray, buffer: Buffer, stream: Stream | None = None) -> None:
        self._check_copy(buffer, array)
        self._check_stream(stream)
        self.ledger.d2h_copies += 1
        self.ledger.d2h_bytes += array.nbytes
        self._inner.copy_out(array, buffer, stream)

    def matmul(
        self, A: Buffer, B: Buffer, C: Buffer, m: int, k: int, n: int, stream: Stream | None = None
    ) -> None:
        for name, buffer, count in (("A", A, m * k), ("B", B, k * n), ("C", C, m * n)):
            if self._room(buffer) < 4 * count:
                raise LeakError(f"{name} of a {m}x{k} by {k}x{n} product is larger than its buffer")
        self._check_stream(stream)
        self.ledger.launches += 1
        self._inner.matmul(A, B, C, m, k, n, stream)

    def stream_create(self) -> Stream:
        stream = self._inner.stream_create()
        self._streams.add(stream)
        self.ledger.streams_created += 1
        return stream

    def stream_destroy(self, stream: Stream) -> None:
        self._check_stream(stream)
        self._streams.remove(stream)
        self.ledger.streams_destroyed += 1
        self._inner.stream_destroy(stream)

    def stream_synchronize(self, stream: Stream) -> None:
        self._check_stream(stream)
        self.ledger.synchronizations += 1
        self._inner.stream_synchronize(stream)

    def synchronize(self) -> None:
        self.ledger.synchronizations += 1
        self._inner.synchronize()

    def check_nothing_held(self) -> None:
        """Raise LeakError, saying what, if anything that was allocated or created is still alive."""
        held = []
        if self._device:
            held.append(f"{len(self._device)} device buffers ({sum(self._device.values())} bytes)")
        if self._host:
            held.append(f"{len(self._host)} host arrays ({self._host_bytes()} bytes)")
        if self._streams:
            held.append(f"{len(self._streams)} streams")
        if held:
            raise LeakError("allocated and never freed: " + ", ".join(held))

    def _host_bytes(self) -> int:
        return sum(array.nbytes for array in self._host.values())

    def _room(self, buffer: Buffer) -> int:
        try:
            return self._device[buffer]
        except KeyError:
            raise LeakError("a device buffer was used that is not allocated (or was freed before)") from None

    def _check_copy(self, buffer: Buffer, array: np.ndarray) -> None:
        if array.dtype != np.float32 or not array.flags.c_contiguous:
            raise LeakError(f"a copy needs a C-contiguous float32 array, not {array.dtype} {array.strides}")
        if array.nbytes > self._room(buffer):
            raise LeakError(f"a copy of {array.nbytes} bytes does not fit a buffer of {self._room(buffer)}")

    def _check_stream(self, stream: Stream | None) -> None:
        if stream is not None and stream not in self._streams:
            raise LeakError("a stream was used that does not exist (or was destroyed before)")
