"""Host-driven strategies: each product of a step goes through the device, the host computes the rest."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.host_step import HostDriven, Rehearsal, Request

# ---- ways to do one product


def operand_bytes(m: int, k: int, n: int) -> tuple[int, int, int]:
    """The bytes of A (m, k), B (k, n) and C (m, n)."""
    return 4 * m * k, 4 * k * n, 4 * m * n


def multiply_on_stream(
    backend: Backend, stream: Any, buffers: Sequence[Any], A: np.ndarray, B: np.ndarray, C: np.ndarray
) -> None:
    """C = A B through a device buffer for each: two copies in, one launch, one copy out. It does not wait."""
    dA, dB, dC = buffers
    backend.copy_in(dA, A, stream)
    backend.copy_in(dB, B, stream)
    backend.launch("matmul", (dA, dB, dC), (A.shape[0], A.shape[1], B.shape[1]), stream)
    backend.copy_out(C, dC, stream)


PER_STREAM = "per stream"
"""The value of ``tile_rows`` that divides the rows of each product among all streams, one tile each."""

AUTO = "auto"
"""The value of ``tile_rows`` that chooses the number of rows for each product."""

HIDDEN_BYTES = 128 << 10
"""Bytes of transfer that a tile must hide: a pinned copy moves them in the time of a few API calls."""

FLOP_PER_BYTE = 20
"""Operations of a kernel in the time of copying one byte: a low figure, which overestimates kernel time."""

PAPER_ROWS = 128
"""Rows of a tile in the paper. ``tile_rows`` never makes more tiles than this number of rows would."""


def tile_rows(m: int, k: int, n: int) -> int:
    """Number of rows of A (m, k) and C (m, n) in a tile, if the configuration does not fix it.

    Tiles overlap the copy in, the kernel and the copy out of a product. At best the longest of the three
    hides the other two. A product therefore gets one tile for each ``HIDDEN_BYTES`` that those two are
    equivalent to: at least one, and at most as many as with ``PAPER_ROWS``. All tiles but the last have the
    same number of rows. The host's calls per tile cost the same whatever its size, so a tile without
    anything to hide is pure overhead.
    """
    stages = 4 * m * k, 4 * m * n, 2 * m * k * n // FLOP_PER_BYTE
    worthwhile = (sum(stages) - max(stages)) // HIDDEN_BYTES
    tiles = max(1, min(worthwhile, -(-m // PAPER_ROWS)))
    return -(-m // tiles)


class _TileBuffer(NamedTuple):
    buffer: Any
    nbytes: int


class TileSlots:
    """Streams, each with a device buffer for a tile of A and one for a tile of C.

    With ``rows`` auto or per stream, a product creates no more slots than it has tiles, and only the slots
    that it uses grow.
    """

    def __init__(self, backend: Backend, count: int, rows: int | str) -> None:
        self._backend = backend
        self._choice = rows
        self._max_slots = self._slots_in_use = count
        self._rows = 0 if isinstance(rows, str) else rows
        self._streams: list[Any] = []
        self._A: list[_TileBuffer] = []
        self._C: list[_TileBuffer] = []

    def ensure(self, m: int, k: int, n: int) -> None:
        """Create the streams and buffers that A (m, k) and C (m, n) lack, and replace buffers too small."""
        if isinstance(self._choice, str):
            self._rows = tile_rows(m, k, n) if self._choice == AUTO else -(-m // self._max_slots)
            self._slots_in_use = min(self._max_slots, -(-m // self._rows))
        self._fit(self._A, 4 * self._rows * k)
        self._fit(self._C, 4 * self._rows * n)
        while len(self._streams) < self._slots_in_use:
            self._streams.append(self._backend.stream_create())

    def multiply(self, A: np.ndarray, dB: Any, C: np.ndarray) -> None:
        """C = A B, with B on the device. Waits for the result.

        Tiles take the streams in turn: copy in, launch, copy out.
        """
        backend, rows = self._backend, self._rows
        k, n = A.shape[1], C.shape[1]
        try:
            for tile, start in enumerate(range(0, len(A), rows)):
                slot = tile % self._slots_in_use
                stream, dA, dC = self._streams[slot], self._A[slot].buffer, self._C[slot].buffer
                A_tile, C_tile = A[start : start + rows], C[start : start + rows]
                backend.copy_in(dA, A_tile, stream)
                backend.launch("matmul", (dA, dB, dC), (len(A_tile), k, n), stream)
                backend.copy_out(C_tile, dC, stream)
        finally:
            for stream in self._streams[: self._slots_in_use]:
                backend.stream_synchronize(stream)

    def close(self) -> None:
        """Destroy the streams and free the buffers."""
        while self._streams:
            self._backend.stream_destroy(self._streams.pop())
        for buffers in (self._A, self._C):
            while buffers:
                self._backend.free(buffers.pop().buffer)

    def _fit(self, buffers: list[_TileBuffer], nbytes: int) -> None:
        """Make the buffers of the slots in use at least ``nbytes`` large."""
        too_small = [i for i, tile in enumerate(buffers[: self._slots_in_use]) if tile.nbytes < nbytes]
        for i in reversed(too_small):
            self._backend.free(buffers.pop(i).buffer)
        for i in (*too_small, *range(len(buffers) + len(too_small), self._slots_in_use)):
            buffers.insert(i, _TileBuffer(self._backend.malloc(nbytes), nbytes))


# ---- the strategies


class Reference(HostDriven):
    """Host-driven training with pageable host matrices.

    Per product: 3 mallocs, 2 synchronous copies in, 1 launch, 1 device synchronisation, 1 synchronous copy
    out, 3 frees. Every host matrix is pageable.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._malloc: Callable[[int], Any] = backend.malloc
        self._free_buffer: Callable[[Any], None] = backend.free

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        backend, buffers = self.backend, []
        try:
            for matrix in (A, B, C):
                buffers.append(self._malloc(matrix.nbytes))
            dA, dB, dC = buffers
            backend.copy_in(dA, A)
            backend.copy_in(dB, B)
            backend.launch("matmul", (dA, dB, dC), (A.shape[0], A.shape[1], B.shape[1]))
            backend.synchronize()
            backend.copy_out(C, dC)
        finally:
            for buffer in buffers:
                self._free_buffer(buffer)


