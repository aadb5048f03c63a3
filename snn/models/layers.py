"""The layers of a network: their shapes, their parameters, and what each adds to a training step.

A new layer is a class here. The operations that it launches are described in ``snn.backends.ops``, computed
in NumPy in ``snn.backends.cpu.ops`` and, for a GPU, in ``kernels/``. Shapes are per sample.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import lru_cache
from inspect import isabstract
from math import prod
from typing import Any, ClassVar

from snn.errors import ConfigError, Unsupported, shown
from snn.models.dropout import STEPS as DROPOUT_STEPS
from snn.models.step import Shape, Step, Tensor, transposed

LARGEST_DIRECT = 16
"""The largest side of a kernel that is convolved with directly."""

WEIGHT_GRADIENT_PARTS = 128
"""Most partial sums of a convolution's weight gradient: about as many as a large GPU has multiprocessors."""


@dataclass(frozen=True)
class Parameter:
    """An array of a layer, saved and loaded with the others; ``trained``: the optimizer updates it.

    ``fan_in`` scales its initial values; None: all of them are ``start``.
    """

    name: str
    shape: Shape
    fan_in: int | None = None
    start: float = 0.0
    trained: bool = True


class Layer(ABC):
    """A layer: forward and backward as launches that it adds to a step.

    ``i`` numbers the layer in its network, for the names of its parameters (``W0``, ``b0``) and buffers. The
    backward methods are called in turn: ``receive``, then ``update`` and ``propagate`` in the order of the
    network's ``update_order``.
    """

    name: ClassVar[str]
    """Its name in ``network.layers``: by default its class's in lower case."""

    in_place = False
    """Whether its output overwrites its input, or is its input."""

    def __init_subclass__(cls, name: str = "") -> None:
        cls.name = name or cls.__name__.lower()

    @abstractmethod
    def output(self, shape: Shape) -> Shape:
        """The output's shape. Raises ConfigError if the layer does not fit its input."""

    def parameters(self, i: int, shape: Shape) -> tuple[Parameter, ...]:
        """The arrays, in the order in which they are initialised, saved and loaded."""
        return ()

    @abstractmethod
    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        """Launch the layer on ``x``; returns its output."""

    def receive(self, step: Step, i: int, dy: str) -> str:
        """The output's gradient as ``update`` and ``propagate`` read it: the name of a buffer."""
        return dy

    def update(self, step: Step, i: int, x: Tensor, dy: str) -> None:  # noqa: B027
        """Launch the parameters' gradients and their update.

        Buffers of the gradients come from ``step.parameter_gradient``, the update from ``step.descend``, so
        that it works in micro-batches, too.
        """

    @abstractmethod
    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        """Launch the input's gradient; returns the name of its buffer."""


@dataclass(frozen=True)
class Linear(Layer):
    """Z = X W + b, or Z = X W: X (rows, inputs), W (inputs, width), b (width,)."""

    width: int
    bias: bool = True

    def output(self, shape: Shape) -> Shape:
        return (self.width,)

    def parameters(self, i: int, shape: Shape) -> tuple[Parameter, ...]:
        inputs = prod(shape)
        W, b = Parameter(f"W{i}", (inputs, self.width), inputs), Parameter(f"b{i}", (self.width,))
        return (W, b) if self.bias else (W,)

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z = step.activation(i, (self.width,))
        step.launch("matmul", (x.name, f"W{i}", z.name), (step.rows, x.size, self.width))
        if self.bias:
            step.launch("add_bias", (z.name, f"b{i}"), (step.rows, self.width))
        return z

    def update(self, step: Step, i: int, x: Tensor, dy: str) -> None:
        W = (x.size, self.width)
        kept = step.keeps_transposed(i)
        if self.bias and (at_once := step.updated_at_once(f"W{i}", f"b{i}", kept)):
            updated, rate = at_once
            op = "matmul_tn_update_both_bias" if len(updated) > 2 else "matmul_tn_update_bias"
            step.launch(op, (x.name, dy, *updated), (x.size, step.rows, self.width, rate))
            return
        if step.follow_product(x.name, dy, (f"W{i}", f"b{i}")[: 1 + self.bias], W):
            return
        dW = step.parameter_gradient(f"W{i}")
        step.launch("matmul_tn", (x.name, dy, dW), (x.size, step.rows, self.width))
        step.descend(f"W{i}", dW, W, kept)
        if self.bias:
            db = step.parameter_gradient(f"b{i}")
            step.launch("sum_rows", (dy, db), (step.rows, self.width))
            step.descend(f"b{i}", db, (self.width,))

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        op, W = ("matmul", transposed(f"W{i}")) if step.keeps_transposed(i) else ("matmul_nt", f"W{i}")
        dx = step.gradient(x.name)
        step.launch(op, (dy, W, dx), (step.rows, self.width, x.size))
        return dx


