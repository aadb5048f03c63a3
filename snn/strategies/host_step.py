"""The training step of host-driven strategies: products through the device, the rest on host matrices."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.models import host_ops, optimizers
from snn.models.host_ops import transpose
from snn.models.network import LEAN, Network
from snn.models.row_order import Batches, rows_of
from snn.models.step import Launch, Shape, Step
from snn.models.training_step import prediction_step, training_step
from snn.strategies.base import Strategy
from snn.strategies.published_step import PublishedStep

Arrays = dict[str, np.ndarray]
"""The matrices of a step by the names of its buffers."""

Call = Callable[[Arrays], Any]


class HostDriven(Strategy):
    """Element-wise work on the host, as in the paper; a strategy implements one product.

    The step is the list of launches that ``training_step`` computes from the network's layers. Products go
    through ``multiply``, and NumPy does the rest on host matrices. A strategy defines ``multiply`` and, if it
    does not want the backend's host memory, ``_allocate`` and ``_free``: how host matrices are allocated and
    freed. Data and parameters exist once; a step allocates a ``result`` for everything that it computes and
    ``scratch`` for every transpose, and frees each as soon as nothing reads it, as in the paper's programs.
    With ``training.shuffle=epoch`` the rows of a batch are copied to a matrix for X and one for Y.
    ``close`` also frees what a strategy keeps in ``_buffers`` and ``_stream``.
    """

    any_network = any_optimizer = any_schedule = shuffles = any_fidelity = True

    purpose: str
    """Purpose of the memory of the results that are computed now."""

    page_locked = False
    """Whether every host matrix is pinned when it is allocated."""

    pins_scratch = True
    """Whether that includes transposes."""

    keeps_matrices = False
    """Whether the next step uses the same matrices, so that none is discarded."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self.computes = backend.computes
        self._live: dict[int, np.ndarray] = {}
        self._data: tuple[np.ndarray, ...] = ()
        self._taken: list[np.ndarray] = []
        self._stream: Any = None
        self._buffers: list[Any] = []
        self._predictions: dict[int, tuple[list[Call], str]] = {}
        self._allocate: Callable[..., np.ndarray] = backend.host_alloc
        self._free: Callable[[np.ndarray], None] = backend.host_free
        self.purpose = "activations"

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """A B in a matrix of ``result``."""
        C = self.result((A.shape[0], B.shape[1]))
        self.multiply(A, B, C)
        return C

    @abstractmethod
    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        """C = A B through the device; returns when it is finished."""

    def result(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for a step's results; ``discard`` frees it, or ``close`` at the latest."""
        return self.allocate(shape, self.purpose, self.page_locked)

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray:
        """A matrix for a transpose."""
        return self.allocate(shape, "workspace", self.page_locked and self.pins_scratch)

    def discard(self, array: np.ndarray) -> None:
        """Free a matrix of ``result`` or ``scratch``."""
        self._free(self._live.pop(id(array)))

    def allocate(self, shape: tuple[int, ...], purpose: str, page_locked: bool) -> np.ndarray:
        """An uninitialised float32 host matrix that ``close`` frees, if nothing has before."""
        array = self._allocate(shape, purpose, page_locked)
        self._live[id(array)] = array
        return array

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self.network, self._rate, self._batch = network, rate, batch_size
        self._data = self._hold(X, "data"), self._hold(Y, "data")
        self._batches = Batches(len(X), batch_size, network.order_seed)
        if network.order_seed is not None:
            self._taken = [self._hold(matrix[:batch_size], "data") for matrix in self._data]
        self._parameters = {
            parameter.name: self._hold(np.zeros(parameter.shape, dtype=np.float32), "weights")
            for parameter in network.parameters
        }
        self._state = {
            name: self.allocate((elements,), "optimizer", page_locked=False)
            for name, elements in network.state.items()
        }
        self._plan_steps({min(batch_size, len(X)), len(X) % batch_size or batch_size})
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for parameter, fresh in zip(self._parameters.values(), weights, strict=True):
            parameter[...] = fresh
        for name, array in self._state.items():
            optimizers.start(name, array)
        self._batches.restart()
        self._loss = float("nan")

    def epoch(self) -> None:
        losses = []
        for rows in self._batches.epoch():
            step = self._train(*rows_of(self._data, rows, self._taken))
            if self.keeps_losses:
                losses.append(self._loss_of(step))
        self._loss = self._loss_of(step)
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
        self._data, self._taken, self._parameters, self._state = (), [], {}, {}
        while self._live:
            self._free(self._live.popitem()[1])

    def announce(self, tell: Callable[[str], Any]) -> None:
        """Have ``tell`` called before each launch of a step, with its label: for an instrumented pass."""
        self._plan_steps(self._steps, tell)

    def _plan_steps(self, sizes: Iterable[int], tell: Callable[[str], Any] | None = None) -> None:
        """The calls of a step for each number of rows."""
        self._steps = {rows: self._step_of(rows, tell) for rows in sizes}

    def _step_of(self, rows: int, tell: Callable[[str], Any] | None) -> Sequence[Call]:
        if self.network.fidelity != LEAN:
            return PublishedStep(self, self.network, rows, self._rate, tell).calls
        return HostStep(self, self.network, training_step(self.network, rows, self._rate), tell).calls

    def _train(self, X: np.ndarray, Y: np.ndarray) -> Arrays:
        """One step, equations (1) to (4) of the paper; returns its matrices that are left."""
        arrays = {**self._parameters, **self._state, "X": X, "Y": Y}
        for call in self._steps[len(X)]:
            call(arrays)
        return arrays

    def _loss_of(self, step: Mapping[str, Any]) -> float:
        return step["loss"] if "loss" in step else self.network.loss.value(step["E"])

    def _hold(self, array: np.ndarray, purpose: str) -> np.ndarray:
        held = self.allocate(array.shape, purpose, self.page_locked)
        held[...] = array
        return held


class HostStep:
    """The calls of one step of a network, in order.

    Products go to the host's ``matmul``, with the transpose of an operand in a ``scratch`` matrix; all other
    operations are NumPy's, in place if possible. Each matrix is discarded right after the launch
    that reads it for the last time, unless it is the ``result`` of the step or the host keeps its matrices
    from step to step. The errors E outlive the step, so they are not the host's. ``tell`` is called before
    each launch, with its label.
    """

    def __init__(
        self,
        host: HostDriven,
        network: Network,
        step: Step,
        tell: Callable[[str], Any] | None = None,
        result: str | None = None,
    ) -> None:
        rows = step.rows
        self._host, self._loss = host, network.gradient.loss_op(network.loss.op)
        self._transpose = self._computed(transpose)
        self.calls: list[Call] = []
        self._shapes: dict[str, Shape] = {parameter.name: parameter.shape for parameter in network.parameters}
        self._shapes |= {"X": (rows, prod(network.inputs)), "Y": (rows, network.outputs)}
        self._shapes |= {name: (elements,) for name, elements in network.state.items()}
        last = {name: at for at, launch in enumerate(step.launches) for name in launch.operands}
        purpose = None
        for at, launch in enumerate(step.launches):
            made = [name for name in launch.operands if name not in self._shapes and name not in ("E", "S")]
            ends = [name for name in dict.fromkeys(launch.operands) if last[name] == at]
            ends = [name for name in ends if name in step.purposes and name not in ("E", "S", result)]
            ends = [name for name in ends if name not in network.state]
            if tell is not None:
                self.calls.append(partial(_told, tell, launch.label))
            if made and not host.keeps_matrices and step.purposes[made[-1]] != purpose:
                purpose = step.purposes[made[-1]]
                self.calls.append(partial(_for_purpose, host, purpose))
            if launch.op.startswith("matmul"):
                self._product(launch)
            elif launch.op == self._loss and launch.operands[0] in ends:
                self._loss_in_place(launch)
                ends.remove(launch.operands[0])
            else:
                self._other(launch, made)
            if not host.keeps_matrices:
                self.calls += map(self._discarded, ends)

    def _product(self, launch: Launch) -> None:
        """C = A B, A^T B or A B^T."""
        (a, b, c), (m, k, n) = launch.operands, map(int, launch.numbers)
        a = self._viewed(a, (k, m) if launch.op == "matmul_tn" else (m, k))
        b = self._viewed(b, (n, k) if launch.op == "matmul_nt" else (k, n))
        self._shapes[c] = (m, n)
        multiply, scratch, discard = self._host.matmul, self._host.scratch, self._host.discard
        write_transposed = self._transpose

        def plain(arrays: Arrays) -> None:
            arrays[c] = multiply(arrays[a], arrays[b])

        def transposed_A(arrays: Arrays) -> None:
            transposed = scratch((m, k))
            write_transposed(arrays[a], transposed)
            arrays[c] = multiply(transposed, arrays[b])
            discard(transposed)

        def transposed_B(arrays: Arrays) -> None:
            transposed = scratch((k, n))
            write_transposed(arrays[b], transposed)
            arrays[c] = multiply(arrays[a], transposed)
            discard(transposed)

        calls = {"matmul": plain, "matmul_tn": transposed_A, "matmul_nt": transposed_B}
        self.calls.append(calls[launch.op])

    def _loss_in_place(self, launch: Launch) -> None:
        """The errors, and the gradient of the outputs in the memory of the outputs, which end here."""
        outputs, targets, errors, gradient = launch.operands
        self._shapes[gradient] = self._shapes[outputs]
        if launch.op == "error":
            scale = launch.numbers[-1]
            of_outputs = host_ops.error if self._host.computes else _no_error

            def squared(arrays: Arrays) -> None:
                arrays[gradient] = P = arrays.pop(outputs)
                Y = arrays[targets]
                arrays[errors] = of_outputs(P.reshape(Y.shape), Y, scale)

            self.calls.append(squared)
            return
        compute, rows = self._computed(getattr(ops, launch.op)), int(launch.numbers[0])

        def general(arrays: Arrays) -> None:
            arrays[gradient] = P = arrays.pop(outputs)
            arrays[errors] = E = np.empty(rows, np.float32)
            compute(P.reshape(-1), arrays[targets].reshape(-1), E, P.reshape(-1), *launch.numbers)

        self.calls.append(general)

    def _other(self, launch: Launch, made: Iterable[str]) -> None:
        """Any other operation: in place if the host can, else as the CPU backend computes it."""
        operands = [name for name in launch.operands if name != "S"]
        in_place = host_ops.IN_PLACE.get(launch.op)
        if in_place is not None:
            names = [self._viewed(name, self._shapes[operands[0]]) for name in operands]
            reals = tuple(number for number in launch.numbers if isinstance(number, float))
            self.calls.append(_applied(self._computed(in_place), names, reals))
            return
        sizes = dict(zip(launch.operands, OPS[launch.op].elements(*launch.numbers), strict=True))
        for name in made:
            self.calls.append(self._made(name, sizes[name]))
        if "E" in operands:
            self.calls.append(lambda arrays: arrays.update(E=np.empty(sizes["E"], np.float32)))
            self._shapes["E"] = (sizes["E"],)
        names = [self._viewed(name, (prod(self._shapes[name]),)) for name in operands]
        self.calls.append(_applied(self._computed(getattr(ops, launch.op)), names, launch.numbers))

    def _computed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of matrices, or one that does nothing if the host does not compute."""
        return function if self._host.computes else _nothing

    def _made(self, name: str, elements: int) -> Call:
        self._shapes[name] = (elements,)
        result = self._host.result

        def make(arrays: Arrays) -> None:
            arrays[name] = result((elements,))

        return make

    def _discarded(self, name: str) -> Call:
        discard = self._host.discard

        def end(arrays: Arrays) -> None:
            discard(arrays.pop(name))

        return end

    def _viewed(self, name: str, shape: Shape) -> str:
        """The name of a matrix, or of a view of it, in the shape that is wanted."""
        if self._shapes[name] == shape:
            return name
        view = f"{name} {shape}"
        self.calls.append(lambda arrays: arrays.__setitem__(view, arrays[name].reshape(shape)))
        return view


def _nothing(*arguments: Any) -> None:
    """Host operation of a backend that does not compute."""


def _no_error(P: np.ndarray, Y: np.ndarray, scale: float) -> np.ndarray:
    """Zero errors for a host that does not compute."""
    return np.zeros_like(P)


def _told(tell: Callable[[str], Any], label: str, arrays: Arrays) -> None:
    tell(label)


def _for_purpose(host: HostDriven, purpose: str, arrays: Arrays) -> None:
    host.purpose = purpose


def _applied(function: Callable[..., Any], names: list[str], numbers: tuple[Any, ...]) -> Call:
    """A call of a function with matrices and numbers."""
    if len(names) == 1:
        first = names[0]
        return lambda arrays: function(arrays[first], *numbers)
    if len(names) == 2:
        first, second = names
        return lambda arrays: function(arrays[first], arrays[second], *numbers)
    return lambda arrays: function(*[arrays[name] for name in names], *numbers)


class Request(NamedTuple):
    """A host matrix that a step asks for; ``freed_before``: how many requests there are until it is freed."""

    elements: int
    purpose: str
    freed_before: int


class Rehearsal(HostDriven):
    """One step on zeros, without device or arithmetic, to find the memory that a step asks for.

    ``requests``: its host matrices in order. ``products``: m, k and n of each product of A (m, k)
    and B (k, n).
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
        self._state = {name: np.zeros(elements, np.float32) for name, elements in network.state.items()}
        self._plan_steps([rows])
        self._train(
            *(np.zeros((rows, width), np.float32) for width in (prod(network.inputs), network.outputs))
        )

    def multiply(self, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> None:
        self.products.append((*A.shape, B.shape[1]))

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