class Keepalive(Reference):
    """The strategy ``reference`` with one more device block of 256 bytes, which ``setup`` allocates.

    Nothing uses the block. It tests a reason for the cost of the reference's allocations: the driver returns
    its last mapped memory to the system when the last block in it is freed, as after every product of the
    reference, and maps memory again for the next one. Here a block is always left.
    """

    diagnostic = True

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._buffers.append(self.backend.malloc(_ALIGNMENT, "workspace"))


class Pinned(Reference):
    """Host-driven training as in the reference, with pinned host matrices.

    Pinned (page-locked) memory cannot be swapped out, so the device copies it directly, without the driver's
    staging. Per product: 1 pinned host allocation (the result, freed once it has been used), then the calls
    of the reference. Data and weights are pinned from ``setup`` to ``close``; transposes stay pageable, as in
    the paper. All copies are synchronous.
    """

    page_locked = True
    pins_scratch = False


class Pool(Reference):
    """Host-driven training with memory from CuPy's pools.

    ``setup`` creates a pool of device memory and one of pinned host memory, which holds every host matrix.
    Per product: 3 blocks from the device pool, 2 synchronous copies in, 1 launch, 1 device synchronisation, 1
    synchronous copy out, 3 blocks returned. A pool allocates from the system only when it has no free block,
    so in the loop an allocation costs only the search for a block. With ``host`` pageable, host matrices are
    those of the reference, so that only the source of device memory differs.
    """

    def __init__(self, backend: Backend, host: str = "pinned") -> None:
        super().__init__(backend)
        self._pool: Any = None
        self._pins = host == "pinned"

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self._pool = self.backend.pool_create()
        if self._pins:
            alloc, free = self.backend.pool_host_alloc, self.backend.pool_host_free
            self._allocate = lambda shape, purpose, _: alloc(self._pool, shape, purpose)
            self._free = partial(free, self._pool)
        self._malloc = partial(self.backend.pool_malloc, self._pool)
        self._free_buffer = partial(self.backend.pool_free, self._pool)
        super().setup(network, X, Y, batch_size, rate)

    def close(self) -> None:
        super().close()
        if self._pool is not None:
            self.backend.pool_destroy(self._pool)
            self._pool = None


