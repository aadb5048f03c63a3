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
    rate = float(np.float32(rate))
    step = Step(rows, rate, network.clip_norm, fused, pretransposed, convolves=convolves)
    step.rounds_once = network.gradient.rounds_once
    step.keeps_unpooled = network.gradient.reads_unpooled
    inputs, x = _forward(step, network)
    outputs = [*inputs[1:], x]
    step.label = "loss"
    of_each = rows if network.reduction == "mean" else 1
    dy, scale = step.gradient(x.name), float(np.float32(network.loss.factor / of_each))
    errors, sizes = step.buffer("E", "gradients"), network.loss.sizes(rows, x.size)
    step.launch(network.gradient.loss_op(network.loss.op), (x.name, "Y", errors, dy), (*sizes, scale))
    network.gradient.of_outputs(step, dy, x.size)
    if x.rectified:
        step.mask(dy, x)
    first = network.gradient.lowest(network.layers, network.layer_shapes)
    for i in reversed(range(first, len(network.layers))):
        layer, x = network.layers[i], inputs[i]
        step.label = _label(network, i, "backward")
        dy = network.gradient.receive(layer, step, i, dy)
        if network.update_order == "sequential":
            network.gradient.update(layer, step, i, x, dy)
        dx = layer.propagate(step, i, x, dy) if i > first else dy
        if i > first and x.rectified and not outputs[i].rectified:
            step.mask(dx, x)
        if network.update_order != "sequential":
            network.gradient.update(layer, step, i, x, dy)
        dy = dx
    return step


def prediction_step(
    network: Network, rows: int, fused: bool = False, convolves: bool = False
) -> tuple[Step, str]:
    """The forward part alone, and the name of the buffer with its outputs, (rows, outputs)."""
    step = Step(rows, 0.0, fused=fused, convolves=convolves)
    return step, _forward(step, network)[1].name


def _forward(step: Step, network: Network) -> tuple[list[Tensor], Tensor]:
    """Launch the layers; returns the input of each and the output of the last one."""
    x, inputs = Tensor("X", network.inputs), []
    for i, layer in enumerate(network.layers):
        inputs.append(x)
        step.label = _label(network, i, "forward")
        x = layer.forward(step, i, x)
    return inputs, x


def _label(network: Network, i: int, direction: str) -> str:
    return f"layer {i + 1} {type(network.layers[i]).__name__} {direction}"