class InPlace(Layer):
    """An activation function that is applied in place: its derivative is a function of its output.

    Whoever computes the gradient of its output multiplies it by the derivative (``Tensor``).
    """

    in_place = True

    def output(self, shape: Shape) -> Shape:
        return shape

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        step.launch(f"{self.name}_forward", (x.name,), (step.rows * x.size,))
        return replace(x, derivative=f"{self.name}_gradient")

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        return dy


@dataclass(frozen=True)
class ReLU(InPlace):
    """max(Z, 0)."""

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        step.launch("relu", (x.name,), (step.rows * x.size,))
        return replace(x, derivative="mask")


@dataclass(frozen=True)
class LeakyReLU(InPlace, name="leaky_relu"):
    """Z where Z > 0, else 0.01 Z."""


@dataclass(frozen=True)
class Tanh(InPlace):
    """tanh(Z)."""


@dataclass(frozen=True)
class Sigmoid(InPlace):
    """1 / (1 + exp(-Z))."""


@dataclass(frozen=True)
class ELU(InPlace):
    """Z where Z > 0, else exp(Z) - 1."""


class OutOfPlace(Layer):
    """An activation function whose derivative is a function of its input, which is kept."""

    def output(self, shape: Shape) -> Shape:
        return shape

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z = step.activation(i, x.shape)
        step.launch(f"{self.name}_forward", (x.name, z.name), (step.rows * x.size,))
        return z

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        step.launch(f"{self.name}_gradient", (dy, x.name), (step.rows * x.size,))
        return dy


@dataclass(frozen=True)
class SiLU(OutOfPlace):
    """Z / (1 + exp(-Z))."""


@dataclass(frozen=True)
class GELU(OutOfPlace):
    """Z times the normal distribution function at Z: (1 + erf(Z / sqrt 2)) / 2."""


@dataclass(frozen=True)
class Identity(Layer):
    """Z itself, without a launch."""

    in_place = True

    def output(self, shape: Shape) -> Shape:
        return shape

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        return x

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        return dy


ACTIVATIONS: dict[str, type[Layer]] = {
    layer.name: layer for layer in (ReLU, LeakyReLU, Tanh, Sigmoid, SiLU, GELU, ELU, Identity)
}
"""Activation functions by name, with PyTorch's definitions and default parameters."""


