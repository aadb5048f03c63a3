"""The training step of the host-driven strategies: products through the device, the rest on the host."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.models.network import Network
from snn.models.training_step import prediction_step, training_step
from snn.strategies.common.host_step import Call, HostStep
from snn.strategies.common.strategy import Strategy


class HostDriven(Strategy):
    """Element-wise work on the host, as in the paper; a strategy says how one product is done.

    The step is the list of launches that ``training_step`` computes from the network's layers. Products go
    through ``matmul``, and NumPy does the rest on host matrices. A strategy overrides ``matmul`` and, where
    it does not want the backend's host memory, ``allocate`` and ``_free``: how host matrices are allocated
    and freed. There are data and parameters once, a ``result`` for whatever a step computes and ``scratch``
    for every transpose, each freed in the same step as soon as nothing reads it, as in the paper's programs.
    ``close`` also frees what a strategy keeps in ``_buffers`` and ``_stream``.
    """

    any_network = True

    purpose: str
    """What the results that are made now are for."""

    page_locked = False
    """Whether host matrices are pinned, each at its own allocation."""

    keeps_matrices = False
    """Whether the matrices of a step are those of the next one, so that none is discarded."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.computes = backend.computes
        self._live: dict[int, np.ndarray] = {}
        self._stream: Any = None
        self._buffers: list[Any] = []
        self._predictions: dict[int, tuple[list[Call], str]] = {}
        self._free: Callable[[np.ndarray], None] = backend.host_free
        self.purpose = "activations"

    @abstractmethod
    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """C = A B through the device, in a matrix of ``result``."""

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for what a step computes; ``discard`` ends its life, or ``close`` at the latest."""
        return self.allocate(shape, self.purpose, self.page_locked)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for a transpose."""
        return self.allocate(shape, "workspace", self.page_locked)

    def discard(self, array: np.ndarray) -> None:
        """Free a matrix of ``result`` or ``scratch``."""
        self._free(self._live.pop(id(array)))

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        """An uninitialised float32 host matrix that ``close`` frees, if nothing has before."""
        array = self.backend.host_alloc(shape, purpose, page_locked)
        self._live[id(array)] = array
        return array

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self.network, self._rate, self._batch = network, rate, batch_size
        X, Y = self._hold(X, "data"), self._hold(Y, "data")
        starts = range(0, len(X), batch_size)
        self._batches = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in starts]
        self._parameters = {
            parameter.name: self._hold(np.zeros(parameter.shape, dtype=np.float32), "weights")
            for parameter in network.parameters
        }
        self._plan_steps({len(X) for X, _ in self._batches})
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for parameter, fresh in zip(self._parameters.values(), weights, strict=True):
            parameter[...] = fresh
        self._loss = float("nan")

    def epoch(self) -> None:
        losses = []
        for X, Y in self._batches:
            errors = self._train(X, Y)
            if self.keeps_losses:
                losses.append(self.network.loss.value(errors))
        self._loss = self.network.loss.value(errors)
        self._losses = np.array(losses)

    def loss(self) -> float:
        return self._loss

    def epoch_losses(self) -> np.ndarray:
        return self._losses

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        batch = self.allocate((min(self._batch, len(X)), X.shape[1]), "data", self.page_locked)
        try:
            for start in range(0, len(X), self._batch):
                some = batch[: len(X) - start]
                some[...] = X[start : start + len(some)]
                outputs[start : start + len(some)] = self._forward(some)
        finally:
            self._free(self._live.pop(id(batch)))
        return outputs

    def _forward(self, X: np.ndarray) -> np.ndarray:
        """The outputs of a batch, which are copied before anything else is computed."""
        if len(X) not in self._predictions:
            step, result = prediction_step(self.network, len(X))
            self._predictions[len(X)] = HostStep(self, self.network, step, result=result).calls, result
        calls, result = self._predictions[len(X)]
        arrays = {**self._parameters, "X": X}
        for call in calls:
            call(arrays)
        outputs = arrays[result].reshape(len(X), -1).copy()
        if not self.keeps_matrices:
            self.discard(arrays[result])
        return outputs

    def weights(self) -> list[np.ndarray]:
        return [parameter.copy() for parameter in self._parameters.values()]

    def close(self) -> None:
        while self._buffers:
            self.backend.free(self._buffers.pop())
        if self._stream is not None:
            self.backend.stream_destroy(self._stream)
            self._stream = None
        self._batches, self._parameters = [], {}
        while self._live:
            self._free(self._live.popitem()[1])

    def announce(self, tell: Callable[[str], Any]) -> None:
        """Have ``tell`` called before each launch of a step, with its label: for an instrumented pass."""
        self._plan_steps(self._steps, tell)

    def _plan_steps(self, sizes: Iterable[int], tell: Callable[[str], Any] | None = None) -> None:
        """The calls of a step for each number of rows."""
        steps = {rows: training_step(self.network, rows, self._rate) for rows in sizes}
        self._steps = {rows: HostStep(self, self.network, step, tell).calls for rows, step in steps.items()}

    def _train(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """One step, equations (1) to (4) of the paper; returns the errors E of this batch."""
        arrays = {**self._parameters, "X": X, "Y": Y}
        for call in self._steps[len(X)]:
            call(arrays)
        return arrays["E"]

    def _hold(self, array: np.ndarray, purpose: str) -> np.ndarray:
        held = self.allocate(array.shape, purpose, self.page_locked)
        held[...] = array
        return held


# ---- memory of other kinds, and none


class ManagedMemory(HostDriven):
    """Host-driven training with every host matrix in managed memory.

    A product is one launch. The strategy copies nothing; the driver migrates pages as the host and the device
    touch them in turn.
    """

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._free = backend.managed_free

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        array = self.backend.managed_alloc(shape, purpose)
        self._live[id(array)] = array
        return array

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        """Launch C = A B on the default stream."""
        buffer = self.backend.managed_buffer
        operands = buffer(A), buffer(B), buffer(C)
        self.backend.launch("matmul", operands, (A.shape[0], A.shape[1], B.shape[1]))


class Request(NamedTuple):
    """A host matrix that a step asks for; ``freed_before``: how many requests there are until it is freed."""

    elements: int
    purpose: str
    freed_before: int


class Rehearsal(HostDriven):
    """One step on zeros, without a device and without arithmetic: it tells what memory a step asks for.

    ``requests``: its host matrices in turn. ``products``: bytes of A, B and C of each product.
    """

    def __init__(self, backend: Backend, network: Network, rows: int) -> None:
        super().__init__(backend)
        self.computes = False
        self.network, self._rate = network, 0.0
        self.requests: list[Request] = []
        self.products: list[tuple[int, int, int]] = []
        self._numbers: dict[int, tuple[int, np.ndarray]] = {}
        self._parameters = {
            parameter.name: np.zeros(parameter.shape, np.float32) for parameter in network.parameters
        }
        self._plan_steps([rows])
        self._train(
            *(np.zeros((rows, width), np.float32) for width in (prod(network.inputs), network.outputs))
        )

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        self.products.append((A.nbytes, B.nbytes, C.nbytes))
        return C

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._request(shape, self.purpose)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._request(shape, "workspace")

    def discard(self, array: np.ndarray) -> None:
        number, _ = self._numbers.pop(id(array))
        self.requests[number] = self.requests[number]._replace(freed_before=len(self.requests))

    def _request(self, shape: tuple[int, ...], purpose: str) -> np.ndarray:
        array = np.zeros(shape, dtype=np.float32)
        self._numbers[id(array)] = len(self.requests), array
        self.requests.append(Request(array.size, purpose, 0))
        return array


# ---- ways to do one product


def multiply_per_call(
    backend: Backend,
    A: np.ndarray,
    B: np.ndarray,
    C: np.ndarray,
    malloc: Callable[[int], Any],
    free: Callable[[Any], None],
) -> None:
    """C = A B: three mallocs, two copies in, one launch, one synchronisation, one copy out, three frees.

    ``malloc`` and ``free`` are the functions that allocate and free device memory.
    """
    buffers = []
    try:
        for matrix in (A, B, C):
            buffers.append(malloc(matrix.nbytes))
        dA, dB, dC = buffers
        backend.copy_in(dA, A)
        backend.copy_in(dB, B)
        backend.launch("matmul", (dA, dB, dC), (A.shape[0], A.shape[1], B.shape[1]))
        backend.synchronize()
        backend.copy_out(C, dC)
    finally:
        for buffer in buffers:
            free(buffer)


def multiply_on_stream(
    backend: Backend, stream: Any, buffers: Sequence[Any], A: np.ndarray, B: np.ndarray, C: np.ndarray
) -> None:
    """C = A B through a device buffer for each: two copies in, one launch, one copy out. It does not wait."""
    dA, dB, dC = buffers
    backend.copy_in(dA, A, stream)
    backend.copy_in(dB, B, stream)
    backend.launch("matmul", (dA, dB, dC), (A.shape[0], A.shape[1], B.shape[1]), stream)
    backend.copy_out(C, dC, stream)


AUTO = "auto"
"""The value in place of a number of rows that lets ``tile_rows`` choose it for each product."""

HIDDEN_BYTES = 128 << 10
"""Bytes of transfer that a tile must hide: what a pinned copy moves in the time of a few API calls."""

FLOP_PER_BYTE = 20
"""Operations of a kernel in the time of copying one byte: a low figure, which overestimates kernel time."""

PAPER_ROWS = 128
"""Rows of a tile in the paper. ``tile_rows`` never makes more tiles than this number of rows would."""


def tile_rows(m: int, k: int, n: int) -> int:
    """Number of rows of A (m, k) and C (m, n) in a tile, where the configuration does not fix it.

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

    With ``rows`` auto, a product creates no more slots than it has tiles, and only the slots that it uses
    grow.
    """

    def __init__(self, backend: Backend, count: int, rows: int | str) -> None:
        self._backend = backend
        self._auto = rows == AUTO
        self._max_slots = self._slots_in_use = count
        self._rows = 0 if isinstance(rows, str) else rows
        self._streams: list[Any] = []
        self._A: list[_TileBuffer] = []
        self._C: list[_TileBuffer] = []

    def ensure(self, m: int, k: int, n: int) -> None:
        """Create the streams and buffers that A (m, k) and C (m, n) lack, and replace buffers too small."""
        if self._auto:
            self._rows = tile_rows(m, k, n)
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
