"""One arena on the device and one on the host, subdivided in every step without any allocation."""

import math
from collections.abc import Sequence

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common.host_driven import HostDriven, Rehearsal, Request, multiply_on_stream

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

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._stack = Stack()
        self._offsets: dict[int, tuple[int, np.ndarray]] = {}
        self._host_arena: np.ndarray | None = None

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        super().setup(network, X, Y, batch_size, rate)
        step = Rehearsal(self.backend, network, min(batch_size, len(X)))
        product = max(sum(map(aligned, sizes)) for sizes in step.products)
        self._stream = self.backend.stream_create()
        self._buffers.append(self.backend.malloc(product, "workspace"))
        self._host_arena = self.allocate((stack_bytes(step.requests) // 4,), "workspace", self.page_locked)

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
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
        return C

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        assert self._host_arena is not None
        size = math.prod(shape)
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
