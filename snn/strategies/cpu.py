"""CPU baselines: the step of a perceptron and of any network of layers, by NumPy or by compiled loops."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu import ops
from snn.backends.ops import OPS
from snn.errors import Unsupported
from snn.hardware.devices import usable_processors
from snn.models import host_ops, optimizers
from snn.models.network import Network
from snn.models.optimizers import PLAIN
from snn.models.row_order import Orders, copy_rows
from snn.models.step import Step
from snn.models.training_step import prediction_step, training_step
from snn.strategies.base import Strategy, required
from snn.strategies.numba_loops import Arithmetic, operation, perceptron_loops

Hold = Callable[[np.ndarray, str], np.ndarray]
"""A copy of an array in memory that lives as long as the strategy, and what it is for."""


class Perceptron:
    """Weights, activations and gradients of a multilayer perceptron, held from the start.

    ``batches``: X and Y of each. ``parameters``: the weights.
    """

    def __init__(
        self,
        network: Network,
        batches: Sequence[tuple[np.ndarray, np.ndarray]],
        rate: float,
        arithmetic: Arithmetic,
        hold: Hold,
    ) -> None:
        self._network, self._arithmetic, self._rate = network, arithmetic, np.float32(rate)
        self._max_norm = None if network.clip_norm is None else np.float32(network.clip_norm)
        self.parameters = [hold(np.zeros(shape, np.float32), "weights") for shape in network.shapes]
        self._dW = [hold(W, "gradients") for W in self.parameters]
        rows = len(batches[0][0])
        matrices = [np.zeros((rows, width), np.float32) for width in network.mlp_widths()[1:]]
        self._H = [hold(matrix, "activations") for matrix in matrices]
        dZ = [hold(matrix, "gradients") for matrix in matrices]
        self._error = hold(matrices[-1], "gradients")
        self._batches = [
            ([X, *(h[: len(X)] for h in self._H)], Y, [d[: len(X)] for d in dZ]) for X, Y in batches
        ]

    def train(self, batch: int) -> np.ndarray:
        """One training step, equations (1) to (4) of the paper; returns the errors of the batch."""
        H, Y, dZ = self._batches[batch]  # H is X, H1, H2, ..., Y_pred
        W, arithmetic, last = self.parameters, self._arithmetic, len(self.parameters) - 1
        self._forward(H)
        error = np.subtract(H[-1], Y, out=self._error[: len(Y)])
        np.multiply(error, np.float32(2.0 / len(Y)), out=dZ[-1])
        sequential = self._network.update_order == "sequential"
        for i in range(last, -1, -1):
            arithmetic.gradient(H[i], dZ[i], self._dW[i])
            if self._max_norm is not None:
                arithmetic.clip(self._max_norm, self._dW[i])
            if sequential:
                arithmetic.update(self._rate, self._dW[i], W[i])
            if i > 0:
                arithmetic.propagate(dZ[i], W[i], H[i], dZ[i - 1])
        if not sequential:
            for w, dW in zip(W, self._dW, strict=True):
                arithmetic.update(self._rate, dW, w)
        return error

    def reset(self) -> None:
        """Nothing: plain gradient descent keeps no state."""

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """The outputs of at most a batch of rows, which the next step overwrites."""
        H = [X, *(h[: len(X)] for h in self._H)]
        self._forward(H)
        return H[-1]

    def _forward(self, H: list[np.ndarray]) -> None:
        last = len(self.parameters) - 1
        for i, W in enumerate(self.parameters):
            self._arithmetic.forward(H[i], W, i < last, H[i + 1])


Operations = Callable[[str], Callable[..., None]]
"""An operation of ``snn.backends.ops`` by its name, on flat arrays and numbers. Raises Unsupported."""

_Call = tuple[Callable[..., None], tuple[str, ...], tuple[float, ...]]


class Layers:
    """Parameters, activations and gradients of a network of layers, held from the start as flat arrays.

    ``batches``: X and Y of each. ``convolves``: convolutions are computed directly, rather than as products
    of patches. ``parameters``: as the network shapes them.
    """

    def __init__(
        self,
        network: Network,
        batches: Sequence[tuple[np.ndarray, np.ndarray]],
        rate: float,
        operations: Operations,
        convolves: bool,
        hold: Hold,
    ) -> None:
        self._network, self._operations, self._hold = network, operations, hold
        self._convolves = convolves
        self.parameters = [hold(np.zeros(shape, np.float32), "weights") for shape in network.shapes]
        self._arrays = {
            parameter.name: array.reshape(-1)
            for parameter, array in zip(network.parameters, self.parameters, strict=True)
        }
        self._batches = [(X.reshape(-1), Y.reshape(-1), len(X)) for X, Y in batches]
        steps = {
            rows: training_step(network, rows, rate, convolves=convolves) for _, _, rows in self._batches
        }
        self._allocate(steps[len(batches[0][0])])
        self._steps = {rows: self._calls(step) for rows, step in steps.items()}
        self._predictions = {rows: self._prediction(rows) for rows in steps}  # compiled before what is timed

    def train(self, batch: int) -> np.ndarray:
        """One training step; returns the errors of the batch."""
        X, Y, rows = self._batches[batch]
        self._run(self._steps[rows], X, Y)
        return self._arrays["E"][: rows * self._network.loss.errors(self._network.outputs)]

    def reset(self) -> None:
        """Set the optimiser's state to its start."""
        for name in self._network.state:
            optimizers.start(name, self._arrays[name])

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """The outputs of at most a batch of rows, which the next step overwrites."""
        rows = len(X)
        if rows not in self._predictions:
            self._predictions[rows] = self._prediction(rows)
        calls, result = self._predictions[rows]
        self._run(calls, X.reshape(-1), X.reshape(-1))
        return self._arrays[result][: rows * self._network.outputs].reshape(rows, -1)

    def _run(self, calls: list[_Call], X: np.ndarray, Y: np.ndarray) -> None:
        arrays = {**self._arrays, "X": X, "Y": Y}
        for call, names, numbers in calls:
            call(*[arrays[name] for name in names], *numbers)

    def _prediction(self, rows: int) -> tuple[list[_Call], str]:
        step, result = prediction_step(self._network, rows, convolves=self._convolves)
        return self._calls(step), result

    def _calls(self, step: Step) -> list[_Call]:
        return [(self._operations(op), names, numbers) for op, names, numbers, _ in step.launches]

    def _allocate(self, step: Step) -> None:
        """Every array that the launches of a full batch name, but the parameters and the batch."""
        sizes: dict[str, int] = {}
        for op, names, numbers, _ in step.launches:
            for name, elements in zip(names, OPS[op].elements(*numbers), strict=True):
                sizes[name] = max(sizes.get(name, 0), elements)
        for name, elements in sizes.items():
            if name not in self._arrays and name not in ("X", "Y"):
                self._arrays[name] = self._hold(np.zeros(elements, np.float32), step.purposes[name])