@dataclass(frozen=True)
class Conv2d(Layer):
    """Z = X * W + b, a cross-correlation: X (rows, channels, height, width), W (filters, channels kernel
    kernel), b (filters,).

    A kernel that convolves computes it directly if its stride is 1. Else it is a matrix product: ``im2col``
    lays out the patch of X under each output as a row of P, and Z = P W^T for all outputs of all samples at
    once (Chellapilla, Puri and Simard, 2006). So it runs on every matrix-multiplication kernel, and a
    host-driven strategy can train it.
    """

    filters: int
    kernel: int
    padding: int = 0
    stride: int = 1

    def output(self, shape: Shape) -> Shape:
        height, width = (
            (side + 2 * self.padding - self.kernel) // self.stride + 1 for side in _sides("conv2d", shape)
        )
        if min(height, width) < 1:
            raise ConfigError(f"conv2d with a kernel of {self.kernel} does not fit images of {shape[1:]}")
        return (self.filters, height, width)

    def parameters(self, i: int, shape: Shape) -> tuple[Parameter, ...]:
        patch = self._patch(shape)
        return Parameter(f"W{i}", (self.filters, patch), patch), Parameter(f"b{i}", (self.filters,))

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z = step.activation(i, self.output(x.shape))
        if self._is_direct(step):
            step.launch("conv2d", (x.name, f"W{i}", f"b{i}", z.name), self._shape(step, x))
            return z
        pixels, patch = prod(z.shape[1:]), self._patch(x.shape)
        patches, products = step.buffer(f"P{i}", "workspace"), step.buffer(f"Q{i}", "workspace")
        step.launch("im2col", (x.name, patches), self._numbers(step, x))
        step.launch("matmul_nt", (patches, f"W{i}", products), (step.rows * pixels, patch, self.filters))
        step.launch("add_bias", (products, f"b{i}"), (step.rows * pixels, self.filters))
        step.launch("transpose_each", (products, z.name), (step.rows, pixels, self.filters))
        return z

    def receive(self, step: Step, i: int, dy: str) -> str:
        if self._is_direct(step):
            return dy
        shape = step.activations[i].shape
        dQ = step.buffer(f"dQ{i}", "workspace")
        step.launch("transpose_each", (dy, dQ), (step.rows, shape[0], prod(shape[1:])))
        return dQ

    def update(self, step: Step, i: int, x: Tensor, dy: str) -> None:
        W, outputs = (self.filters, self._patch(x.shape)), step.rows * prod(self.output(x.shape)[1:])
        dW, db = step.parameter_gradient(f"W{i}"), step.parameter_gradient(f"b{i}")
        if self._is_direct(step) and step.fused:
            self._update_by_parts(step, i, x, dy)
            return
        if self._is_direct(step):
            step.launch("conv2d_wgrad", (dy, x.name, dW, db), self._shape(step, x))
            step.descend(f"W{i}", dW, W)
            step.descend(f"b{i}", db, (self.filters,))
            return
        step.launch("matmul_tn", (dy, f"P{i}", dW), (W[0], outputs, W[1]))
        step.descend(f"W{i}", dW, W)
        step.launch("sum_rows", (dy, db), (outputs, self.filters))
        step.descend(f"b{i}", db, (self.filters,))

    def _update_by_parts(self, step: Step, i: int, x: Tensor, dy: str) -> None:
        """Partial sums of the gradients, then their sum: a few weights are too little work for a GPU."""
        high = self.output(x.shape)[1]
        shape, parts = self._shape(step, x), step.buffer("parts", "workspace")
        sizes = self.filters * self._patch(x.shape), self.filters
        if windows := step.windows.get(step.activations[i].name):
            largest, size = windows
            count = min(WEIGHT_GRADIENT_PARTS, step.rows * (high // size))
            operands = dy, largest, x.name, parts
            step.launch("conv2d_wgrad_parts_pooled", operands, (*shape, size, count))
        else:
            count = min(WEIGHT_GRADIENT_PARTS, step.rows * high)
            step.launch("conv2d_wgrad_parts", (dy, x.name, parts), (*shape, count))
        if at_once := step.updated_at_once(f"W{i}", f"b{i}"):
            updated, rate = at_once
            step.launch("update_parts", (parts, *updated), (count, *sizes, rate))
            return
        dW, db = step.parameter_gradient(f"W{i}"), step.parameter_gradient(f"b{i}")
        step.launch("sum_parts", (parts, dW, db), (count, *sizes))
        step.descend(f"W{i}", dW, (sizes[0],))
        step.descend(f"b{i}", db, (sizes[1],))

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        outputs, dx = step.rows * prod(self.output(x.shape)[1:]), step.gradient(x.name)
        if windows := step.windows.get(step.activations[i].name):
            largest, size = windows
            shape = self._shape(step, x)
            step.launch("conv2d_dgrad_pooled", (dy, largest, f"W{i}", dx), (*shape, size))
            return dx
        if self._is_direct(step):
            step.launch("conv2d_dgrad", (dy, f"W{i}", dx), self._shape(step, x))
            return dx
        patches = step.buffer(f"dP{i}", "workspace")
        step.launch("matmul", (dy, f"W{i}", patches), (outputs, self.filters, self._patch(x.shape)))
        step.launch("col2im", (patches, dx), self._numbers(step, x))
        return dx

    def _is_direct(self, step: Step) -> bool:
        """Whether it is computed directly: a kernel's blocks hold all taps of some channels."""
        return step.convolves and self.kernel <= LARGEST_DIRECT and self.stride == 1

    def _patch(self, shape: Shape) -> int:
        return shape[0] * self.kernel**2

    def _shape(self, step: Step, x: Tensor) -> tuple[int, ...]:
        """The numbers of a direct convolution."""
        return (step.rows, *x.shape, self.filters, self.kernel, self.padding)

    def _numbers(self, step: Step, x: Tensor) -> tuple[int, ...]:
        return (step.rows, *x.shape, self.kernel, self.padding, self.stride)


@dataclass(frozen=True)
class Pooling(Layer):
    """One number per ``size`` x ``size`` window; windows do not overlap, and the remainder is ignored."""

    size: int

    def output(self, shape: Shape) -> Shape:
        height, width = (side // self.size for side in _sides(self.name, shape))
        if min(height, width) < 1:
            raise ConfigError(f"{self.name} of {self.size} does not fit images of {shape[1:]}")
        return (shape[0], height, width)


@dataclass(frozen=True)
class AvgPool2d(Pooling):
    """The mean of each window."""

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z = step.activation(i, self.output(x.shape))
        step.launch("avg_pool2d", (x.name, z.name), (step.rows, *x.shape, self.size))
        return z

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        dx = step.gradient(x.name)
        step.launch("avg_pool2d_gradient", (dy, dx), (step.rows, *x.shape, self.size))
        return dx


@dataclass(frozen=True)
class MaxPool2d(Pooling):
    """The maximum of each window; the first of equal values in row-major order gets the gradient."""

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z = step.activation(i, self.output(x.shape))
        step.launch("max_pool2d", (x.name, z.name), (step.rows, *x.shape, self.size))
        return replace(z, derivative=x.derivative)

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        if x.name in step.windows:
            return dy  # which the convolution in front reads with the largest of each window
        dx = step.gradient(x.name)
        step.launch("max_pool2d_gradient", (dy, x.name, dx), (step.rows, *x.shape, self.size))
        return dx


@dataclass(frozen=True)
class LayerNorm(Layer):
    """W (Z - m) / sqrt(v + 1e-5) + b, with the mean m and the variance v of each row (Ba, Kiros and Hinton,
    2016); W and b have an element for each of a row."""

    def output(self, shape: Shape) -> Shape:
        return shape

    def parameters(self, i: int, shape: Shape) -> tuple[Parameter, ...]:
        size = (prod(shape),)
        return Parameter(f"W{i}", size, start=1.0), Parameter(f"b{i}", size)

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z, moments = step.activation(i, x.shape), step.buffer(f"M{i}", "activations")
        step.launch("layernorm", (x.name, f"W{i}", f"b{i}", z.name, moments), (step.rows, x.size))
        return z

    def update(self, step: Step, i: int, x: Tensor, dy: str) -> None:
        gradients = dW, db = step.parameter_gradient(f"W{i}"), step.parameter_gradient(f"b{i}")
        step.launch("layernorm_wgrad", (dy, x.name, f"M{i}", *gradients), (step.rows, x.size))
        step.descend(f"W{i}", dW, (x.size,))
        step.descend(f"b{i}", db, (x.size,))

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        dx = step.gradient(x.name)
        step.launch("layernorm_dgrad", (dy, x.name, f"M{i}", f"W{i}", dx), (step.rows, x.size))
        return dx


class BatchNorm(Layer):
    """W (Z - m) / sqrt(v + 1e-5) + b, with the mean m and the variance v of each channel of a batch.

    Ioffe and Szegedy (2015). A prediction takes A and V instead of m and v: each step adds 0.1 (m - A) to A,
    and to V likewise with the variance whose divisor is smaller by 1.
    """

    def output(self, shape: Shape) -> Shape:
        self._channels(shape)
        return shape

    def parameters(self, i: int, shape: Shape) -> tuple[Parameter, ...]:
        size = self._channels(shape)[:1]
        trained = Parameter(f"W{i}", size, start=1.0), Parameter(f"b{i}", size)
        return *trained, Parameter(f"A{i}", size, trained=False), Parameter(f"V{i}", size, None, 1.0, False)

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        z, own = step.activation(i, x.shape), (f"W{i}", f"b{i}")
        if step.predicts:
            operands = (x.name, *own, f"A{i}", f"V{i}", z.name)
            step.launch("batchnorm_predict", operands, self._numbers(step, x))
            return z
        if step.rows * self._channels(x.shape)[1] == 1:
            raise Unsupported(
                f"{self.name} needs the variance of a batch, and the last one has a single row: choose "
                "another training.batch_size"
            )
        moments = step.buffer(f"M{i}", "activations")
        step.launch("batchnorm", (x.name, *own, z.name, moments), self._numbers(step, x))
        return z

    def update(self, step: Step, i: int, x: Tensor, dy: str) -> None:
        gradients = dW, db = step.parameter_gradient(f"W{i}"), step.parameter_gradient(f"b{i}")
        operands = (dy, x.name, f"M{i}", *gradients, f"A{i}", f"V{i}")
        step.launch("batchnorm_wgrad", operands, self._numbers(step, x))
        step.descend(f"W{i}", dW, self._channels(x.shape)[:1])
        step.descend(f"b{i}", db, self._channels(x.shape)[:1])

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        dx = step.gradient(x.name)
        step.launch("batchnorm_dgrad", (dy, x.name, f"M{i}", f"W{i}", dx), self._numbers(step, x))
        return dx

    @abstractmethod
    def _channels(self, shape: Shape) -> tuple[int, int]:
        """The number of channels, and a channel's elements in a row. Raises ConfigError for other inputs."""

    def _numbers(self, step: Step, x: Tensor) -> tuple[int, ...]:
        return (step.rows, *self._channels(x.shape))


@dataclass(frozen=True)
class BatchNorm1d(BatchNorm):
    """Its channels are the features of a row."""

    def _channels(self, shape: Shape) -> tuple[int, int]:
        if len(shape) != 1:
            raise ConfigError(f"batchnorm1d needs rows of features, but its input has the shape {shape}")
        return shape[0], 1


@dataclass(frozen=True)
class BatchNorm2d(BatchNorm):
    """A batch norm over the channels of images."""

    def _channels(self, shape: Shape) -> tuple[int, int]:
        return shape[0], prod(_sides("batchnorm2d", shape))


@dataclass(frozen=True)
class Flatten(Layer):
    """An image as a row, without a launch."""

    in_place = True

    def output(self, shape: Shape) -> Shape:
        return (prod(shape),)

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        return replace(x, shape=(x.size,))

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        return dy


@dataclass(frozen=True)
class Dropout(Layer):
    """0 with the probability ``p``, else Z / (1 - p); Z itself in a prediction (``snn.models.dropout``)."""

    p: float

    def output(self, shape: Shape) -> Shape:
        return shape

    def forward(self, step: Step, i: int, x: Tensor) -> Tensor:
        if step.predicts:
            return x
        z = step.activation(i, x.shape)
        step.launch("dropout", (x.name, z.name, step.state(DROPOUT_STEPS)), self._numbers(step, i, x))
        # what is above 0 stays so: a mask may be applied to the output's gradient, by the launch of a product
        return replace(z, derivative=x.derivative) if x.derivative == "mask" else z

    def propagate(self, step: Step, i: int, x: Tensor, dy: str) -> str:
        step.launch("dropout_gradient", (dy, DROPOUT_STEPS), self._numbers(step, i, x))
        return dy

    def _numbers(self, step: Step, i: int, x: Tensor) -> tuple[float, ...]:
        return (step.rows * x.size, step.first_row * x.size, i, step.dropout_seed, 0, self.p)


def _sides(layer: str, shape: Shape) -> Shape:
    """Height and width. Raises ConfigError for an input that is not an image."""
    if len(shape) != 3:
        what = "needs images, (channels, height, width), but its input has the shape"
        raise ConfigError(f"{layer} {what} {shape}")
    return shape[1:]


_WORDS = {int: re.compile("[0-9]{1,9}"), float: re.compile("0?[.][0-9]{1,6}")}


def parse(text: object) -> Layer:
    """A layer from its text: its name and numbers in order, such as ``conv2d 16 3`` or ``relu``.

    Raises ConfigError, with the valid forms.
    """
    return _parse(text) if isinstance(text, str) else _parse.__wrapped__(text)


@lru_cache  # a grid has thousands of layers, but few different ones
def _parse(text: object) -> Layer:
    known = layer_types()
    name, *words = str(text).split() or [""]
    given = f"network.layers: {shown(text)} is not"
    if name not in known:
        raise ConfigError(f"{given} a layer: one of {', '.join(map(_usage, known.values()))}")
    numbers = _numbers(known[name])
    required = [field for field in numbers if field.default is MISSING]
    kinds: list[Any] = [field.type for field in numbers]
    pairs = list(zip(kinds, words, strict=False))
    values = [kind(word) for kind, word in pairs if _WORDS[kind].fullmatch(word)]
    fit = len(values) == len(words) and len(required) <= len(words)
    zeros = {field.name for field, value in zip(numbers, values, strict=False) if not value}
    if not fit or zeros - {"padding"}:
        which = (
            "with a decimal fraction between 0 and 1" if float in kinds else "in whole numbers, at least 1"
        )
        raise ConfigError(f"{given} right: it must be {_usage(known[name])}, {which}")
    return known[name](**{field.name: value for field, value in zip(numbers, values, strict=False)})


def check_order(layers: Sequence[Layer]) -> None:
    """Raise ConfigError if an activation in place would overwrite what is read later.

    That is the data, or the output of another such activation, whose derivative is computed from it.
    """
    first = next((layer for layer in layers if not isinstance(layer, (Dropout, Flatten))), layers[0])
    if first.in_place:
        what = f"network.layers begins with {first.name}, which would overwrite the data"
        raise ConfigError(f"{what}: leave it out")
    applied: Layer | None = None
    for layer in layers:
        if isinstance(layer, InPlace):
            if applied and not layer == applied == ReLU():
                raise ConfigError(
                    f"network.layers: {layer.name} follows {applied.name}, whose derivative is computed from "
                    "what it would overwrite: put a layer with weights between them"
                )
            applied = layer
        elif not isinstance(layer, (MaxPool2d, Identity, Flatten)):
            applied = applied if isinstance(layer, Dropout) and applied == ReLU() else None


def layer_types() -> dict[str, type[Layer]]:
    """The layers by name."""
    return {layer.name: layer for layer in _subclasses(Layer)}  # type: ignore[type-abstract]


def _subclasses(base: type[Layer]) -> Iterator[type[Layer]]:
    for layer in base.__subclasses__():
        if is_dataclass(layer) and not isabstract(layer):
            yield layer
        yield from _subclasses(layer)


def _usage(layer: type[Layer]) -> str:
    """How a layer is written: ``conv2d FILTERS KERNEL [PADDING]``."""
    words = [layer.name]
    for field in _numbers(layer):
        words.append(field.name.upper() if field.default is MISSING else f"[{field.name.upper()}]")
    return " ".join(words)


def _numbers(layer: type[Layer]) -> list[Field]:
    """The fields of a layer that its text gives."""
    return [field for field in fields(layer) if field.type in _WORDS]  # type: ignore[arg-type]
