"""The training step of the device-driven strategies: launches on buffers that ``setup`` has allocated."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.models.network import Network
from snn.models.step import Launch, Step, transposed
from snn.models.training_step import prediction_step, training_step
from snn.strategies.common.on_device import OnDevice

KERNELS = ("kernels/elementwise.cu",)
"""What is launched beside the products: a cell of a strategy that imports this module depends on it."""

Batch = tuple[Any, Any, int]
"""X and Y of a batch on the device, and its rows."""


class _Bound(NamedTuple):
    """A launch on the device's buffers; ``batch`` holds where X (0), Y (1) or E (2) of a batch stand."""

    op: str
    buffers: tuple[Any, ...]
    numbers: tuple[float, ...]
    batch: tuple[tuple[int, int], ...]


class DeviceDriven(OnDevice):
    """Parameters, activations and gradients live on the device, allocated once; one stream does all work.

    A step is the list of launches that ``training_step`` computes from the network's layers. A strategy says
    where batches come from, in ``epoch``, and calls ``step`` for each. The backend's kernel decides on the
    list: whether it is fused, and whether W^T is kept beside W (``pretransposed``). With ``keeps_losses``
    every batch of an epoch has its own part of the errors E.
    """

    any_network = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._rows = self._trained = 0
        self._predictions: dict[int, tuple[list[_Bound], Any]] = {}

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network = network
        self._stream = self.backend.stream_create()
        batch = self._batch = min(batch_size, len(X))
        steps = {rows: self._plan(network, rows, learning_rate) for rows in {batch, len(X) % batch or batch}}
        of_row = network.loss.errors(network.outputs)
        self._own = "XYE" if self.keeps_losses else "XY"
        self._allocate(steps[batch], len(X) * of_row if self.keeps_losses else 0)
        self._errors = self._parts_of_errors(len(X), 4 * of_row) if self.keeps_losses else []
        self._steps = {rows: [self._bind(launch) for launch in step.launches] for rows, step in steps.items()}
        self._host_parameters = [self.host(shape, "weights") for shape in network.shapes]
        self._host_errors = self.host((len(X) if self.keeps_losses else batch, of_row), "gradients")

    def malloc(self, elements: int, purpose: str) -> Any:
        """Device memory for this many float32, until ``close``."""
        buffer = self.backend.malloc(4 * elements, purpose)
        self._buffers.append(buffer)
        return buffer

    def host(self, shape: tuple[int, ...], purpose: str) -> np.ndarray:
        """A pinned host array, until ``close``."""
        array = self.backend.host_alloc(shape, purpose)
        self._host.append(array)
        return array

    def upload(self, matrix: np.ndarray, purpose: str) -> Any:
        """A matrix copied to the device, until ``close``; the pinned array it is copied from is freed."""
        buffer, staged = self.malloc(matrix.size, purpose), self.backend.host_alloc(matrix.shape, purpose)
        try:
            staged[...] = matrix
            self.backend.copy_in(buffer, staged)
        finally:
            self.backend.host_free(staged)
        return buffer

    def load(self, weights: list[np.ndarray]) -> None:
        for parameter, host, fresh in zip(
            self.network.parameters, self._host_parameters, weights, strict=True
        ):
            host[...] = fresh
            W = self._named[parameter.name]
            self.backend.copy_in(W, host, self._stream)
            if transposed(parameter.name) in self._named:
                W_T = self._named[transposed(parameter.name)]
                self.backend.launch("transpose", (W, W_T), fresh.shape, self._stream)
        self.backend.stream_synchronize(self._stream)
        self._rows = self._trained = 0

    def loss(self) -> float:
        if not self._rows:
            return float("nan")
        errors = self._host_errors[: self._rows]
        last = self._errors[-1] if self.keeps_losses else self._named["E"]
        self.backend.copy_out(errors, last, self._stream)
        self.backend.stream_synchronize(self._stream)
        return self.network.loss.value(errors)

    def epoch_losses(self) -> np.ndarray:
        self.backend.copy_out(self._host_errors, self._named["E"], self._stream)
        self.backend.stream_synchronize(self._stream)
        starts = range(0, len(self._host_errors), self._batch)
        return np.array([self.network.loss.value(self._host_errors[i : i + self._batch]) for i in starts])

    def predict(self, X: np.ndarray) -> np.ndarray:
        outputs = np.empty((len(X), self.network.outputs), np.float32)
        for start in range(0, len(X), self._batch):
            some = X[start : start + self._batch]
            launches, result = self._prediction(len(some))
            self.backend.copy_in(self._named["predicted X"], some, self._stream)
            for op, buffers, numbers, _ in launches:
                self.backend.launch(op, buffers, numbers, self._stream)
            self.backend.copy_out(outputs[start : start + len(some)], result, self._stream)
        self.backend.stream_synchronize(self._stream)
        return outputs

    def weights(self) -> list[np.ndarray]:
        for parameter, host in zip(self.network.parameters, self._host_parameters, strict=True):
            self.backend.copy_out(host, self._named[parameter.name], self._stream)
        self.backend.stream_synchronize(self._stream)
        return [host.copy() for host in self._host_parameters]

    def step(self, batch: Batch) -> None:
        """Forward, loss, backward and update on one batch: equations (1) to (4) of the paper."""
        *own, rows = batch
        if self.keeps_losses:
            own.append(self._errors[self._trained])
            self._trained = (self._trained + 1) % len(self._errors)
        launch, stream = self.backend.launch, self._stream
        for op, buffers, numbers, places in self._steps[rows]:
            if places:
                filled = list(buffers)
                for place, which in places:
                    filled[place] = own[which]
                buffers = tuple(filled)
            launch(op, buffers, numbers, stream)
        self._rows = rows

    def _plan(self, network: Network, rows: int, rate: float) -> Step:
        backend = self.backend
        return training_step(network, rows, rate, backend.fused, backend.pretransposed, backend.convolves)

    def _prediction(self, rows: int) -> tuple[list[_Bound], Any]:
        """The launches of a forward pass, and the buffer of its outputs; allocated at the first use."""
        if rows not in self._predictions:
            step, result = prediction_step(self.network, rows, self.backend.fused, self.backend.convolves)
            renamed = [
                launch._replace(
                    operands=tuple("predicted X" if name == "X" else name for name in launch.operands)
                )
                for launch in step.launches
            ]
            step.launches, step.purposes["predicted X"] = renamed, "data"
            for name, elements in self._sizes(step).items():
                if name not in self._named:
                    self._named[name] = self.malloc(elements // rows * self._batch, step.purposes[name])
            self._predictions[rows] = [self._bind(launch) for launch in step.launches], self._named[result]
        return self._predictions[rows]

    def _parts_of_errors(self, rows: int, row_bytes: int) -> list[Any]:
        """The part of E of each batch."""
        starts = range(0, rows, self._batch)
        part, E = self.backend.part, self._named["E"]
        return [part(E, i * row_bytes, min(self._batch, rows - i) * row_bytes) for i in starts]

    def _allocate(self, step: Step, errors: int) -> None:
        """The network's parameters and every buffer that the launches of a full batch name.

        ``errors``: the least elements of E.
        """
        sizes = {parameter.name: prod(parameter.shape) for parameter in self.network.parameters}
        purposes = dict.fromkeys(sizes, "weights") | step.purposes
        for name, elements in self._sizes(step).items():
            sizes[name] = max(sizes.get(name, 0), elements, errors if name == "E" else 0)
        self._named = {
            name: self.malloc(elements, purposes[name])
            for name, elements in sizes.items()
            if name not in ("X", "Y")
        }

    @staticmethod
    def _sizes(step: Step) -> dict[str, int]:
        """The most elements that a launch of a step has in each buffer."""
        sizes: dict[str, int] = {}
        for op, operands, numbers, _ in step.launches:
            for name, elements in zip(operands, OPS[op].elements(*numbers), strict=True):
                sizes[name] = max(sizes.get(name, 0), elements)
        return sizes

    def _bind(self, launch: Launch) -> _Bound:
        buffers = tuple(self._named.get(name) for name in launch.operands)
        batch = (
            (i, self._own.index(name)) for i, name in enumerate(launch.operands) if name in tuple(self._own)
        )
        return _Bound(launch.op, buffers, launch.numbers, tuple(batch))
