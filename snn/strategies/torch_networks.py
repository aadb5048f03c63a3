"""PyTorch's settings, and networks as tensors with steps as functions."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.backends.cpu.ops import EPS
from snn.errors import OutOfMemory, Unsupported
from snn.hardware.devices import usable_processors
from snn.models.layers import (
    ACTIVATIONS,
    ELU,
    GELU,
    AvgPool2d,
    Conv2d,
    Flatten,
    Identity,
    Layer,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    ReLU,
    Sigmoid,
    SiLU,
    Tanh,
)
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network
from snn.models.optimizers import Adam, AdamW, Sgd
from snn.models.schedules import CONSTANT, factor
from snn.models.step import Shape
from snn.models.storage import BF16, FP16, FP32
from snn.strategies.base import PEERS

_MATMUL = {"fp32": "highest", "tf32": "high"}


def configure(torch: Any, precision: str, as_published: bool = False) -> Callable[[], None]:
    """Set PyTorch for training in fp32 or tf32; returns a function that sets everything back.

    Products and convolutions are in float32 without TF32, or with it. On the CPU they use as many threads as
    PyTorch would by default, although the environment limits NumPy to one. For each shape cuDNN times its
    algorithms, at the first use, and takes the fastest; ``as_published`` has it deterministic instead, as the
    PyTorch program of the CNN report does.
    """
    cudnn = torch.backends.cudnn
    before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    cudnn_before = cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic

    def restore() -> None:
        torch.set_float32_matmul_precision(before[0])
        torch.set_num_threads(before[1])
        cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = cudnn_before

    torch.set_float32_matmul_precision(_MATMUL[precision])
    torch.set_num_threads(usable_processors())
    cudnn.allow_tf32 = precision == "tf32"
    cudnn.benchmark, cudnn.deterministic = not as_published, as_published
    return restore


@contextmanager
def translated(torch: Any) -> Iterator[None]:
    """A context in which PyTorch's OutOfMemoryError becomes OutOfMemory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(str(error)) from error


def device_of(torch: Any, backend: Backend) -> Any:
    """The PyTorch device of a backend. Raises Unsupported, with the reason, if it has none to train on."""
    if backend.is_processor:
        return torch.device("cpu")
    if torch.version.cuda is None:
        raise Unsupported(
            f"torch {torch.__version__} is built without CUDA: run `pip uninstall torch`, then `{PEERS}`"
        )
    if not torch.cuda.is_available():
        raise Unsupported(f"torch {torch.__version__}, built for CUDA {torch.version.cuda}, finds no GPU")
    return torch.device("cuda", 0)


def autocast(torch: Any, device: Any, network: Network, forward: Callable[..., Any]) -> Callable[..., Any]:
    """A forward pass as ``training.storage`` asks for: under autocast, or itself if it is fp32."""
    half = half_of(torch, network)
    return forward if half is None else torch.autocast(device.type, half)(forward)


def half_of(torch: Any, network: Network) -> Any:
    """PyTorch's type of a network's activations in 16 bits; None if they are float32."""
    return {FP32: None, BF16: torch.bfloat16, FP16: torch.float16}[network.storage]


Tensor = Any
Descend = Callable[[list[Tensor], list[Tensor]], list[Tensor]]
"""New parameters, which may be the old ones, from old ones and their gradients."""


class _Op(ABC):
    """A layer as calls of PyTorch on a batch, images as (rows, channels, height, width).

    ``into``: for layers of members, tensors that take the gradients, in the order of the parameters.
    """

    into: Sequence[Tensor] = ()

    def __init__(self, torch: Any, layer: Any, shape: Shape, channels_last: bool) -> None:
        self.torch, self.layer, self.shape = torch, layer, shape
        self.channels_last = channels_last and len(shape) == 3

    def form(self, shape: Shape) -> tuple[Any, Shape]:
        """The order in which a tensor holds the rows of a parameter of this shape, and the tensor's shape."""
        return slice(None), shape

    @abstractmethod
    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        """The outputs, and what else the backward pass needs."""

    def gradients(self, W: list[Tensor], x: Tensor, kept: Any, dy: Tensor) -> list[Tensor]:
        return []

    @abstractmethod
    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        """The gradient of the inputs x, from that of the outputs y and what ``forward`` kept."""


