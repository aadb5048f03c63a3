"""Any network of layers on the CPU: the launches of its training step, done by a baseline's operations."""

from collections.abc import Callable, Sequence

import numpy as np

from snn.backends.ops import OPS
from snn.models.network import Network
from snn.models.step import Step
from snn.models.training_step import prediction_step, training_step
from snn.strategies.common.cpu_perceptron import Hold

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
        self._predictions: dict[int, tuple[list[_Call], str]] = {}

    def train(self, batch: int) -> np.ndarray:
        """One training step; returns the errors of the batch."""
        X, Y, rows = self._batches[batch]
        self._run(self._steps[rows], X, Y)
        return self._arrays["E"][: rows * self._network.loss.errors(self._network.outputs)]

    def outputs(self, X: np.ndarray) -> np.ndarray:
        """The outputs of at most a batch of rows, which the next step overwrites."""
        rows = len(X)
        if rows not in self._predictions:
            step, result = prediction_step(self._network, rows, convolves=self._convolves)
            self._predictions[rows] = self._calls(step), result
        calls, result = self._predictions[rows]
        self._run(calls, X.reshape(-1), X.reshape(-1))
        return self._arrays[result][: rows * self._network.outputs].reshape(rows, -1)

    def _run(self, calls: list[_Call], X: np.ndarray, Y: np.ndarray) -> None:
        arrays = {**self._arrays, "X": X, "Y": Y}
        for operation, names, numbers in calls:
            operation(*[arrays[name] for name in names], *numbers)

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