class CpuBaseline(Strategy):
    """Training on the CPU in pageable memory, without a device.

    ``setup`` copies the data and allocates one matrix for each activation, gradient and weight. After that
    nothing is copied or waited for, and there is nothing to launch; only with ``training.shuffle=epoch`` each
    epoch begins with a copy of the rows in its order. ``setup`` raises Unsupported unless the
    device is the CPU.
    """

    on_host = True
    any_network = any_optimizer = any_schedule = shuffles = True
    own_step = "a CPU baseline"

    convolves: bool
    """Whether convolutions are computed directly, rather than as products of patches (im2col)."""

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._arrays: list[np.ndarray] = []
        self._data: tuple[np.ndarray, ...] = ()
        self._taken: tuple[np.ndarray, ...] = ()
        self._orders: Orders | None = None
        self._trained: Any = None

    def limit_threads(self) -> None:
        """Set the number of threads. Raises Unsupported."""

    @abstractmethod
    def arithmetic(self) -> Arithmetic:
        """The operations of a perceptron's step, after compiling what they need. Raises Unsupported."""

    @abstractmethod
    def operations(self) -> Operations:
        """The operations of any network's step, after compiling what they need. Raises Unsupported."""

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        if not self.backend.is_processor:
            raise Unsupported("this strategy is a CPU baseline: it runs with device=cpu only")
        self.network, self._rows = network, min(batch_size, len(X))
        self.limit_threads()
        X, Y = self._data = self._copy_of(X, "data"), self._copy_of(Y, "data")
        if network.order_seed is not None:
            self._orders = Orders(len(X), network.order_seed)
            X, Y = self._copy_of(X, "data"), self._copy_of(Y, "data")
        self._taken = X, Y
        batches = [(X[i : i + batch_size], Y[i : i + batch_size]) for i in range(0, len(X), batch_size)]
        if network.widths is None or network.optimizer != PLAIN:
            how = self.operations(), self.convolves, self._copy_of
            self._trained = Layers(network, batches, rate, *how)
        else:
            self._trained = Perceptron(network, batches, rate, self.arithmetic(), self._copy_of)
        self._losses = np.full(len(batches), np.nan)
        self._loss = float("nan")

    def load(self, weights: list[np.ndarray]) -> None:
        for W, initial in zip(self._trained.parameters, weights, strict=True):
            W[...] = initial
        self._trained.reset()
        if self._orders:
            self._orders.restart()
        self._loss = float("nan")

    def epoch(self) -> None:
        train, value = self._trained.train, self.network.loss.value
        if self._orders:
            copy_rows(self._data, self._orders.next(), self._taken)
        for batch in range(len(self._losses)):
            errors = train(batch)
            if self.keeps_losses:
                self._losses[batch] = value(errors)
        self._loss = value(errors)

    def loss(self) -> float:
        return self._loss

    def epoch_losses(self) -> np.ndarray:
        return self._losses.copy()

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        for start in range(0, len(X), self._rows):
            end = start + self._rows
            outputs[start:end] = self._trained.outputs(X[start:end])
        return outputs

    def weights(self) -> list[np.ndarray]:
        return [W.copy() for W in self._trained.parameters]

    def close(self) -> None:
        self._trained = None
        self._data = self._taken = ()
        while self._arrays:
            self.backend.host_free(self._arrays.pop())

    def _copy_of(self, array: np.ndarray, purpose: str) -> np.ndarray:
        """A copy in pageable memory of the backend, which ``close`` frees."""
        copy = self.backend.host_alloc(array.shape, purpose, False)
        self._arrays.append(copy)
        copy[...] = array
        return copy