class _Linear(_Op):
    """If images are stored with channels last, the rows of W are in that order, so that nothing is moved."""

    layer: Linear

    def form(self, shape: Shape) -> tuple[Any, Shape]:
        if not self.channels_last or len(shape) == 1:
            return super().form(shape)
        return np.arange(shape[0]).reshape(self.shape).transpose(1, 2, 0).ravel(), shape

    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        rows = self._rows(x)
        return (self.torch.addmm(W[1], rows, W[0]) if self.layer.bias else rows @ W[0]), None

    def gradients(self, W: list[Tensor], x: Tensor, kept: Any, dy: Tensor) -> list[Tensor]:
        dW = self._rows(x).t() @ dy
        return [dW, dy.sum(0)] if self.layer.bias else [dW]

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        dx = dy @ W[0].t()
        if not self.channels_last:
            return dx.reshape(x.shape)
        channels, height, width = self.shape
        return dx.reshape(len(dx), height, width, channels).permute(0, 3, 1, 2)

    def _rows(self, x: Tensor) -> Tensor:
        """Each sample as a row."""
        return (x.permute(0, 2, 3, 1) if self.channels_last else x).reshape(len(x), -1)


class _Conv2d(_Op):
    layer: Conv2d

    def form(self, shape: Shape) -> tuple[Any, Shape]:
        kernel = self.layer.kernel
        return slice(None), shape if len(shape) == 1 else (shape[0], self.shape[0], kernel, kernel)

    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        return self.torch.conv2d(x, W[0], W[1], self.layer.stride, self.layer.padding), None

    def gradients(self, W: list[Tensor], x: Tensor, kept: Any, dy: Tensor) -> list[Tensor]:
        return list(self._backward(W, x, dy, [False, True, True])[1:])

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        return self._backward(W, x, dy, [True, False, False])[0]

    def _backward(self, W: list[Tensor], x: Tensor, dy: Tensor, wanted: list[bool]) -> tuple[Tensor, ...]:
        """The gradients of images, filters and biases that are wanted."""
        stride, padding, zero = 2 * [self.layer.stride], 2 * [self.layer.padding], [0, 0]
        sizes = (stride, padding, [1, 1], False, zero, 1)  # stride, padding, dilation, not transposed, groups
        return self.torch.ops.aten.convolution_backward(dy, x, W[0], [len(W[0])], *sizes, wanted)


class _Activation(_Op):
    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        if isinstance(self.layer, Identity):
            return x, None
        return getattr(self.torch.ops.aten, self.layer.name)(x), None

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        return _DERIVATIVES[type(self.layer)](self.torch.ops.aten, dy, x, y)


_DERIVATIVES: dict[type[Layer], Callable[[Any, Tensor, Tensor, Tensor], Tensor]] = {
    ReLU: lambda aten, dy, x, y: aten.threshold_backward(dy, y, 0),
    LeakyReLU: lambda aten, dy, x, y: aten.leaky_relu_backward(dy, x, 0.01, False),
    Tanh: lambda aten, dy, x, y: aten.tanh_backward(dy, y),
    Sigmoid: lambda aten, dy, x, y: aten.sigmoid_backward(dy, y),
    SiLU: lambda aten, dy, x, y: aten.silu_backward(dy, x),
    GELU: lambda aten, dy, x, y: aten.gelu_backward(dy, x),
    ELU: lambda aten, dy, x, y: aten.elu_backward(dy, 1.0, 1.0, 1.0, False, x),
    Identity: lambda aten, dy, x, y: dy,
}
"""The gradient of an activation's input x, from that of its output y."""


class _MaxPool2d(_Op):
    layer: MaxPool2d

    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        size = 2 * [self.layer.size]
        return self.torch.ops.aten.max_pool2d_with_indices(x, size, size)

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        size, padding, dilation = 2 * [self.layer.size], [0, 0], [1, 1]
        backward = self.torch.ops.aten.max_pool2d_with_indices_backward
        return backward(dy, x, size, size, padding, dilation, False, kept)


