"""The training step of the host-driven strategies: products through the device, the rest on the host."""

from abc import abstractmethod
from collections.abc import Callable
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.models import host_ops
from snn.models.host_ops import transpose
from snn.models.network import Network
from snn.models.step import Launch, Shape
from snn.models.training_step import training_step
from snn.strategies.common.strategy import Strategy

Arrays = dict[str, np.ndarray]
"""The matrices of a step by the names of its buffers."""


class _Work(NamedTuple):
    """One launch of the step as the host does it.

    ``makes`` is the purpose of the matrices that it makes, if any; ``ends`` are those that nothing reads
    after it.
    """

    do: Callable[[Arrays], None]
    makes: str | None
    ends: tuple[str, ...]


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

    def announce(self, tell: Callable[[], None]) -> None:
        """Have ``tell`` called before each launch of a step: for an instrumented pass."""

        def announced(work: _Work) -> _Work:
            def do(arrays: Arrays) -> None:
                tell()
                work.do(arrays)

            return work._replace(do=do)

        self._steps = {rows: list(map(announced, plan)) for rows, plan in self._steps.items()}

    def _train(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """One step, equations (1) to (4) of the paper; returns the errors E of this batch."""
        arrays = {**self._parameters, "X": X, "Y": Y}
        for do, makes, ends in self._steps[len(X)]:
            if makes is not None:
                self._purpose = makes
            do(arrays)
            for name in ends:
                self.discard(arrays.pop(name))
        return arrays["E"]

    def _plan(self, rows: int, rate: float) -> list[_Work]:
        """The step's launches, each with how the host does it and with the lives of the matrices in it."""
        step = training_step(self.network, rows, rate)
        last = {name: at for at, launch in enumerate(step.launches) for name in launch.operands}
        shapes = {parameter.name: parameter.shape for parameter in self.network.parameters}
        shapes |= {"X": (rows, prod(self.network.inputs)), "Y": (rows, self.network.outputs), "S": ()}
        plan = []
        for at, launch in enumerate(step.launches):
            ends = [name for name in dict.fromkeys(launch.operands) if last[name] == at]
            ends = [name for name in ends if name in step.purposes and name not in ("E", "S")]
            made = [name for name in launch.operands if name not in shapes]
            if launch.op.startswith("matmul"):
                do = self._product(launch, shapes)
            elif launch.op == self.network.loss.op and launch.operands[0] in ends:
                do = self._loss_in_place(launch, shapes)
                ends.remove(launch.operands[0])
            else:
                do = self._work(launch, shapes)
            plan.append(_Work(do, step.purposes[made[-1]] if made else None, tuple(ends)))
        return plan

    def _product(self, launch: Launch, shapes: dict[str, Shape]) -> Callable[[Arrays], None]:
        """C = A B, with the transpose of an operand in a matrix of its own."""
        (a, b, c), (m, k, n) = launch.operands, map(int, launch.numbers)
        shape_A = (k, m) if launch.op == "matmul_tn" else (m, k)
        shape_B = (n, k) if launch.op == "matmul_nt" else (k, n)
        A, B = _reader(a, shapes[a], shape_A), _reader(b, shapes[b], shape_B)
        shapes[c] = (m, n)
        multiply, scratch, discard = self.matmul, self.scratch, self.discard

        def plain(arrays: Arrays) -> None:
            arrays[c] = multiply(A(arrays), B(arrays))

        def transposed_A(arrays: Arrays) -> None:
            transposed = scratch((m, k))
            transpose(A(arrays), transposed)
            arrays[c] = multiply(transposed, B(arrays))
            discard(transposed)

        def transposed_B(arrays: Arrays) -> None:
            transposed = scratch((k, n))
            transpose(B(arrays), transposed)
            arrays[c] = multiply(A(arrays), transposed)
            discard(transposed)

        return {"matmul": plain, "matmul_tn": transposed_A, "matmul_nt": transposed_B}[launch.op]

    def _loss_in_place(self, launch: Launch, shapes: dict[str, Shape]) -> Callable[[Arrays], None]:
        """The errors, and the gradient of the outputs in the memory of the outputs, which end here.

        The errors outlive the step, so no strategy allocates them.
        """
        P, Y, E, D = launch.operands
        shapes |= {E: (), D: shapes[P]}
        numbers, sizes = launch.numbers, OPS[launch.op].elements(*launch.numbers)
        compute = getattr(ops, launch.op)

        def squared(arrays: Arrays) -> None:
            outputs = arrays[D] = arrays.pop(P)
            arrays[E] = host_ops.error(outputs, arrays[Y], *numbers)

        def general(arrays: Arrays) -> None:
            outputs = arrays[D] = arrays.pop(P)
            flat, errors = outputs.reshape(-1), np.empty(sizes[2], np.float32)
            compute(flat, arrays[Y].reshape(-1), errors, flat, *numbers)
            arrays[E] = errors

        return squared if launch.op == "error" else general

    def _work(self, launch: Launch, shapes: dict[str, Shape]) -> Callable[[Arrays], None]:
        """Any other operation: in place where the host has it so, else as the CPU backend computes it."""
        sizes = zip(launch.operands, OPS[launch.op].elements(*launch.numbers), strict=True)
        makes = [(name, elements) for name, elements in sizes if name not in shapes]
        shapes |= {name: (elements,) for name, elements in makes}
        in_place = host_ops.IN_PLACE.get(launch.op)
        shape = None if in_place and len({shapes[name] for name in launch.operands} - {()}) == 1 else (-1,)
        compute = in_place or getattr(ops, launch.op)
        read = [_reader(name, shapes[name], shape or shapes[name]) for name in launch.operands]
        numbers = launch.numbers

        def do(arrays: Arrays) -> None:
            compute(*[get(arrays) for get in read], *numbers)

        def make_and_do(arrays: Arrays) -> None:
            for name, elements in makes:
                arrays[name] = np.empty(elements, np.float32) if name == "E" else self.result((elements,))
            do(arrays)

        return make_and_do if makes else do

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


def _reader(name: str, shape: Shape, wanted: Shape) -> Callable[[Arrays], Any]:
    """What looks up a matrix in the shape that is wanted; nothing for one that the host does without."""
    if shape == ():
        return lambda arrays: arrays.get(name)
    if shape == wanted:
        return itemgetter(name)
    return lambda arrays: arrays[name].reshape(wanted)