class AsyncPool(HostDriven):
    """Host-driven training with device memory from ``cudaMallocAsync``.

    ``setup`` creates a stream and makes the driver's pool keep freed memory. Per product, all on that stream:
    3 cudaMallocAsync, 2 copies in, 1 launch, 1 copy out, 3 cudaFreeAsync; then 1 stream synchronisation.
    Every host matrix is pageable, as in the reference, so in each copy the host waits while the driver stages
    the data. With ``host`` pinned, each is a separate pinned allocation, as in ``combined``.
    """

    def __init__(self, backend: Backend, host: str = "pageable") -> None:
        super().__init__(backend)
        self.page_locked = host == "pinned"
        self._pool: Any = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self._stream = self.backend.stream_create()
        self._pool = self.backend.pool_create(self._stream)
        super().setup(network, X, Y, batch_size, rate)

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        backend, pool, stream = self.backend, self._pool, self._stream
        buffers = []
        try:
            for matrix in (A, B, C):
                buffers.append(backend.pool_malloc(pool, matrix.nbytes))
            multiply_on_stream(backend, stream, buffers, A, B, C)
        finally:
            for buffer in buffers:
                backend.pool_free(pool, buffer)
            backend.stream_synchronize(stream)

    def close(self) -> None:
        if self._pool is not None:
            self.backend.pool_destroy(self._pool)
            self._pool = None
        super().close()


class KeepsMatrices(HostDriven):
    """A base class that allocates the host matrices of a step once: one for each result and transpose.

    Every step uses them in the same order.
    """

    keeps_matrices = True
    any_fidelity = False
    _step: Sequence[np.ndarray] = ()
    _next = 0

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        step = Rehearsal(self.backend, network, min(batch_size, len(X)))
        self._products = step.products
        self._step = [
            self.allocate((request.elements,), request.purpose, self.page_locked) for request in step.requests
        ]

    def _forward(self, X: np.ndarray) -> np.ndarray:
        try:
            return super()._forward(X)
        finally:
            self._next = 0  # a forward pass has the first matrices of a step

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        matrix = self._step[self._next]
        self._next = (self._next + 1) % len(self._step)
        try:
            return matrix[: prod(shape)].reshape(shape)
        except ValueError:  # a prediction has no outputs of dropout: theirs are skipped
            return self.result(shape)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.result(shape)

    def discard(self, array: np.ndarray) -> None:
        """Keep the matrix for the next step."""

    def close(self) -> None:
        self._step = ()
        super().close()


class Preallocated(KeepsMatrices):
    """Host-driven training without allocations in the loop.

    ``setup`` creates one stream and allocates three device buffers, as large as the largest A, B and C, and
    one pinned host matrix for each result and transpose of a step. Per product: 2 asynchronous copies in, 1
    launch, 1 asynchronous copy out, 1 stream synchronisation, no allocation.

    With several ``streams``, each has a buffer for its share of the rows of A and one for those of C. Per
    product: 1 synchronous copy of B, as in ``combined``, then on each stream 1 asynchronous copy in, 1
    launch, 1 asynchronous copy out and 1 synchronisation.
    """

    page_locked = True

    def __init__(self, backend: Backend, streams: int = 1) -> None:
        super().__init__(backend)
        self._slots = TileSlots(backend, streams, PER_STREAM) if streams > 1 else None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        largest = list(map(max, zip(*(operand_bytes(*product) for product in self._products), strict=True)))
        if self._slots is None:
            self._stream = self.backend.stream_create()
            for nbytes in largest:
                self._buffers.append(self.backend.malloc(nbytes))
            return
        self._buffers.append(self.backend.malloc(largest[1]))
        for product in self._products:
            self._slots.ensure(*product)

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        if self._slots is None:
            try:
                multiply_on_stream(self.backend, self._stream, self._buffers, A, B, C)
            finally:
                self.backend.stream_synchronize(self._stream)
            return
        self._slots.ensure(A.shape[0], A.shape[1], B.shape[1])
        self.backend.copy_in(self._buffers[0], B)
        self._slots.multiply(A, self._buffers[0], C)

    def close(self) -> None:
        if self._slots is not None:
            self._slots.close()
        super().close()


_ALIGNMENT = 256  # bytes, as cudaMalloc aligns its blocks


def aligned(nbytes: int) -> int:
    """Bytes that a block of this size takes in an arena."""
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


class Stack:
    """A stack allocator of offsets in an arena, in bytes.

    A block that is freed below others is reused once all blocks above it are free.
    """

    def __init__(self) -> None:
        self._blocks: list[list[int]] = []  # offset; 1 while in use, 0 once freed
        self.top = self.peak = 0

    def push(self, nbytes: int) -> int:
        """The offset of a block of this size."""
        offset = self.top
        self._blocks.append([offset, 1])
        self.top += aligned(nbytes)
        self.peak = max(self.peak, self.top)
        return offset

    def free(self, offset: int) -> None:
        """Free a block, and remove all freed blocks from the top of the stack."""
        next(block for block in reversed(self._blocks) if block[0] == offset)[1] = 0
        while self._blocks and not self._blocks[-1][1]:
            self.top = self._blocks.pop()[0]