def check_threads(threads: int, numba_threads: int | None = None) -> None:
    """Raise Unsupported if there are more threads than CPUs that may be used, or than ``numba_threads``."""
    if threads > usable_processors():
        raise Unsupported(
            f"strategy.threads is {threads}: this process may use only {usable_processors()} CPUs"
        )
    if numba_threads is not None and threads > numba_threads:
        raise Unsupported(f"strategy.threads is {threads}: NUMBA_NUM_THREADS allows only {numba_threads}")


# ---- the strategies


class Blas(CpuBaseline):
    """Training by NumPy, with products by a BLAS on a given number of threads.

    ``setup`` limits the BLAS to that number of threads and makes the allocations of ``CpuBaseline``. A
    product, also of transposed operands, is one BLAS call, which waits for its threads. Element-wise work is
    NumPy's, on one thread. After ``setup`` only the mask of an error is allocated, one byte per element;
    nothing is copied. ``close`` restores the number of BLAS threads.
    """

    convolves = False

    def __init__(self, backend: Backend, threads: int = 1) -> None:
        super().__init__(backend)
        self._threads = threads
        self._limit: Any = None

    def limit_threads(self) -> None:
        check_threads(self._threads)
        control = required("threadpoolctl").ThreadpoolController()
        self._limit = control.limit(limits=self._threads, user_api="blas")
        allowed = [library["num_threads"] for library in control.select(user_api="blas").info()]
        if self._threads not in allowed:
            in_use = ", ".join(map(str, allowed)) or "no BLAS found"
            raise Unsupported(f"NumPy's BLAS cannot be limited to {self._threads} threads; in use: {in_use}")

    def arithmetic(self) -> Arithmetic:
        return ARITHMETIC

    def operations(self) -> Operations:
        return partial(getattr, ops)

    def close(self) -> None:
        if self._limit is not None:
            self._limit.restore_original_limits()
            self._limit = None
        super().close()


def _forward(A: np.ndarray, W: np.ndarray, relu: bool, Z: np.ndarray) -> None:
    np.matmul(A, W, out=Z)
    if relu:
        np.maximum(Z, 0, out=Z)


def _gradient(H: np.ndarray, dZ: np.ndarray, dW: np.ndarray) -> None:
    np.matmul(H.T, dZ, out=dW)


def _clip(max_norm: np.float32, dW: np.ndarray) -> None:
    host_ops.clip(dW, float(max_norm))


def _propagate(dZ: np.ndarray, W: np.ndarray, H: np.ndarray, dH: np.ndarray) -> None:
    np.matmul(dZ, W.T, out=dH)
    np.multiply(dH, H > 0, out=dH)


def _update(rate: np.float32, dW: np.ndarray, W: np.ndarray) -> None:
    dW *= rate
    W -= dW


ARITHMETIC = Arithmetic(_forward, _gradient, _clip, _propagate, _update)


class Sequential(CpuBaseline):
    """Training by loops that Numba compiles, on one thread.

    ``setup`` compiles the loops and allocates what every ``CpuBaseline`` does. After that one thread computes
    without any library, and nothing is allocated, copied or waited for.
    """

    convolves = True
    parallel = False

    def arithmetic(self) -> Arithmetic:
        return perceptron_loops(self.parallel)

    def operations(self) -> Operations:
        return partial(operation, self.parallel)


class Threads(Sequential):
    """Training by loops that Numba compiles, on a given number of threads.

    ``setup`` compiles the loops, sets the number of Numba threads, and allocates what every ``CpuBaseline``
    does. Each product, and each pass over a matrix, is divided by rows among the threads and waits for the
    last of them. Nothing is allocated or copied. ``close`` restores the number of Numba threads.
    """

    parallel = True

    def __init__(self, backend: Backend, threads: int = 1) -> None:
        super().__init__(backend)
        self._threads = threads
        self._numba: Any = None
        self._previous_threads = 0

    def limit_threads(self) -> None:
        numba = required("numba")
        check_threads(self._threads, numba.config.NUMBA_NUM_THREADS)
        self._previous_threads, self._numba = numba.get_num_threads(), numba
        numba.set_num_threads(self._threads)

    def close(self) -> None:
        if self._numba is not None:
            self._numba.set_num_threads(self._previous_threads)
            self._numba = None
        super().close()
