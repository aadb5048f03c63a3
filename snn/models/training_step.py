"""A network's training step: forward, loss and backward, as the list of launches that it is made of.

A device-driven strategy launches each of them; a host-driven one sends the products through its ``matmul``
and does the rest on the host.
"""

import numpy as np

from snn.models.network import Network
from snn.models.step import Step, Tensor


def training_step(
    network: Network,
    rows: int,
    rate: float,
    fused: bool = False,
    pretransposed: bool = False,
    convolves: bool = False,
) -> Step:
    """Forward, loss and backward, each layer updated before or after its gradient passes through it."""
    step = Step(rows, float(np.float32(rate)), network.clip_norm, fused, pretransposed, convolves)
    x, inputs = Tensor("X", network.inputs), []
    for i, layer in enumerate(network.layers):
        inputs.append(x)
        step.label = _label(network, i, "forward")
        x = layer.forward(step, i, x)
    outputs = [*inputs[1:], x]
    step.label = "loss"
    dy, scale = step.gradient(x.name), float(np.float32(network.loss.factor / rows))
    errors, sizes = step.buffer("E", "gradients"), network.loss.sizes(rows, x.size)
    step.launch(network.loss.op, (x.name, "Y", errors, dy), (*sizes, scale))
    if x.rectified:
        step.mask(dy, x)
    first = min(i for i, layer in enumerate(network.layers) if layer.parameters(i, inputs[i].shape))
    for i in reversed(range(first, len(network.layers))):
        layer, x = network.layers[i], inputs[i]
        step.label = _label(network, i, "backward")
        dy = layer.receive(step, i, dy)
        if network.update_order == "sequential":
            layer.update(step, i, x, dy)
        dx = layer.propagate(step, i, x, dy) if i > first else dy
        if i > first and x.rectified and not outputs[i].rectified:
            step.mask(dx, x)
        if network.update_order != "sequential":
            layer.update(step, i, x, dy)
        dy = dx
    return step


def _label(network: Network, i: int, direction: str) -> str:
    return f"layer {i + 1} {type(network.layers[i]).__name__} {direction}"
