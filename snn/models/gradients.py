"""The direction of descent: the gradient, or what a published program computes instead.

Two CUDA programs for the same convolutional network were published with a report, and neither computes its
gradient. Both are described here as changes to a training step, so that every strategy can train as they do,
and the report's figures can be reproduced next to figures with the exact gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from snn.errors import Unsupported
from snn.models.layers import Conv2d, Layer, Linear
from snn.models.step import Shape, Step, Tensor


@dataclass(frozen=True)
class Gradient:
    """The gradient itself."""

    name = "exact"

    rounds_once = False
    """Whether an update is one fused multiply-add, as a compiler makes it, or rounds its product as well."""

    reads_unpooled = False
    """Whether it reads the gradient of what a convolution wrote before it was pooled."""

    def loss_op(self, op: str) -> str:
        """The operation that replaces a loss's ``op``."""
        return op

    def written(self, rows: int, outputs: int) -> int:
        """Number of the rows x outputs gradients of a batch's outputs that are computed."""
        return rows * outputs

    def of_outputs(self, step: Step, dy: str, outputs: int) -> None:
        """Launch what changes the gradient of the outputs, (rows, outputs)."""

    def lowest(self, layers: Sequence[Layer], inputs: Sequence[Shape]) -> int:
        """The first layer whose parameters are trained: the gradient is propagated down to it."""
        return min(i for i, layer in enumerate(layers) if layer.parameters(i, inputs[i]))

    def update(self, layer: Layer, step: Step, i: int, x: Tensor, dy: str) -> None:
        """Launch the update of a layer's parameters; ``dy`` is what ``receive`` made of its gradient."""
        layer.update(step, i, x, dy)

    def receive(self, layer: Layer, step: Step, i: int, dy: str) -> str:
        """The gradient of a layer's outputs as ``update`` reads it."""
        return layer.receive(step, i, dy)


@dataclass(frozen=True)
class PublishedNaive(Gradient):
    """The naive program's direction: the first logits' gradients, and 0 for all others.

    Its kernel needs a thread for each of the rows x outputs logits. It is launched with whole blocks of
    ``block`` threads for as many threads as there are rows, so that ceil(rows / block) x block gradients are
    written. The others keep the zeros of their allocation.
    """

    block: int
    name = "published_naive"
    rounds_once = True

    def written(self, rows: int, outputs: int) -> int:
        return min(ceil(rows / self.block) * self.block, rows * outputs)

    def of_outputs(self, step: Step, dy: str, outputs: int) -> None:
        written = self.written(step.rows, outputs)
        if written < step.rows * outputs:
            step.launch("keep_first", (dy,), (step.rows * outputs, written))


@dataclass(frozen=True)
class PublishedOptimised(Gradient):
    """The optimised program's direction: of the convolutions, it trains one in 32 parameters of the last.

    The kernel for the input gradient of its second convolution asks for blocks of 4,096 threads and never
    runs, so that nothing reaches the first one. The kernel for the gradient of the weights gives each
    thread in a block of 32 a different parameter and every 32nd position, then adds up the threads as if
    they had shared one, and writes one sum (``published_wgrad``). The gradients of a linear layer are right;
    their sums over a batch are in the program's order (``published_linear_wgrad``), and its softmax takes the
    device's approximation of the exponential (``published_softmax``), so that results agree to the digit.
    """

    name = "published_optimised"
    rounds_once = True
    reads_unpooled = True

    def loss_op(self, op: str) -> str:
        return "published_softmax" if op == "softmax_cross_entropy" else op

    def lowest(self, layers: Sequence[Layer], inputs: Sequence[Shape]) -> int:
        convolutions = [i for i, layer in enumerate(layers) if isinstance(layer, Conv2d)]
        return convolutions[-1] if convolutions else super().lowest(layers, inputs)

    def receive(self, layer: Layer, step: Step, i: int, dy: str) -> str:
        return dy if isinstance(layer, Conv2d) else super().receive(layer, step, i, dy)

    def update(self, layer: Layer, step: Step, i: int, x: Tensor, dy: str) -> None:
        parameters = layer.parameters(i, x.shape)
        gradients = [step.parameter_gradient(parameter.name) for parameter in parameters]
        if isinstance(layer, Conv2d):
            if layer.stride > 1:
                raise Unsupported(f"training.gradient={self.name} is of convolutions of stride 1")
            sizes = (step.rows, *x.shape, layer.kernel, layer.padding, layer.filters)
            step.launch("published_wgrad", (x.name, dy, *gradients), sizes)
        elif isinstance(layer, Linear) and layer.bias:
            sizes = (step.rows, x.size, layer.width)
            step.launch("published_linear_wgrad", (x.name, dy, *gradients), sizes)
        else:
            super().update(layer, step, i, x, dy)
            return
        for parameter, gradient in zip(parameters, gradients, strict=True):
            of_linear = isinstance(layer, Linear) and parameter.fan_in is not None
            with_transposed = of_linear and step.keeps_transposed(i)
            step.descend(parameter.name, gradient, parameter.shape, with_transposed)


EXACT = Gradient()
GRADIENTS = (EXACT.name, PublishedNaive.name, PublishedOptimised.name)


def of(name: str, block: Sequence[int]) -> Gradient:
    """The gradient of this name, for a program whose blocks have this shape."""
    if name == PublishedNaive.name:
        return PublishedNaive(prod(block))
    return PublishedOptimised() if name == PublishedOptimised.name else EXACT