class _AvgPool2d(_Op):
    layer: AvgPool2d

    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        return self.torch.nn.functional.avg_pool2d(x, self.layer.size), None

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        size = 2 * [self.layer.size]
        backward = self.torch.ops.aten.avg_pool2d_backward
        return backward(dy.contiguous(), x, size, size, [0, 0], False, True, None)


class _Flatten(_Op):
    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        return x.reshape(len(x), -1), None

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        return dy.reshape(x.shape)


class _LayerNorm(_Op):
    def form(self, shape: Shape) -> tuple[Any, Shape]:
        return slice(None), self.shape

    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        y, *moments = self.torch.ops.aten.native_layer_norm(x, x.shape[1:], *W, EPS)
        return y, moments

    def gradients(self, W: list[Tensor], x: Tensor, kept: Any, dy: Tensor) -> list[Tensor]:
        return list(self._backward(W, x, kept, dy, [False, True, True])[1:])

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        return self._backward(W, x, kept, dy, [True, False, False])[0]

    def _backward(
        self, W: list[Tensor], x: Tensor, kept: Any, dy: Tensor, wanted: list[bool]
    ) -> tuple[Tensor, ...]:
        backward = self.torch.ops.aten.native_layer_norm_backward
        return backward(dy.contiguous(), x, x.shape[1:], *kept, *W, wanted)


_OPS: dict[type[Layer], type[_Op]] = {Linear: _Linear, Conv2d: _Conv2d, MaxPool2d: _MaxPool2d}
_OPS |= {LayerNorm: _LayerNorm, AvgPool2d: _AvgPool2d, Flatten: _Flatten}
_OPS |= dict.fromkeys(ACTIVATIONS.values(), _Activation)


class _LinearOfMembers(_Linear):
    """The layers of many networks: tensors have the members as first dimension, a bias has one row."""

    def forward(self, W: list[Tensor], x: Tensor) -> tuple[Tensor, Any]:
        return (self.torch.baddbmm(W[1], x, W[0]) if self.layer.bias else self.torch.bmm(x, W[0])), None

    def gradients(self, W: list[Tensor], x: Tensor, kept: Any, dy: Tensor) -> list[Tensor]:
        self.torch.bmm(x.mT, dy, out=self.into[0])
        if self.layer.bias:
            self.torch.sum(dy, 1, keepdim=True, out=self.into[1])
        return list(self.into)

    def propagate(self, W: list[Tensor], x: Tensor, y: Tensor, kept: Any, dy: Tensor) -> Tensor:
        return dy * W[0].mT if dy.shape[2] == 1 else self.torch.bmm(dy, W[0].mT)


OF_MEMBERS: dict[type[Layer], type[_Op]] = dict.fromkeys(ACTIVATIONS.values(), _Activation)
OF_MEMBERS |= {Linear: _LinearOfMembers}
"""The layers of networks side by side."""


