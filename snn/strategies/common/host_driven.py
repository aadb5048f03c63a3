"""The training step of the host-driven strategies: products through the device, the rest on the host."""

from abc import abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.models.host_ops import clip, transpose
from snn.models.network import Network
from snn.models.training_step import training_step
from snn.strategies.common.strategy import Strategy

Arrays = dict[str, np.ndarray]
"""The matrices of a step by the names of its buffers."""


class _Work(NamedTuple):
    """One launch of the step as the host does it: ``do(arrays, operands, numbers)``.

    ``makes`` are the matrices that do not exist before it, with their elements; ``ends`` those that nothing
    reads after it. ``purpose`` is that of what it makes. ``in_place``: its last operand takes the
    memory of the first.
    """

    do: Callable[[Arrays, "_Work"], None]
    op: str
    operands: tuple[str, ...]
    numbers: tuple[Any, ...]
    makes: tuple[tuple[str, int], ...]
    ends: tuple[str, ...]
    purpose: str
    in_place: bool


class HostDriven(Strategy):
    """Element-wise work on the host, as in the paper; a strategy says how one product is done.

    The step is the list of launches that ``training_step`` computes from the network's layers. Products go
    through ``matmul``, and NumPy does the rest on host matrices. A strategy overrides ``matmul`` and, where
    it does not want the backend's host memory, ``allocate`` and ``_free``: how host matrices are allocated
    and freed. There are data and parameters once, a ``result`` for whatever a step computes and ``scratch``
    for every transpose, each freed in the same step as soon as nothing reads it, as in the paper's programs.
    """

    any_network = True

    page_locked = False
    """Whether host matrices are pinned, each at its own allocation."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._live: dict[int, np.ndarray] = {}
        self._free: Callable[[np.ndarray], None] = backend.host_free
        self._purpose = "activations"  # of the results that are made now

    @abstractmethod
    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """C = A B through the device, in a matrix of ``result``."""

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for what a step computes; ``discard`` ends its life, or ``close`` at the latest."""
        return self.allocate(shape, self._purpose, self.page_locked)

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

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network = network
        X, Y = self._hold(X, "data"), self._hold(Y, "data")
        starts = range(0, len(X), batch_size)
        self._batches = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in starts]
        self._parameters = {
            parameter.name: self._hold(np.zeros(parameter.shape, dtype=np.float32), "weights")
            for parameter in network.parameters
        }
        self._steps = {rows: self._plan(rows, learning_rate) for rows in {len(X) for X, _ in self._batches}}
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for parameter, fresh in zip(self._parameters.values(), weights, strict=True):
            parameter[...] = fresh
        self._loss = float("nan")

    def epoch(self) -> None:
        for X, Y in self._batches:
            errors = self._train(X, Y)
        self._loss = self.network.loss.value(errors)

    def loss(self) -> float:
        return self._loss

    def weights(self) -> list[np.ndarray]:
        return [parameter.copy() for parameter in self._parameters.values()]

    def close(self) -> None:
        self._batches, self._parameters = [], {}
        while self._live:
            self._free(self._live.popitem()[1])

    def _train(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """One step, equations (1) to (4) of the paper; returns the errors E of this batch."""
        arrays = {**self._parameters, "X": X, "Y": Y}
        for work in self._steps[len(X)]:
            self._purpose = work.purpose
            work.do(arrays, work)
            for name in work.ends:
                self.discard(arrays.pop(name))
        return arrays["E"]

    def _plan(self, rows: int, rate: float) -> list[_Work]:
        """The step's launches, each with how the host does it and with the lives of the matrices in it."""
        step = training_step(self.network, rows, rate)
        last = {name: at for at, launch in enumerate(step.launches) for name in launch.operands}
        known, plan = {*self._parameters, "X", "Y", "S"}, []
        for at, (op, operands, numbers) in enumerate(step.launches):
            sizes = zip(operands, OPS[op].elements(*numbers), strict=True)
            makes = [(name, size) for name, size in sizes if name not in known]
            ends = [name for name in dict.fromkeys(operands) if last[name] == at and name in step.purposes]
            in_place = op == self.network.loss.op and operands[0] in ends
            if in_place:
                makes, ends = makes[:-1], ends[1:]
            ends = [name for name in ends if name not in ("E", "S")]
            purpose = step.purposes[makes[-1][0]] if makes else ""
            do = getattr(self, f"_{op}", self._compute)
            plan.append(_Work(do, op, operands, numbers, tuple(makes), tuple(ends), purpose, in_place))
            known.update(operands)
        return plan

    def _matmul(self, arrays: Arrays, work: _Work) -> None:
        (A, B, C), (m, k, n) = work.operands, work.numbers
        arrays[C] = self.matmul(_matrix(arrays[A], m, k), _matrix(arrays[B], k, n))

    def _matmul_tn(self, arrays: Arrays, work: _Work) -> None:
        (A, B, C), (m, k, n) = work.operands, work.numbers
        transposed = self.scratch((m, k))
        transpose(_matrix(arrays[A], k, m), transposed)
        arrays[C] = self.matmul(transposed, _matrix(arrays[B], k, n))
        self.discard(transposed)

    def _matmul_nt(self, arrays: Arrays, work: _Work) -> None:
        (A, B, C), (m, k, n) = work.operands, work.numbers
        transposed = self.scratch((k, n))
        transpose(_matrix(arrays[B], n, k), transposed)
        arrays[C] = self.matmul(_matrix(arrays[A], m, k), transposed)
        self.discard(transposed)

    def _update(self, arrays: Arrays, work: _Work) -> None:
        """W -= rate dW, in the memory of dW, which nothing reads afterwards."""
        W, dW = (arrays[name] for name in work.operands[:2])
        dW = dW.reshape(W.shape)
        dW *= np.float32(work.numbers[1])
        W -= dW

    def _sum_squares(self, arrays: Arrays, work: _Work) -> None:
        """Nothing: the norm is taken where it is used."""

    def _clipped_update(self, arrays: Arrays, work: _Work) -> None:
        clip(arrays[work.operands[1]], work.numbers[2])
        self._update(arrays, work)

    def _compute(self, arrays: Arrays, work: _Work) -> None:
        """Any other operation, by NumPy. The errors E outlive the step, so no strategy allocates them."""
        for name, elements in work.makes:
            arrays[name] = np.empty(elements, np.float32) if name == "E" else self.result((elements,))
        if work.in_place:
            arrays[work.operands[-1]] = arrays[work.operands[0]]
        flat = [arrays[name].reshape(-1) for name in work.operands]
        getattr(ops, work.op)(*flat, *work.numbers)
        if work.in_place:
            del arrays[work.operands[0]]

    def _hold(self, array: np.ndarray, purpose: str) -> np.ndarray:
        held = self.allocate(array.shape, purpose, self.page_locked)
        held[...] = array
        return held


class Request(NamedTuple):
    """A host matrix that a step asks for; ``freed_before``: how many requests there are until it is freed."""

    elements: int
    purpose: str
    freed_before: int


class Rehearsal(HostDriven):
    """One step on zeros, without a device and without products: it tells what memory a step asks for.

    ``requests``: its host matrices in turn. ``products``: bytes of A, B and C of each product.
    """

    def __init__(self, backend: Backend, network: Network, rows: int) -> None:
        super().__init__(backend)
        self.network = network
        self.requests: list[Request] = []
        self.products: list[tuple[int, int, int]] = []
        self._numbers: dict[int, tuple[int, np.ndarray]] = {}
        self._parameters = {one.name: np.zeros(one.shape, np.float32) for one in network.parameters}
        self._steps = {rows: self._plan(rows, 0.0)}
        self._train(
            *(np.zeros((rows, width), np.float32) for width in (prod(network.inputs), network.outputs))
        )

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        C = self.result((A.shape[0], B.shape[1]))
        self.products.append((A.nbytes, B.nbytes, C.nbytes))
        return C

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        return self._request(shape, self._purpose)

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


def _matrix(array: np.ndarray, rows: int, cols: int) -> np.ndarray:
    return array if array.shape == (rows, cols) else array.reshape(rows, cols)
