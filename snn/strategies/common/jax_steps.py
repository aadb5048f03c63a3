"""The training steps that JAX compiles: of a multilayer perceptron, and of any network of layers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from snn.errors import Unsupported
from snn.models.layers import Conv2d, Layer, Linear, MaxPool2d, ReLU
from snn.models.losses import CROSS_ENTROPY
from snn.models.network import Network

Step = Callable[[Any, Any, Any], tuple[Any, Any]]
"""The new parameters and the errors E of a batch, from the parameters, X and Y."""


def make_step(jax: Any, network: Network, rate: float) -> Step:
    """A training step on one batch, as a pure function. Raises Unsupported for a layer without a form."""
    return _perceptron(jax, network, rate) if network.widths is not None else _layers(jax, network, rate)


def make_outputs(jax: Any, network: Network) -> Callable[[Any, Any], Any]:
    """The outputs of a network, (rows, outputs), as a function of its parameters and X, (rows, features)."""
    own = _slices(network)

    def outputs(W: Any, X: Any) -> Any:
        x = X.reshape(len(X), *network.inputs)
        for layer, some in zip(network.layers, own, strict=True):
            x = _forward(jax, layer, W[some], x)
        return x.reshape(len(x), -1)

    return outputs


def _perceptron(jax: Any, network: Network, rate: float) -> Step:
    """Equations (1) to (4) of the paper."""
    jnp = jax.numpy
    sequential, max_norm = network.update_order == "sequential", network.clip_norm

    def step(W: Any, X: Any, Y: Any) -> Any:
        H, new = [X], list(W)
        for w in W[:-1]:
            H.append(jax.nn.relu(H[-1] @ w))
        error = H[-1] @ W[-1] - Y
        dZ = error * (2.0 / len(X))
        for i in reversed(range(len(W))):
            new[i] = W[i] - rate * _clipped(jnp, H[i].T @ dZ, max_norm)
            if i > 0:
                dZ = jnp.where(H[i] > 0, dZ @ (new if sequential else W)[i].T, 0.0)
        return tuple(new), error

    return step


def _layers(jax: Any, network: Network, rate: float) -> Step:
    """Each layer is differentiated by JAX, so that it can be updated before or after its gradient passes."""
    jnp, layers, own = jax.numpy, network.layers, _slices(network)
    first = next(i for i, some in enumerate(own) if some.start < some.stop)
    sequential, summed = network.update_order == "sequential", network.reduction == "sum"
    for layer in layers:
        if type(layer) not in (Linear, Conv2d, MaxPool2d, ReLU):
            raise Unsupported(f"the peers have no form of the layer {type(layer).__name__}")

    def gradient(outputs: Any, Y: Any) -> tuple[Any, Any]:
        """The errors E, and the gradient of the outputs."""
        scale = 1.0 if summed else 1.0 / len(Y)
        if network.loss is CROSS_ENTROPY:
            log = jax.nn.log_softmax(outputs)
            return -(log * Y).sum(1, keepdims=True), (jnp.exp(log) - Y) * scale
        errors = outputs - Y
        return errors, errors * (2.0 * scale)

    def step(W: Any, X: Any, Y: Any) -> Any:
        x, new, inputs, pulls = X.reshape(len(X), *network.inputs), list(W), [], []
        for layer, some in zip(layers, own, strict=True):
            inputs.append(x)
            x, pull = jax.vjp(partial(_forward, jax, layer), tuple(W[some]), x)
            pulls.append(pull)
        errors, dy = gradient(x.reshape(len(x), -1), Y)
        dy = dy.reshape(x.shape)
        for i in reversed(range(first, len(layers))):
            some = own[i]
            gradients, dx = pulls[i](dy)
            new[some] = [
                w - rate * _clipped(jnp, dW, network.clip_norm)
                for w, dW in zip(W[some], gradients, strict=True)
            ]
            if sequential and new[some]:
                forward = partial(_forward, jax, layers[i], tuple(new[some]))
                (dx,) = jax.vjp(forward, inputs[i])[1](dy)
            dy = dx
        return tuple(new), errors

    return step


def _forward(jax: Any, layer: Layer, W: Any, x: Any) -> Any:
    """A layer's outputs on a batch, images as (rows, channels, height, width)."""
    jnp = jax.numpy
    if isinstance(layer, Linear):
        z = x.reshape(len(x), -1) @ W[0]
        return z + W[1] if layer.bias else z
    if isinstance(layer, Conv2d):
        filters = W[0].reshape(layer.filters, x.shape[1], layer.kernel, layer.kernel)
        padding = 2 * [2 * (layer.padding,)]
        return jax.lax.conv_general_dilated(x, filters, (1, 1), padding) + W[1].reshape(-1, 1, 1)
    if isinstance(layer, MaxPool2d):
        size = layer.size
        height, width = (side // size * size for side in x.shape[2:])
        views = [x[:, :, u:height:size, v:width:size] for u in range(size) for v in range(size)]
        largest = views[0]
        for view in views[1:]:  # of equal values the first has the gradient; a maximum would divide it
            largest = jnp.where(view > largest, view, largest)
        return largest
    return jax.nn.relu(x)


def _clipped(jnp: Any, gradient: Any, max_norm: float | None) -> Any:
    """The gradient scaled to an L2 norm of at most ``max_norm``: g max_norm / (norm + 1e-6)."""
    if max_norm is None:
        return gradient
    norm = jnp.sqrt((gradient * gradient).sum())
    return gradient * jnp.where(norm > max_norm, max_norm / (norm + 1e-6), 1.0)


def _slices(network: Network) -> list[slice]:
    """Which of the network's parameters are those of each layer."""
    shapes = zip(network.layers, network.layer_shapes, strict=False)
    counts = [len(layer.parameters(i, shape)) for i, (layer, shape) in enumerate(shapes)]
    return [slice(end - n, end) for n, end in zip(counts, np.cumsum(counts).tolist(), strict=True)]
