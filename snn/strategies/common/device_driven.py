"""The training step of the device-driven strategies: launches on buffers that ``setup`` has allocated."""

from math import prod
from typing import Any, NamedTuple

import numpy as np

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.models.network import Network
from snn.models.step import Launch, Step, transposed
from snn.models.training_step import training_step
from snn.strategies.common.on_device import OnDevice

KERNELS = ("kernels/elementwise.cu",)
"""What is launched beside the products: a cell of a strategy that imports this module depends on it."""

Batch = tuple[Any, Any, int]
"""X and Y of a batch on the device, and its rows."""


class _Bound(NamedTuple):
    """A launch on the device's buffers; ``batch`` holds where X (0) or Y (1) of a batch takes their place."""

    op: str
    buffers: tuple[Any, ...]
    numbers: tuple[float, ...]
    batch: tuple[tuple[int, int], ...]


class DeviceDriven(OnDevice):
    """Parameters, activations and gradients live on the device, allocated once; one stream does all work.

    A step is the list of launches that ``training_step`` computes from the network's layers. A strategy says
    where batches come from, in ``epoch``, and calls ``step`` for each. The backend's kernel decides on the
    list: whether it is fused, and whether W^T is kept beside W (``pretransposed``).
    """

    any_network = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._rows = 0

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network = network
        self._stream = self.backend.stream_create()
        batch = min(batch_size, len(X))
        steps = {rows: self._plan(network, rows, learning_rate) for rows in {batch, len(X) % batch or batch}}
        self._allocate(steps[batch])
        self._steps = {rows: [self._bind(launch) for launch in step.launches] for rows, step in steps.items()}
        self._host_parameters = [self.host(shape, "weights") for shape in network.shapes]
        self._host_errors = self.host((batch, network.loss.errors(network.outputs)), "gradients")

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
        self._rows = 0

    def loss(self) -> float:
        if not self._rows:
            return float("nan")
        errors = self._host_errors[: self._rows]
        self.backend.copy_out(errors, self._named["E"], self._stream)
        self.backend.stream_synchronize(self._stream)
        return self.network.loss.value(errors)

    def weights(self) -> list[np.ndarray]:
        for parameter, host in zip(self.network.parameters, self._host_parameters, strict=True):
            self.backend.copy_out(host, self._named[parameter.name], self._stream)
        self.backend.stream_synchronize(self._stream)
        return [host.copy() for host in self._host_parameters]

    def step(self, batch: Batch) -> None:
        """Forward, loss, backward and update on one batch: equations (1) to (4) of the paper."""
        X, Y, rows = batch
        launch, stream = self.backend.launch, self._stream
        for op, buffers, numbers, places in self._steps[rows]:
            if places:
                filled = list(buffers)
                for place, which in places:
                    filled[place] = Y if which else X
                buffers = tuple(filled)
            launch(op, buffers, numbers, stream)
        self._rows = rows

    def _plan(self, network: Network, rows: int, rate: float) -> Step:
        backend = self.backend
        return training_step(network, rows, rate, backend.fused, backend.pretransposed, backend.convolves)

    def _allocate(self, step: Step) -> None:
        """The network's parameters and every buffer that the launches of a full batch name."""
        sizes = {parameter.name: prod(parameter.shape) for parameter in self.network.parameters}
        purposes = dict.fromkeys(sizes, "weights")
        for op, operands, numbers, _ in step.launches:
            for name, elements in zip(operands, OPS[op].elements(*numbers), strict=True):
                sizes[name] = max(sizes.get(name, 0), elements)
        purposes |= step.purposes
        self._named = {
            name: self.malloc(elements, purposes[name])
            for name, elements in sizes.items()
            if name not in ("X", "Y")
        }

    def _bind(self, launch: Launch) -> _Bound:
        buffers = tuple(self._named.get(name) for name in launch.operands)
        batch = ((i, "XY".index(name)) for i, name in enumerate(launch.operands) if name in ("X", "Y"))
        return _Bound(launch.op, buffers, launch.numbers, tuple(batch))
