"""A training step as data: a list of launches to which each layer appends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import NamedTuple

from snn.models.optimizers import PLAIN, Optimizer

Shape = tuple[int, ...]
"""Shape of one sample: (features,), or (channels, height, width) for an image."""

Place = tuple[int, int]
"""Where parameters lie in a buffer of all: the first element, and how many."""


@dataclass(frozen=True)
class Tensor:
    """The activations of a layer: a buffer, and the shape of one sample in it.

    ``derivative``: the operation that multiplies a gradient by the derivative of the activation function that
    was applied in place; empty if none was.
    """

    name: str
    shape: Shape
    derivative: str = ""

    @property
    def size(self) -> int:
        """Elements of one sample."""
        return prod(self.shape)


class Launch(NamedTuple):
    """An operation of ``snn.backends.ops`` on named buffers: X and Y are the batch, E the errors.

    ``label`` names the layer: ``layer 1 Linear forward``; a fused launch has its product's label.
    """

    op: str
    operands: tuple[str, ...]
    numbers: tuple[float, ...]
    label: str = ""


class Product(NamedTuple):
    """The gradient A^T B of a layer's weights, of this shape; with a bias, its gradient is one more row."""

    A: str
    B: str
    parameters: tuple[str, ...]
    shape: Shape


def transposed(W: str) -> str:
    """The buffer of W^T, if that is kept."""
    return f"{W}^T"


FUSED_ACTIVATIONS = ("relu", "leaky_relu", "tanh", "sigmoid", "elu", "silu", "gelu")
"""Activation functions that a product's kernel applies, by their number among its numbers."""

LAYERS_AT_ONCE = 4
"""Most layers whose gradients a launch computes."""

KEEPING_INPUTS = ("silu", "gelu")
"""Those whose derivative is computed from their input; of the others, from their output."""

_ACTIVATING = {
    "relu" if name == "relu" else f"{name}_forward": number for number, name in enumerate(FUSED_ACTIVATIONS)
}
_DERIVING = {f"{name}_gradient": number for number, name in enumerate(FUSED_ACTIVATIONS)}

FUSED = {
    ("matmul", "relu"): "matmul_relu",
    ("matmul", "add_bias"): "matmul_bias",
    ("matmul", "mask"): "matmul_mask",
    ("matmul_nt", "mask"): "matmul_nt_mask",
    ("matmul", "error"): "matmul_error",
    ("matmul_tn", "update"): "matmul_tn_update",
    ("matmul_tn", "update_both"): "matmul_tn_update_both",
    **{
        ("matmul_bias", op): "matmul_bias_activation"
        + "_kept" * (FUSED_ACTIVATIONS[number] in KEEPING_INPUTS)
        for op, number in _ACTIVATING.items()
    },
    **{(product, op): f"{product}_derivative" for op in _DERIVING for product in ("matmul", "matmul_nt")},
    ("matmul_bias", "error"): "matmul_bias_error",
    ("conv2d", "relu"): "conv2d_relu",
    ("conv2d_relu", "max_pool2d"): "conv2d_relu_pool",
    ("conv2d_dgrad", "mask"): "conv2d_dgrad_mask",
    ("conv2d_dgrad_pooled", "mask"): "conv2d_dgrad_pooled_mask",
}
"""Fused kernels by the two operations that they do in one launch, the second on the first's result."""

LARGEST_FUSED_WINDOW = 4
"""Largest pooling window in a convolution's kernel: a block must hold whole windows."""

WHOLE, FIRST, LATER, SHARE = "whole", "first", "later", "share"
"""Parts of a batch that a step computes: the whole batch; its first micro-batch, which writes the
parameters' gradients; a later micro-batch, which adds to them; or a device's share, whose gradients are
summed over all devices before each update."""

ADDING = -1.0
"""The rate at which an update is a sum: dW -= -1 G. A product with -1 is exact."""


