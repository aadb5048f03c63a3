"""A host-driven training step: its launches as calls on host matrices, planned once for each batch size."""

from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np

from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.models import host_ops
from snn.models.host_ops import transpose
from snn.models.network import Network
from snn.models.step import Launch, Shape, Step

Arrays = dict[str, np.ndarray]
"""The matrices of a step by the names of its buffers."""

Call = Callable[[Arrays], Any]


class Host(Protocol):
    """What a strategy does for a step: its products and its matrices."""

    purpose: str
    keeps_matrices: bool
    computes: bool

    def matmul(self, A: np.ndarray, B: np.ndarray) -> np.ndarray: ...

    def result(self, shape: tuple[int, ...]) -> np.ndarray: ...

    def scratch(self, shape: tuple[int, ...]) -> np.ndarray: ...

    def discard(self, array: np.ndarray) -> None: ...


class HostStep:
    """The calls of one step of a network, in order.

    Products go to the host's ``matmul``, with the transpose of an operand in a ``scratch`` matrix; all other
    operations are NumPy's, in place where that is possible. Each matrix is discarded right after the launch
    that reads it for the last time, unless it is the ``result`` of the step or the host keeps its matrices
    from step to step. The errors E outlive the step, so they are not the host's. ``tell`` is called before
    each launch, with its label.
    """

    def __init__(
        self,
        host: Host,
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
        last = {name: at for at, launch in enumerate(step.launches) for name in launch.operands}
        purpose = None
        for at, launch in enumerate(step.launches):
            made = [name for name in launch.operands if name not in self._shapes and name not in ("E", "S")]
            ends = [name for name in dict.fromkeys(launch.operands) if last[name] == at]
            ends = [name for name in ends if name in step.purposes and name not in ("E", "S", result)]
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
                arrays[errors] = of_outputs(P, arrays[targets], scale)

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
        """A function of matrices, or nothing where the host does not compute."""
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
        """The name of a matrix in the shape that is wanted: its own, or that of a view."""
        if self._shapes[name] == shape:
            return name
        view = f"{name} {shape}"
        self.calls.append(lambda arrays: arrays.__setitem__(view, arrays[name].reshape(shape)))
        return view


def _nothing(*arguments: Any) -> None:
    """What a host does that does not compute."""


def _no_error(P: np.ndarray, Y: np.ndarray, scale: float) -> np.ndarray:
    """The errors where nothing is computed."""
    return np.zeros_like(P)


def _told(tell: Callable[[str], Any], label: str, arrays: Arrays) -> None:
    tell(label)


def _for_purpose(host: Host, purpose: str, arrays: Arrays) -> None:
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
