"""One arena on the device and one on the host, shared out anew in every step: nothing is allocated in it."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.strategies.common import on_stream
from snn.strategies.common.host_driven import HostDriven
from snn.strategies.common.rehearsal import Rehearsal, Request

_ALIGNMENT = 256  # bytes, as cudaMalloc aligns its blocks


def aligned(nbytes: int) -> int:
    """Bytes that a block takes in an arena."""
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


class Stack:
    """Offsets in an arena, in bytes. What is freed below others is had again when all above it is free."""

    def __init__(self) -> None:
        self._blocks: list[list[int]] = []  # offset, and 0 once it is freed
        self.top = self.peak = 0

    def push(self, nbytes: int) -> int:
        """The offset of a block of this size."""
        offset = self.top
        self._blocks.append([offset, 1])
        self.top += aligned(nbytes)
        self.peak = max(self.peak, self.top)
        return offset

    def free(self, offset: int) -> None:
        """End a block, and with it those on top that have ended before."""
        next(block for block in reversed(self._blocks) if block[0] == offset)[1] = 0
        while self._blocks and not self._blocks[-1][1]:
            self.top = self._blocks.pop()[0]


def stack_bytes(requests: Sequence[Request]) -> int:
    """The size of an arena that serves these requests like a stack."""
    stack = Stack()
    offsets: list[int] = []
    for number, request in enumerate(requests):
        for other, offset in enumerate(offsets):
            if requests[other].freed_before == number:
                stack.free(offset)
        offsets.append(stack.push(4 * request.elements))
    return stack.peak


class Workspace(HostDriven):
    """``setup`` rehearses a step of one full batch without a device, to learn the most that is alive at once:
    of A, B and C of a product on the device, of results and transposes of a step on the host. It allocates
    one device arena and one page-locked arena of these sizes, and a stream.

    Per product A, B and C are parts of the device's arena, one behind the other; results and transposes are
    taken from the host's like from a stack. 2 asynchronous copies in, 1 launch, 1 asynchronous copy out, 1
    stream synchronisation, no allocation. ``preallocated`` has a block for each instead, as large as its
    largest use: here small matrices lie side by side in what the largest product needs."""

    page_locked = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._stack = Stack()
        self._offsets: dict[int, tuple[int, np.ndarray]] = {}
        self._stream: Any = None
        self._arena: Any = None
        self._words: np.ndarray | None = None

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        super().setup(network, X, Y, batch_size, learning_rate)
        step = Rehearsal(self.backend, network, min(batch_size, len(X)))
        product = max(sum(map(aligned, sizes)) for sizes in step.products)
        self._stream = self.backend.stream_create()
        self._arena = self.backend.malloc(product, "workspace")
        self._words = self.allocate((stack_bytes(step.requests) // 4,), "workspace", self.page_locked)

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        backend, stream, arena = self.backend, self._stream, self._arena
        to_B = aligned(A.nbytes)
        to_C = to_B + aligned(B.nbytes)
        dA = backend.part(arena, 0, A.nbytes)
        dB = backend.part(arena, to_B, B.nbytes)
        dC = backend.part(arena, to_C, C.nbytes)
        try:
            on_stream.multiply(backend, stream, (dA, dB, dC), A, B, C)
        finally:
            backend.stream_synchronize(stream)
        return C

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        assert self._words is not None
        size = math.prod(shape)
        offset = self._stack.push(4 * size)
        array = self._words[offset // 4 : offset // 4 + size].reshape(shape)
        self._offsets[id(array)] = offset, array
        return array

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.result(shape)

    def discard(self, array: np.ndarray) -> None:
        """Give a matrix back to the arena."""
        self._stack.free(self._offsets.pop(id(array))[0])

    def close(self) -> None:
        self._offsets, self._words = {}, None
        if self._arena is not None:
            self.backend.free(self._arena)
            self._arena = None
        if self._stream is not None:
            self.backend.stream_destroy(self._stream)
            self._stream = None
        super().close()
