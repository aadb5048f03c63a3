"""Training of a stack of linear layers in launches of many steps, where the backend has a plan for it."""

from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from snn.backends.layered_plans import LayeredShape, LinearLayer
from snn.backends.ops import OPS
from snn.errors import Unsupported
from snn.models.gradients import EXACT
from snn.models.layers import Layer, Linear, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.strategies.common.device_driven import DeviceDriven
from snn.strategies.common.launched_training import LaunchedTraining
from snn.strategies.common.single_launch import in_batches, words_of_padding

KERNELS = ("kernels/persistent/layers.cu",)
"""Sources of the plans; a cell depends on them if its strategy imports this module."""


class LayeredLaunch(DeviceDriven):
    """Training of linear layers, with or without biases and ReLU, in launches of many steps, with any loss.

    Data, parameters, the loss of every row and the workspace are on the device, padded
    (``snn.backends.layered_plans``): what is trained is a network of the padded widths, whose further
    parameters are and stay zero. ``setup`` raises Unsupported, before it allocates anything, if the network
    is another or the backend has no plan. A prediction is launched layer by layer, as by ``resident``.
    """

    by_epoch = at_once = True
    remedies = False

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        rows = len(X)
        self._batch = self._micro = min(batch_size, rows)
        shape = shape_of(network, self._batch)
        self.plan = self.backend.training_plan(shape)
        self._shapes, self.network = network.shapes, _padded(network, shape.widths)
        self._outputs, self._features = network.outputs, shape.widths[0]
        self._last = rows % self._batch or self._batch
        self._training = LaunchedTraining(self.backend, shape, rows, learning_rate)
        self._stream = self.backend.stream_create()
        of_X, of_Y, weights, errors, workspace = self._training.sizes
        times = (of_X + of_Y) / (X.size + Y.size)
        of_data = (self._batch, prod(network.inputs)), (shape.rows, shape.widths[0]), times
        self.plan = "; ".join(filter(None, [self.plan, words_of_padding(*of_data)]))
        batches = (
            in_batches(matrix, self._batch, width, shape.rows)
            for matrix, width in ((X, shape.widths[0]), (Y, shape.widths[-1]))
        )
        self._named: dict[str, Any] = {
            name: self.upload(matrix, "data") for name, matrix in zip("XY", batches, strict=True)
        }
        self._named["W"], at = self.malloc(weights, "weights"), 0
        for parameter in self.network.parameters:
            size = 4 * prod(parameter.shape)
            self._named[parameter.name] = self.backend.part(self._named["W"], at, size)
            at += size
        self._named["E"] = self.malloc(errors, "gradients")
        self._named["S"] = self.upload(np.zeros(workspace, dtype=np.float32), "workspace")
        self._errors = self._parts_of_errors(rows, 4 * shape.errors)
        self._host_parameters = [self.host(each, "weights") for each in self.network.shapes]
        self._host_errors = self.host((rows, shape.errors), "gradients")

    def load(self, weights: list[np.ndarray]) -> None:
        shapes = zip(weights, self.network.shapes, strict=True)
        super().load([_with_zeros(W, shape) for W, shape in shapes])

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        self._training.train(epochs, self._operands, self._stream, self.progress)
        self._rows = self._last

    def check_trained(self) -> None:
        self._training.check(self._named["S"])

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(_with_zeros(X, (len(X), self._features)))[:, : self._outputs].copy()

    def weights(self) -> list[np.ndarray]:
        padded = zip(super().weights(), self._shapes, strict=True)
        return [W[tuple(map(slice, shape))].copy() for W, shape in padded]

    @property
    def _operands(self) -> tuple[Any, ...]:
        return tuple(self._named[name] for name in OPS[LayeredShape.op].operands)


def shape_of(network: Network, batch: int) -> LayeredShape:
    """What a kernel has to be compiled for. Raises Unsupported if no kernel trains such a network."""
    reason = _why_not(network)
    if reason:
        raise Unsupported(f"no stack of layers in one launch: {reason}")
    layers: tuple[Layer | None, ...] = (*network.layers, None)
    linear = tuple(
        LinearLayer(layer.width, layer.bias, isinstance(after, ReLU))
        for layer, after in pairwise(layers)
        if isinstance(layer, Linear)
    )
    return LayeredShape(
        batch,
        network.update_order == "sequential",
        network.reduction == "mean",
        network.loss is CROSS_ENTROPY,
        prod(network.inputs),
        linear,
    )


def _why_not(network: Network) -> str:
    others = [layer for layer in network.layers if not isinstance(layer, (Linear, ReLU))]
    if others:
        return f"its layers are linear and relu, and this one is {type(others[0]).__name__.lower()}"
    relu = [isinstance(layer, ReLU) for layer in network.layers]
    if relu[-1] or (True, True) in pairwise(relu):
        return "its kernel has one relu between two linear layers, and none at the end"
    if network.clip_norm is not None:
        return "its kernel does not clip"
    if network.gradient != EXACT:
        return "its kernel descends along the gradient itself"
    return ""


def _padded(network: Network, widths: tuple[int, ...]) -> Network:
    """The network with other widths, features first."""
    features, *others = widths
    remaining = iter(others)

    def widened(layer: Layer) -> Layer:
        return replace(layer, width=next(remaining)) if isinstance(layer, Linear) else layer

    return replace(network, inputs=(features,), layers=tuple(map(widened, network.layers)))


def _with_zeros(matrix: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The matrix, or the vector, with zeros behind its rows and columns."""
    larger = np.zeros(shape, dtype=np.float32)
    larger[tuple(map(slice, matrix.shape))] = matrix
    return larger
