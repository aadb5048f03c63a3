"""A network's training step: forward, loss and backward, as a list of launches.

A device-driven strategy launches each of them; a host-driven one sends the products through its ``matmul``
and does the rest on the host.
"""

from math import prod

import numpy as np

from snn.models import dropout
from snn.models.network import Network
from snn.models.optimizers import PLAIN
from snn.models.remedies import compute_again
from snn.models.step import FIRST, LATER, WHOLE, Step, Tensor


def training_step(
    network: Network,
    rows: int,
    rate: float,
    fused: bool = False,
    pretransposed: bool = False,
    convolves: bool = False,
) -> Step:
    """Forward, loss and backward, each layer updated before or after its gradient passes through it."""
    return batch_steps(network, rows, rows, rate, fused, pretransposed, convolves, together=False)[0]


def micro_batch(network: Network, batch_size: int) -> int:
    return -(-batch_size // network.accumulate)


def batch_steps(
    network: Network,
    rows: int,
    micro: int,
    rate: float,
    fused: bool = False,
    pretransposed: bool = False,
    convolves: bool = False,
    together: bool = True,
) -> list[Step]:
    """The steps of a batch in micro-batches of ``micro`` rows; the last may be smaller.

    Their gradients are added up, and the last step ends with the update of all parameters. So does a step on
    a whole batch if all gradients are clipped together. ``together``: parameters, gradients and the
    optimiser's state lie side by side, as ``network.places`` has them, so that a launch of an optimiser other
    than plain gradient descent can update several parameters.
    """

    def empty(rows: int, part: str = WHOLE, first_row: int = 0) -> Step:
        is_plain, scale = network.optimizer == PLAIN and network.clip_norm is None, network.loss_scale
        own_rate = float(np.float32(rate)) / (scale if is_plain else 1)
        step = Step(rows, own_rate, network.clip_norm, network.optimizer, network.run_steps)
        step.unscale = 1.0 if is_plain else 1 / scale
        step.part, step.first_row, step.dropout_seed = part, first_row, network.dropout_seed
        step.fused, step.pretransposed = fused, pretransposed
        step.convolves, step.rounds_once = convolves, network.gradient.rounds_once
        step.keeps_unpooled = network.gradient.reads_unpooled
        step.places = network.places if together and network.optimizer != PLAIN else {}
        return step

    starts = range(0, rows, micro)
    sizes = [min(micro, rows - start) for start in starts]
    is_whole = len(sizes) == 1 and network.optimizer.clip_norm is None
    parts = [WHOLE] if is_whole else [FIRST, *[LATER] * (len(sizes) - 1)]
    steps = [_filled(empty(*each), network, rows) for each in zip(sizes, parts, starts, strict=True)]
    last, update = steps[-1], empty(rows)
    due = steps[0].due
    clipped = [(name, prod(shape)) for name, (shape, *_) in due.items()]
    if update.places and due:
        clipped = [update.run(sorted(due, key=update.places.__getitem__))]
    update.label = "update"
    if network.optimizer.clip_norm is not None:
        for name, size in clipped:
            update.undo_scaling(update.gradient(name), size)
    network.optimizer.clip(update, [(update.gradient(name), size) for name, size in clipped])
    for name, (shape, with_transposed, label) in due.items():
        update.label = label.replace("backward", "update")
        update.descend(name, update.gradient(name), shape, with_transposed)
    update.label = "update"
    update.update_pending()
    last.launches, last.purposes = last.launches + update.launches, last.purposes | update.purposes
    last.runs = last.runs | update.runs
    dropout.count(last)
    return steps


def _filled(step: Step, network: Network, batch_rows: int) -> Step:
    """The step with the launches of a network; its rows are some of a batch of ``batch_rows``."""
    inputs, x = _forward(step, network)
    outputs = [*inputs[1:], x]
    step.label = "loss"
    mean_over = (batch_rows, x.size) if network.reduction == "mean" else (1, 1)
    scale = float(np.float32(network.loss.scale(*mean_over))) * network.loss_scale
    dy = step.gradient(x.name)
    errors, sizes = step.buffer("E", "gradients"), network.loss.sizes(step.rows, x.size)
    step.launch(network.gradient.loss_op(network.loss.op), (x.name, "Y", errors, dy), (*sizes, scale))
    network.gradient.of_outputs(step, dy, x.size)
    if x.derivative:
        step.differentiate(dy, x)
    first = network.gradient.lowest(network.layers, network.layer_shapes)
    for i in reversed(range(first, len(network.layers))):
        layer, x = network.layers[i], inputs[i]
        step.label = _label(network, i, "backward")
        dy = network.gradient.receive(layer, step, i, dy)
        if network.update_order == "sequential":
            network.gradient.update(layer, step, i, x, dy)
            step.update_pending()
        dx = layer.propagate(step, i, x, dy) if i > first else dy
        if i > first and x.derivative and not outputs[i].derivative:
            step.differentiate(dx, x)
        if network.update_order != "sequential":
            network.gradient.update(layer, step, i, x, dy)
        dy = dx
    step.label = step.label if network.update_order == "sequential" else "update"
    step.update_pending()
    compute_again(step, {step.activations[i].name for i in network.recompute})
    return step


def prediction_step(
    network: Network, rows: int, fused: bool = False, convolves: bool = False
) -> tuple[Step, str]:
    """The forward part alone, and the name of the buffer with its outputs, (rows, outputs)."""
    step = Step(rows, 0.0, fused=fused, convolves=convolves, predicts=True)
    return step, _forward(step, network)[1].name


def validation_step(network: Network, rows: int, fused: bool = False, convolves: bool = False) -> Step:
    """The forward part, and the loss E of its outputs; their gradient is written, too, but not used."""
    step, result = prediction_step(network, rows, fused, convolves)
    step.label = "validation loss"
    operands = result, "Y", step.buffer("E", "gradients"), step.gradient(result)
    step.launch(network.loss.op, operands, (*network.loss.sizes(rows, network.outputs), 1.0))
    return step


def _forward(step: Step, network: Network) -> tuple[list[Tensor], Tensor]:
    """Launch the layers; returns the input of each and the output of the last one."""
    x, inputs = Tensor("X", network.inputs), []
    for i, layer in enumerate(network.layers):
        inputs.append(x)
        step.label, before = _label(network, i, "forward"), len(step.launches)
        x = layer.forward(step, i, x)
        step.layers.append((before, x.name))
    step.forward = len(step.launches)
    return inputs, x


def _label(network: Network, i: int, direction: str) -> str:
    return f"layer {i + 1} {type(network.layers[i]).__name__} {direction}"