@dataclass
class Step:
    """The launches of one step on ``rows`` samples, and what each buffer is for.

    ``rate`` is the learning rate of ``optimizer``, which may change in the ``run_steps`` steps of a run;
    ``clip_norm`` bounds the L2 norm of each parameter's gradient; ``label`` names the layer that launches
    now. ``part``: ``WHOLE``, or which micro-batch it computes; the parameters in ``due``, with their shapes
    and whether W^T is kept, are updated after the last one.
    ``fused``: the kernel computes the pairs of ``FUSED`` in one launch. ``pretransposed``: each linear layer
    but the first keeps W^T as well as W, so that a plain product propagates a gradient.
    ``rounds_once``: an update is one fused multiply-add, if nothing else is done with it.
    ``keeps_unpooled``: the activations before a pooling are written, and their gradients.
    ``convolves``: the kernel has direct convolutions.
    ``summed``: by the number of launches before it, the parameters of a share whose gradients are then summed
    over all devices.
    ``first_row``: its first row's number in the batch; ``dropout_seed`` is the network's; ``predicts``: there
    is only the forward part, of a prediction. ``unscale``: the factor of gradients before an update whose
    rate does not include it.
    ``windows``: for activations that were pooled in the kernel that computed them, and so never written, the
    buffer with the position of each window's maximum, and the side of a window.
    ``places``: the offset and size of each parameter in a buffer of all, if one launch is to update all whose
    gradients are known; such runs of parameters are in ``runs``, and those that wait for it in ``pending``.
    ``products``: the gradients of linear layers that are launched with that update, or right before it.
    Then the steps of an optimiser are counted before an epoch.
    ``layers``: for each layer the number of launches before it, and its output's buffer; ``forward``: the
    number of launches before the loss. ``transient``: buffers that hold nothing from the forward part to
    the backward part (``snn.models.remedies``).
    """

    rows: int
    rate: float
    clip_norm: float | None = None
    optimizer: Optimizer = PLAIN
    run_steps: int = 0
    fused: bool = False
    pretransposed: bool = False
    rounds_once: bool = False
    keeps_unpooled: bool = False
    convolves: bool = False
    first_row: int = 0
    dropout_seed: int = 0
    unscale: float = 1.0
    predicts: bool = False
    part: str = WHOLE
    due: dict[str, tuple[Shape, bool, str]] = field(default_factory=dict)
    summed: dict[int, list[str]] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    runs: dict[str, Place] = field(default_factory=dict)
    pending: dict[str, tuple[Shape, bool]] = field(default_factory=dict)
    products: list["Product"] = field(default_factory=list)
    layers: list[tuple[int, str]] = field(default_factory=list)
    forward: int = 0
    transient: set[str] = field(default_factory=set)
    launches: list[Launch] = field(default_factory=list)
    purposes: dict[str, str] = field(default_factory=dict)
    activations: dict[int, Tensor] = field(default_factory=dict)
    windows: dict[str, tuple[str, int]] = field(default_factory=dict)
    label: str = ""

    def buffer(self, name: str, purpose: str) -> str:
        """A buffer of a layer; ``purpose`` is one of ``snn.profiling.memory.PURPOSES``."""
        self.purposes[name] = purpose
        return name

    def state(self, name: str) -> str:
        """A buffer that lives from step to step (``Network.state``)."""
        return self.buffer(name, "optimizer")

    def activation(self, i: int, shape: Shape) -> Tensor:
        """The output of layer i."""
        self.activations[i] = Tensor(self.buffer(f"H{i}", "activations"), shape)
        return self.activations[i]

    def gradient(self, name: str) -> str:
        """The gradient of an activation, or of a parameter for the whole batch."""
        return self.buffer(f"d{name}", "gradients")

    def parameter_gradient(self, name: str) -> str:
        """The gradient of a parameter, ``W0`` or ``b0``, for what this step computes.

        A later micro-batch adds it to the batch's gradient right away: layers share its buffer.
        """
        return self.buffer(f"G{name[0]}", "gradients") if self.part == LATER else self.gradient(name)

    def keeps_transposed(self, i: int) -> bool:
        """Whether W^T of layer i is kept; nothing would read the first layer's.

        A fused kernel does without it rather than with a further launch.
        """
        return self.pretransposed and i > 0 and not (self.fused and self.places)

    def updated_at_once(
        self, W: str, b: str, with_transposed: bool = False
    ) -> tuple[list[str], float] | None:
        """Buffers written by a launch that sums the gradients of W and b and updates with them; its rate.

        W^T follows W if it is kept. None if the gradients are written before they are used.
        """
        if self.fused and self.part == LATER:
            return [self.gradient(W), self.gradient(b)], ADDING
        is_plain = self.clip_norm is None and self.optimizer == PLAIN and not self.rounds_once
        if not self.fused or self.part in (FIRST, SHARE) or not is_plain:
            return None
        kept = [self.buffer(transposed(W), "weights")] if with_transposed else []
        return [W, *kept, b], self.rate

    def differentiate(self, dx: str, x: Tensor) -> None:
        """Multiply dx by the derivative of the activation function that was applied to x in place."""
        self.launch(x.derivative, (dx, x.name), (self.rows * x.size,))

    def descend(self, W: str, dW: str, shape: Shape, with_transposed: bool = False) -> None:
        """Update W with dW, clipped if the network says so; W^T is written, too, if it is kept.

        For a micro-batch, dW becomes a part of the batch's gradient, and W is updated later.
        """
        if self.part == SHARE:
            self.summed.setdefault(len(self.launches), []).append(W)
        elif self.part != WHOLE:
            self.due[W] = shape, with_transposed, self.label
            if self.part == LATER:
                assert dW != self.gradient(W), "a gradient that is added has parameter_gradient's buffer"
                self.launch("update", (self.gradient(W), dW), (prod(shape), ADDING))
            return
        limit = self.clip_norm
        if limit is not None:
            self.undo_scaling(dW, prod(shape))
        if self.optimizer != PLAIN:
            if limit is not None:
                norm = dW, self.buffer("S", "workspace")
                self.launch("sum_squares", norm, (prod(shape),))
                self.launch("clip", norm, (prod(shape), limit))
            self.pending[W] = shape, with_transposed
            if not self.places:
                self.update_pending()
            return
        both, weights, sizes = "", [W], [prod(shape)]
        if with_transposed:
            both, weights, sizes = "_both", [W, self.buffer(transposed(W), "weights")], list(shape)
        if limit is None:
            op = "fma_update" if self.rounds_once and not both else f"update{both}"
            self.launch(op, (*weights, dW), (*sizes, self.rate))
            return
        sums = self.buffer("S", "workspace")
        self.launch("sum_squares", (dW, sums), (prod(shape),))
        self.launch(f"clipped_update{both}", (*weights, dW, sums), (*sizes, self.rate, limit))

    def undo_scaling(self, dW: str, elements: int) -> None:
        """Divide a gradient by the scale of the loss, unless that is 1."""
        if self.unscale != 1:
            self.launch("unscale", (dW,), (elements, self.unscale))

    def run(self, parameters: Sequence[str]) -> tuple[str, int]:
        """The buffer of parameters side by side, in order, and the number of its elements."""
        first, last = parameters[0], parameters[-1]
        start, end = self.places[first][0], sum(self.places[last])
        name = first if first == last else f"{first}..{last}"
        if first != last:
            self.runs[name] = start, end - start
        return name, end - start

    def follow_product(self, A: str, B: str, parameters: Sequence[str], shape: Shape) -> bool:
        """Compute the gradients A^T B of weights of this shape, and of their biases, later.

        Then parameters are updated with them, perhaps in the same launch. False if no kernel does all that.
        """
        if not (self.fused and self.places) or self.part == LATER:
            return False
        self.products.append(Product(A, B, tuple(parameters), shape))
        return True

    def follow_products(self) -> None:
        """Launch the gradients that wait for it, and what follows."""
        while self.products:
            some, self.products = self.products[:LAYERS_AT_ONCE], self.products[LAYERS_AT_ONCE:]
            names = sorted((W for one in some for W in one.parameters), key=self.places.__getitem__)
            run, start = self.run(names)[0], self.places[names[0]][0]
            is_followed = self.part == WHOLE and self.clip_norm is None and self.unscale == 1
            numbers = self.optimizer.product_numbers(self.rate) if is_followed else None
            sizes: tuple[int, ...] = ()
            for one in some:
                m, n, bias = *one.shape, len(one.parameters) - 1
                at = self.places[one.parameters[0]][0] - start
                sizes += (m, self.rows, n, bias) if len(some) == 1 else (m, n, bias, at)
            several = ""
            if len(some) > 1:
                several, left = "_layers", LAYERS_AT_ONCE - len(some)
                sizes, some = (*sizes, *4 * left * [0], self.rows), [*some, *left * some[-1:]]
            pairs = [name for one in some for name in (one.A, one.B)]
            if numbers is not None:
                operands = *pairs, run, *self.optimizer.held(self, run)
                self.launch(f"matmul_tn_adam{several}", operands, (*sizes, *numbers))
                continue
            self.launch(f"matmul_tn_sum{several}", (*pairs, self.gradient(run)), sizes)
            for one in dict.fromkeys(some):
                for W, shape in zip(one.parameters, (one.shape, one.shape[1:]), strict=False):
                    self.descend(W, self.gradient(W), shape)

    def update_pending(self) -> None:
        """Launch the update of the parameters whose gradients have been written since the last one."""
        self.follow_products()
        if not self.pending:
            return
        if self.places:
            name, elements = self.run(sorted(self.pending, key=self.places.__getitem__))
        else:
            ((name, (shape, _)),) = self.pending.items()
            elements = prod(shape)
        if self.clip_norm is None and self.optimizer.clip_norm is None:
            self.undo_scaling(self.gradient(name), elements)
        self.optimizer.update(self, name, self.gradient(name), elements)
        for W, (shape, with_transposed) in self.pending.items():
            if with_transposed:
                self.launch("transpose", (W, self.buffer(transposed(W), "weights")), shape)
        self.pending.clear()

    def launch(self, op: str, operands: tuple[str, ...], numbers: tuple[float, ...]) -> None:
        """Add a launch or, if the kernel can, fuse it with the launch before, whose result it works on."""
        before = self.launches[-1] if self.launches else Launch("", (), ())
        is_apart = len(self.launches) in self.summed
        fused = FUSED.get((before.op, op)) if self.fused and not is_apart else None
        if fused == "conv2d_relu_pool":
            fits = numbers[-1] <= LARGEST_FUSED_WINDOW and not self.keeps_unpooled
            fused = fused if fits else None
        at = 2 if before.op.startswith("matmul") else -1  # the operand that it writes
        if fused is None or before.operands[at] not in operands:
            self.launches.append(Launch(op, operands, numbers, self.label))
            return
        if fused == "conv2d_relu_pool":
            unpooled, pooled = operands
            operands = unpooled, self.buffer(f"I{pooled}", "activations")
            self.windows[unpooled] = operands[-1], int(numbers[-1])
            before = before._replace(operands=(*before.operands[:-1], pooled))
        if fused.startswith("matmul"):
            activation = (_ACTIVATING | _DERIVING).get(op)
            numbers = numbers if activation is None else (activation,)
        self.launches[-1] = _together(fused, before, operands, numbers)


def _together(fused: str, before: Launch, operands: tuple[str, ...], numbers: tuple[float, ...]) -> Launch:
    """The launch of a fused kernel, its operands in the order of ``snn.backends.ops``."""
    inputs, sizes, label = before.operands[:-1], before.numbers, before.label
    if fused.endswith("_error"):  # error: P Y E D, scale
        _, Y, E, D = operands
        return Launch(
            fused, (*before.operands[:2], D, *before.operands[3:], Y, E), (*sizes, *numbers[-1:]), label
        )
    if "update" in fused:  # update: W [V] G, rate
        return Launch(fused, (*inputs, *operands[:-1]), (*sizes, numbers[-1]), label)
    if fused == "conv2d_relu_pool" or "activation" in fused or "derivative" in fused:
        sizes = (*sizes, numbers[-1])
    return Launch(fused, (*before.operands, *operands[1:]), sizes, label)