def stack_bytes(requests: Sequence[Request]) -> int:
    """The size in bytes of an arena that serves these requests as a stack."""
    stack = Stack()
    offsets: list[int] = []
    for number, request in enumerate(requests):
        for other, offset in enumerate(offsets):
            if requests[other].freed_before == number:
                stack.free(offset)
        offsets.append(stack.push(4 * request.elements))
    return stack.peak


class Workspace(HostDriven):
    """Host-driven training in two arenas, one on the device and one in pinned host memory.

    ``setup`` rehearses a step on a full batch without a device to find the peak use: of A, B and C of a
    product on the device, and of the results and transposes of a step on the host. It allocates a device
    arena and a pinned arena of these sizes, and creates a stream.

    Per product, A, B and C are consecutive parts of the device arena; results and transposes come from the
    host arena as from a stack. There are 2 asynchronous copies in, 1 launch, 1 asynchronous copy out, 1
    stream synchronisation and no allocation. ``preallocated`` instead has a block for each matrix, as large
    as its largest use; here small matrices share the space that the largest product needs.
    """

    page_locked = True
    any_fidelity = False

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._stack = Stack()
        self._offsets: dict[int, tuple[int, np.ndarray]] = {}
        self._host_arena: np.ndarray | None = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        step = Rehearsal(self.backend, network, min(batch_size, len(X)))
        product = max(sum(map(aligned, operand_bytes(*product))) for product in step.products)
        self._stream = self.backend.stream_create()
        self._buffers.append(self.backend.malloc(product, "workspace"))
        self._host_arena = self.allocate((stack_bytes(step.requests) // 4,), "workspace", self.page_locked)

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        backend, stream, arena = self.backend, self._stream, self._buffers[0]
        offset_B = aligned(A.nbytes)
        offset_C = offset_B + aligned(B.nbytes)
        dA = backend.part(arena, 0, A.nbytes)
        dB = backend.part(arena, offset_B, B.nbytes)
        dC = backend.part(arena, offset_C, C.nbytes)
        try:
            multiply_on_stream(backend, stream, (dA, dB, dC), A, B, C)
        finally:
            backend.stream_synchronize(stream)

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        assert self._host_arena is not None
        size = prod(shape)
        offset = self._stack.push(4 * size)
        array = self._host_arena[offset // 4 : offset // 4 + size].reshape(shape)
        self._offsets[id(array)] = offset, array
        return array

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.result(shape)

    def discard(self, array: np.ndarray) -> None:
        """Return a matrix to the arena."""
        self._stack.free(self._offsets.pop(id(array))[0])

    def close(self) -> None:
        self._offsets, self._host_arena = {}, None
        super().close()


class Streams(HostDriven):
    """Host-driven training in row tiles over streams, with pinned host matrices.

    Per product, with 3 streams and tiles of 128 rows: 1 + 2 x 3 mallocs and frees (B, and for each stream a
    tile of A and one of C), 3 streams created, synchronised and destroyed, 1 synchronous copy of B, then per
    tile 1 asynchronous copy in, 1 launch, 1 asynchronous copy out. Every host matrix is a separate pinned
    allocation. With ``tile_rows`` auto the number of tiles is chosen for each product, which has no more
    streams and buffers than tiles.
    """

    page_locked = True

    def __init__(self, backend: Backend, streams: int = 3, tile_rows: int | str = 128) -> None:
        super().__init__(backend)
        self._stream_count, self._tile_rows = streams, tile_rows

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        slots = TileSlots(self.backend, self._stream_count, self._tile_rows)
        dB = self.backend.malloc(B.nbytes)
        try:
            self.backend.copy_in(dB, B)
            slots.ensure(A.shape[0], A.shape[1], B.shape[1])
            slots.multiply(A, dB, C)
        finally:
            slots.close()
            self.backend.free(dB)


class Combined(HostDriven):
    """Host-driven training in row tiles over streams, with pinned host matrices.

    Streams and tile buffers are created at the first product, and replaced when a product needs larger ones.
    As in the paper's program, each product still needs 1 malloc, 1 synchronous copy and 1 free for B, then
    per tile 1 asynchronous copy in, 1 launch and 1 asynchronous copy out, and 3 stream synchronisations.
    Every host matrix is a separate pinned allocation. With ``tile_rows`` auto the number of tiles is chosen
    for each product, which waits for no more streams than it has tiles.
    """

    page_locked = True

    def __init__(self, backend: Backend, streams: int = 3, tile_rows: int | str = 128) -> None:
        super().__init__(backend)
        self._slots = TileSlots(backend, streams, tile_rows)

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        self._slots.ensure(A.shape[0], A.shape[1], B.shape[1])
        dB = self.backend.malloc(B.nbytes)
        try:
            self.backend.copy_in(dB, B)
            self._slots.multiply(A, dB, C)
        finally:
            self.backend.free(dB)

    def close(self) -> None:
        self._slots.close()
        super().close()


class CombinedKept(KeepsMatrices, Combined):
    """The strategy ``combined``, with the results and transposes of a step allocated once, by ``setup``.

    All else is as in ``combined``: B is allocated and freed for each product. It tests a reason for the time
    that ``combined`` takes with wide layers: the driver's pinned allocations of large results.
    """

    diagnostic = True


class Mapped(KeepsMatrices):
    """Host-driven training without copies: kernels access pinned host matrices where they are (zero-copy).

    ``setup`` creates one stream, and allocates the host matrices of ``preallocated``, but no device memory.
    Per product: 1 launch, 1 stream synchronisation. The kernel reads A and B over the bus, as often as caches
    do not hold them, and writes C over it.
    """

    page_locked = diagnostic = True

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        self._stream = self.backend.stream_create()

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        shared, sizes = self.backend.shared_buffer, (A.shape[0], A.shape[1], B.shape[1])
        try:
            self.backend.launch("matmul", (shared(A), shared(B), shared(C)), sizes, self._stream)
        finally:
            self.backend.stream_synchronize(self._stream)


class Managed(HostDriven):
    """Host-driven training with every host matrix in managed memory, without prefetches.

    Per product: 1 cudaMallocManaged for the result (and 1 for a transpose), 1 launch, 1 device
    synchronisation. Results and transposes are freed once they have been used. Nothing is copied: pages of
    data, weights, results and transposes migrate when the host or the device faults on them.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._allocate = lambda shape, purpose, _: backend.managed_alloc(shape, purpose)
        self._free = backend.managed_free

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        try:
            self._launch(A, B, C)
        finally:
            self.backend.synchronize()

    def _launch(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        buffer = self.backend.shared_buffer
        operands = buffer(A), buffer(B), buffer(C)
        self.backend.launch("matmul", operands, (A.shape[0], A.shape[1], B.shape[1]))


_ADVICE = {"data": ("read_mostly",), "weights": ("preferred_location", "accessed_by")}


class ManagedKept(KeepsMatrices, Managed):
    """The strategy ``managed``, with the results and transposes of a step allocated once, by ``setup``.

    Per product: 1 launch, 1 device synchronisation. Pages migrate as in ``managed``.
    """

    diagnostic = True


class ManagedPrefetch(Managed):
    """The strategy ``managed`` with memory advice and prefetches.

    ``setup`` gives the advice. Data is read mostly, so the host and the device each keep a copy. Weights
    prefer the device, which maps them wherever they are. Per product: 3 prefetches to the device (A, B and
    the result, whose pages are then created there), 1 launch, 1 prefetch of the result to the host, 1 device
    synchronisation.

    CuPy on CUDA 13 prefetches to a device only. The last prefetch then needs the package cuda.bindings.
    Without it the result reaches the host by page faults, as in ``managed``. The strategy is unsupported if
    the device attribute concurrentManagedAccess is 0. ``hints`` chooses advice or prefetches alone.
    """

    def __init__(self, backend: Backend, hints: str = "both") -> None:
        super().__init__(backend)
        self._advises, self._prefetches = hints != "prefetches", hints != "advice"

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        array = super().allocate(shape, purpose, page_locked)
        for advice in _ADVICE.get(purpose, ()) if self._advises else ():
            self.backend.advise(array, advice)
        return array

    def _launch(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        for matrix in (A, B, C) if self._prefetches else ():
            self.backend.prefetch_in(matrix)
        super()._launch(A, B, C)
        if self._prefetches and self.backend.prefetches_out:
            self.backend.prefetch_out(C)