_LOSSES: dict[str, Callable[[Any, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "mean_squared_error": lambda torch, P, Y: (P - Y, P - Y),
    "huber": lambda torch, P, Y: (
        torch.nn.functional.huber_loss(P, Y, reduction="none"),
        (P - Y).clamp(-1, 1),
    ),
    "binary_cross_entropy": lambda torch, P, Y: (
        torch.nn.functional.binary_cross_entropy_with_logits(P, Y, reduction="none"),
        torch.sigmoid(P) - Y,
    ),
}
"""E, and the gradient of the outputs P before it is scaled, by the names of losses."""


class TorchLayers:
    """A network of layers: the shapes and layouts of its tensors, and its computations.

    Targets of the cross-entropy are held as -scale Y, with which PyTorch computes the gradient of log softmax
    in one call; ``scale`` is 1 / rows, or 1 if the gradient is taken of the sum. With ``channels_last``
    images lie as (rows, height, width, channels). With the ``ops`` of members all tensors of ``step`` have
    the members as first dimension, and ``total`` has a number for each.
    """

    def __init__(
        self,
        torch: Any,
        network: Network,
        channels_last: bool = False,
        ops: Mapping[type[Layer], type[_Op]] = _OPS,
    ) -> None:
        self._torch, self._network, self._channels_last = torch, network, channels_last
        layers = zip(network.layers, network.layer_shapes, strict=False)
        self.ops = [ops[type(layer)](torch, layer, shape, channels_last) for layer, shape in layers]
        self._own, self._first = network.slices, network.gradient.lowest(network.layers, network.layer_shapes)
        owners = zip(self.ops, network.layer_parameters, strict=True)
        self._forms = [op.form(parameter.shape) for op, own in owners for parameter in own]
        self._has_labels = network.loss is CROSS_ENTROPY

    def parameters(self, weights: Sequence[np.ndarray], device: Any) -> list[Tensor]:
        """The parameters as tensors of a device."""
        held = [W[order].reshape(shape) for W, (order, shape) in zip(weights, self._forms, strict=True)]
        return [self._laid_out(np.ascontiguousarray(array)).to(device) for array in held]

    def arrays(self, tensors: Sequence[Tensor]) -> list[np.ndarray]:
        """The parameters of these tensors as the network shapes them."""
        arrays = [np.empty(shape, np.float32) for shape in self._network.shapes]
        for array, tensor, (order, _) in zip(arrays, tensors, self._forms, strict=True):
            array[order] = tensor.cpu().contiguous().numpy().reshape(array.shape)
        return arrays

    def inputs(self, X: np.ndarray) -> Tensor:
        """Rows of data as a tensor of the host."""
        return self._laid_out(X.reshape(len(X), *self._network.inputs))

    def targets(self, Y: np.ndarray) -> Tensor:
        """The targets of a batch as a tensor of the host."""
        return self._torch.from_numpy(np.float32(-self._scale(len(Y))) * Y if self._has_labels else Y)

    def take(self, rows: Tensor, data: tuple[Tensor, Tensor], batch: tuple[Tensor, Tensor]) -> None:
        """Write these rows of all data, ``inputs`` and plain targets, to a batch."""
        for source, target in zip(data, batch, strict=True):
            self._torch.index_select(source, 0, rows, out=target)
        self.scaled(batch[1])

    def scaled(self, Y: Tensor) -> Tensor:
        """Plain targets of a batch, which may be overwritten, as ``targets`` returns them."""
        return Y.mul_(-self._scale(Y.shape[-2])) if self._has_labels else Y

    def outputs(self, W: list[Tensor], x: Tensor) -> Tensor:
        """The network's outputs, (rows, outputs)."""
        for op, own in zip(self.ops, self._own, strict=True):
            x, _ = op.forward(W[own], x)
        return x.reshape(len(x), -1)

    def step(
        self, W: list[Tensor], x: Tensor, targets: Tensor, descend: Descend
    ) -> tuple[list[Tensor], Tensor]:
        """One training step: the new parameters, and what ``total`` computes the batch's loss from."""
        inputs, activations, y = [], [], x
        for op, own in zip(self.ops, self._own, strict=True):
            inputs.append(y)
            y, kept = op.forward(W[own], y)
            activations.append((y, kept))
        errors, dy = self._gradient(y.reshape(targets.shape).float(), targets)
        dy, new, gradients = dy.reshape(y.shape).to(y.dtype), list(W), list(W)
        sequential = self._network.update_order == "sequential"
        for i in range(len(self.ops) - 1, self._first - 1, -1):
            op, own, x = self.ops[i], self._own[i], inputs[i]
            gradients[own] = op.gradients(W[own], x, activations[i][1], dy)
            if sequential and gradients[own]:
                new[own] = descend(W[own], gradients[own])
            if i > self._first:
                dy = op.propagate(new[own], x, *activations[i], dy)
        return (new if sequential else descend(W, gradients)), errors

    def total(self, errors: Tensor, targets: Tensor) -> Tensor:
        """A batch's loss before the factor of ``losses``, on the device."""
        if self._has_labels:
            return (errors * targets).sum((-2, -1))
        return (errors * errors if self._network.loss.is_squared else errors).sum((-2, -1))

    def losses(self, totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The mean losses of batches, from their totals and their numbers of rows."""
        if self._has_labels:
            return totals / (rows * [self._scale(n) for n in rows])
        return totals / (rows * self._network.loss.errors(self._network.outputs))

    def _gradient(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The values that the loss is computed from, and the gradient of the outputs."""
        if not self._has_labels:
            errors, gradient = _LOSSES[self._network.loss.name](self._torch, outputs, targets)
            return errors, gradient * self._scale(errors.shape[-2])
        log = self._torch.log_softmax(outputs, -1)
        return log, self._torch.ops.aten._log_softmax_backward_data(targets, log, -1, log.dtype)

    def _scale(self, rows: int) -> float:
        mean_over = (rows, self._network.outputs) if self._network.reduction == "mean" else (1, 1)
        return self._network.loss.scale(*mean_over) * self._network.loss_scale

    def _laid_out(self, array: np.ndarray) -> Tensor:
        tensor = self._torch.from_numpy(array)
        if not self._channels_last or tensor.dim() != 4:
            return tensor
        return tensor.contiguous(memory_format=self._torch.channels_last)


def compiled_step(
    torch: Any, network: Network, W: list[Tensor], X: Tensor, Y: Tensor, descend: Descend
) -> tuple[list[Tensor], Tensor]:
    """A step of a multilayer perceptron, to be compiled: the new W, and Y_pred - Y.

    Equations (1) to (4) of the paper on one batch. With a single column a product has a form that fuses with
    the element-wise work around it.
    """

    def product(A: Tensor, B: Tensor) -> Tensor:
        if A.shape[1] == 1:
            return A * B
        return (A * B.t()).sum(1, keepdim=True) if B.shape[1] == 1 else A @ B

    H = [X]
    for w in W[:-1]:
        H.append(torch.relu(H[-1] @ w))
    error = product(H[-1], W[-1]) - Y
    dZ, new = error * (2.0 / len(X)), list(W)
    for i in range(len(W) - 1, -1, -1):
        new[i : i + 1] = descend([W[i]], [product(H[i].t(), dZ)])
        if i > 0:
            w = new[i] if network.update_order == "sequential" else W[i]
            dZ = torch.where(H[i] > 0, product(dZ, w.t()), 0.0)
    return new, error


def eager_steps(
    torch: Any, network: Network, W: list[Tensor], batches: Sequence[tuple[Tensor, Tensor]], rate: float
) -> list[Callable[[], Tensor]]:
    """The step of a multilayer perceptron on each batch; a call returns Y_pred - Y.

    Equations (1) to (4) of the paper, with every dZ scaled by rows / 2. Activations, gradients and every view
    are allocated here.
    """
    last, sequential, max_norm = len(W) - 1, network.update_order == "sequential", network.clip_norm
    rows = max(len(x) for x, _ in batches)
    buffers = [[W[0].new_empty(rows, n) for n in network.mlp_widths()[1:]] for _ in range(2)]
    dW = [torch.empty_like(w) for w in W] if max_norm is not None else []
    norm, W_transposed = W[0].new_empty(()), [w.t() for w in W]

    def update(i: int, transposed: Tensor, dZ: Tensor) -> None:
        """W -= rate H^T dZ; with clipping, W -= rate max_norm dW / max(norm + 1e-6, max_norm)."""
        scale = 2.0 / len(dZ)
        if max_norm is None:
            W[i].addmm_(transposed, dZ, alpha=-rate * scale)
            return
        torch.mm(transposed, dZ, out=dW[i])
        torch.linalg.vector_norm(dW[i], out=norm)
        norm.add_(1e-6 / scale).clamp_min_(max_norm / scale)
        W[i].addcdiv_(dW[i], norm, value=-rate * max_norm)

    def step(Y: Tensor, H: list[Tensor], transposed: list[Tensor], dZ: list[Tensor]) -> Tensor:
        for i in range(last):
            torch.mm(H[i], W[i], out=H[i + 1]).relu_()
        torch.addmm(Y, H[last], W[last], beta=-1, out=dZ[last])
        for i in range(last, -1, -1):
            if sequential:
                update(i, transposed[i], dZ[i])
            if i > 0:
                propagate = torch.mul if W[i].shape[1] == 1 else torch.mm
                propagate(dZ[i], W_transposed[i], out=dZ[i - 1])
                torch.ops.aten.threshold_backward.grad_input(dZ[i - 1], H[i], 0, grad_input=dZ[i - 1])
            if not sequential:  # the error has been propagated through the old weights
                update(i, transposed[i], dZ[i])
        return dZ[-1]

    steps: list[Callable[[], Tensor]] = []
    for x, y in batches:
        hidden, dZ = ([buffer[: len(x)] for buffer in some] for some in buffers)
        H = [x, *hidden[:-1]]
        steps.append(partial(step, y, H, [h.t() for h in H], dZ))
    return steps


class TorchOptimizer:
    """An optimiser's update of parameters in place, of some layers at a time and in a graph.

    PyTorch's optimisers update all parameters at once.
    """

    def __init__(self, torch: Any, network: Network, W: Sequence[Tensor]) -> None:
        self._torch, self._optimizer = torch, network.optimizer
        self._schedule = network.optimizer.schedule.numbers(network.run_steps)
        self._state = {id(w): [torch.zeros_like(w) for _ in network.optimizer.state] for w in W}
        self._steps = torch.zeros((), dtype=torch.float64, device=W[0].device)
        self._factor: Any = 1.0

    def reset(self) -> None:
        """Set the state to 0."""
        for tensor in (self._steps, *(one for held in self._state.values() for one in held)):
            tensor.zero_()

    def count(self) -> None:
        """Begin a step."""
        if self._optimizer.schedule != CONSTANT:
            self._factor = factor(self._steps, *self._schedule, self._torch).float()
        self._steps += 1
        if isinstance(self._optimizer, Adam):
            self._corrections = [
                1 - self._torch.pow(beta, self._steps)
                for beta in (self._optimizer.beta1, self._optimizer.beta2)
            ]

    def descend(self, W: list[Tensor], gradients: list[Tensor], full_rate: float) -> None:
        gradients = clipped_together(self._torch, gradients, self._optimizer.clip_norm)
        rate = full_rate * self._factor
        for w, gradient in zip(W, gradients, strict=True):
            w.sub_(rate * self._direction(w, gradient, rate))

    def _direction(self, w: Tensor, gradient: Tensor, rate: Any) -> Tensor:
        optimizer, held = self._optimizer, self._state[id(w)]
        assert isinstance(optimizer, (Sgd, Adam))
        if isinstance(optimizer, AdamW):
            w.mul_(1 - rate * optimizer.weight_decay)
        elif optimizer.weight_decay:
            gradient = gradient + optimizer.weight_decay * w
        if isinstance(optimizer, Adam):
            m, v = held
            m.lerp_(gradient, 1 - optimizer.beta1)
            v.mul_(optimizer.beta2).addcmul_(gradient, gradient, value=1 - optimizer.beta2)
            first, second = self._corrections
            denominator = v.sqrt() * second.rsqrt().float() + optimizer.eps
            return m * first.reciprocal().float() / denominator
        if not held:
            return gradient
        held[0].mul_(optimizer.momentum).add_(gradient)
        return gradient + optimizer.momentum * held[0] if optimizer.nesterov else held[0]


def pytorchs_optimizer(torch: Any, network: Network, parameters: Any, rate: float) -> Any:
    """PyTorch's optimiser of the network."""
    keys = network.optimizer.keys
    if isinstance(network.optimizer, Adam):
        keys["betas"] = keys.pop("beta1"), keys.pop("beta2")
    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return optimizers[network.optimizer.name](parameters, lr=rate, **keys)


def clipped(torch: Any, gradients: list[Any], max_norm: float | None) -> list[Any]:
    """Gradients scaled to L2 norms of at most ``max_norm`` each: g max_norm / (norm + 1e-6)."""
    if max_norm is None:
        return gradients
    norms = map(torch.linalg.vector_norm, gradients)
    pairs = zip(gradients, norms, strict=True)
    return [g * torch.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0) for g, norm in pairs]


def clipped_together(torch: Any, gradients: list[Any], max_norm: float | None) -> list[Any]:
    """Gradients times min(1, max_norm / (norm + 1e-6)), with the L2 norm of all."""
    if max_norm is None:
        return gradients
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    scale = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return [g * scale for g in gradients]
