"""Training of a convolutional network in launches of many steps, where the backend has a plan for it."""

from math import prod
from typing import Any

import numpy as np

from snn.backends.convolutional_plans import ConvolutionalShape
from snn.errors import Unsupported
from snn.models.gradients import EXACT
from snn.models.layers import Conv2d, Layer, Linear, MaxPool2d, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.strategies.common.device_driven import DeviceDriven
from snn.strategies.common.launched_training import LaunchedTraining

KERNELS = ("kernels/persistent/convolution.cu",)
"""Sources of the plans; a cell depends on them if its strategy imports this module."""

_LAYERS = (Conv2d, ReLU, Conv2d, ReLU, MaxPool2d, Linear)


class ConvolutionalLaunch(DeviceDriven):
    """Training of conv2d, relu, conv2d, relu, maxpool2d and linear, with cross-entropy, many steps a launch.

    Data, parameters, the loss of every row and the workspace are on the device as they are, without padding.
    ``setup`` raises Unsupported, before it allocates anything, if the network is another or the backend has
    no plan. A prediction is launched layer by layer, as by ``resident``.
    """

    by_epoch = at_once = True
    remedies = False

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self.network, rows = network, len(X)
        self._batch = self._micro = min(batch_size, rows)
        shape = shape_of(network, self._batch)
        self.plan = self.backend.training_plan(shape)
        self._last = rows % self._batch or self._batch
        self._training = LaunchedTraining(self.backend, shape, rows, learning_rate)
        self._stream = self.backend.stream_create()
        workspace = np.zeros(self._training.sizes[-1], dtype=np.float32)
        self._named: dict[str, Any] = {"X": self.upload(X, "data"), "Y": self.upload(Y, "data")}
        for parameter in network.parameters:
            self._named[parameter.name] = self.malloc(prod(parameter.shape), "weights")
        self._named["E"] = self.malloc(rows, "gradients")
        self._named["S"] = self.upload(workspace, "workspace")
        self._errors = self._parts_of_errors(rows, 4)
        self._host_parameters = [self.host(shape, "weights") for shape in network.shapes]
        self._host_errors = self.host((rows, 1), "gradients")

    def epoch(self) -> None:
        self.train(1)

    def train(self, epochs: int) -> None:
        self._training.train(epochs, self._operands, self._stream, self.progress)
        self._rows = self._last

    def check_trained(self) -> None:
        self._training.check(self._named["S"])

    @property
    def _operands(self) -> tuple[Any, ...]:
        names = ("X", "Y", *(parameter.name for parameter in self.network.parameters), "E", "S")
        return tuple(self._named[name] for name in names)


def shape_of(network: Network, batch: int) -> ConvolutionalShape:
    """What a kernel has to be compiled for. Raises Unsupported if no kernel trains such a network."""
    reason = _why_not(network)
    if reason:
        raise Unsupported(f"no convolutional network in one launch: {reason}")
    first, _, second, _, pooling, linear = network.layers
    assert isinstance(first, Conv2d) and isinstance(second, Conv2d)
    assert isinstance(pooling, MaxPool2d) and isinstance(linear, Linear)
    channels, height, width = network.inputs
    return ConvolutionalShape(
        batch,
        network.reduction == "mean",
        *(channels, height, width),
        *(first.filters, first.kernel, first.padding),
        *(second.filters, second.kernel, second.padding),
        *(pooling.size, linear.width),
    )


def _why_not(network: Network) -> str:
    if tuple(map(type, network.layers)) != _LAYERS or not _has_bias(network.layers[-1]):
        return f"its layers are {_names(network.layers)}, the kernel's {_names(_LAYERS)}"
    if network.loss is not CROSS_ENTROPY:
        return f"its loss is {network.loss.name}, the kernel's {CROSS_ENTROPY.name}"
    if network.update_order != "simultaneous" or network.clip_norm is not None:
        return "its kernel updates simultaneously and does not clip"
    if network.gradient != EXACT:
        return "its kernel descends along the gradient itself"
    return ""


def _has_bias(layer: Layer) -> bool:
    return isinstance(layer, Linear) and layer.bias


def _names(layers: tuple[Any, ...]) -> str:
    classes = (layer if isinstance(layer, type) else type(layer) for layer in layers)
    return ", ".join(cls.__name__.lower() for cls in classes)
