"""A network's training step: forward, loss and backward, as a list of launches.

A device-driven strategy launches each of them; a host-driven one sends the products through its ``matmul``
and does the rest on the host.
"""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np

from snn.models import dropout
from snn.models.network import Network
from snn.models.optimizers import PLAIN
from snn.models.remedies import compute_again
from snn.models.step import FIRST, LATER, SHARE, WHOLE, Place, Step, Tensor


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

    kernel = fused, pretransposed, convolves
    places = network.places if together and network.optimizer != PLAIN else {}
    starts = range(0, rows, micro)
    sizes = [min(micro, rows - start) for start in starts]
    is_whole = len(sizes) == 1 and network.optimizer.clip_norm is None
    parts = [WHOLE] if is_whole else [FIRST, *[LATER] * (len(sizes) - 1)]
    empty = [
        _new_step(network, *each, rate, kernel, places) for each in zip(sizes, parts, starts, strict=True)
    ]
    steps = [_filled(step, network, rows) for step in empty]
    _update_due(steps[0], steps[-1], _new_step(network, rows, WHOLE, 0, rate, kernel, places), network)
    return steps


class Sum(NamedTuple):
    """A sum of gradients over all devices: the launches of a step before it, the buffer, its elements."""

    launches: int
    buffer: str
    elements: int


def share_step(
    network: Network, rows: int, first: int, own: int, rate: float, kernel: tuple[bool, bool, bool]
) -> tuple[Step, list[Sum]]:
    """The step of a device that has ``own`` rows of a batch of ``rows``, from the ``first`` on; and its sums.

    All gradients are summed at once, or each layer's before the next one's with sequential updates. A device
    without a row computes the first one, with gradients of 0. Parameters and gradients lie side by side.
    """
    part = SHARE if network.update_order == "sequential" else FIRST
    step = _new_step(network, max(own, 1), part, first, rate, kernel, network.places)
    _filled(step, network, rows, weight=float(own > 0))
    summed = step.summed or {len(step.launches): [*step.due]}
    whole = [(at, step.run(sorted(names, key=step.places.__getitem__))) for at, names in summed.items()]
    _update_due(step, step, _new_step(network, rows, WHOLE, 0, rate, kernel, network.places), network)
    return step, [Sum(at, step.gradient(name), elements) for at, (name, elements) in whole]


def _new_step(
    network: Network,
    rows: int,
    part: str,
    first_row: int,
    rate: float,
    kernel: tuple[bool, bool, bool],
    places: Mapping[str, Place],
) -> Step:
    is_plain, scale = network.optimizer == PLAIN and network.clip_norm is None, network.loss_scale
    own_rate = float(np.float32(rate)) / (scale if is_plain else 1)
    step = Step(rows, own_rate, network.clip_norm, network.optimizer, network.run_steps)
    step.unscale = 1.0 if is_plain else 1 / scale
    step.part, step.first_row, step.dropout_seed = part, first_row, network.dropout_seed
    step.fused, step.pretransposed, step.convolves = kernel
    step.rounds_once, step.keeps_unpooled = network.gradient.rounds_once, network.gradient.reads_unpooled
    step.places = places
    return step


def _update_due(first: Step, last: Step, update: Step, network: Network) -> None:
    """Add to the last step of a batch the update of all parameters whose gradients wait for it."""
    due = first.due
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


def _filled(step: Step, network: Network, batch_rows: int, weight: float = 1.0) -> Step:
    """The step with the launches of a network; its rows are some of a batch of ``batch_rows``.

    ``weight`` multiplies the gradient of the loss.
    """
    inputs, x = _forward(step, network)
    outputs = [*inputs[1:], x]
    step.label = "loss"
    mean_over = (batch_rows, x.size) if network.reduction == "mean" else (1, 1)
    scale = float(np.float32(weight * network.loss.scale(*mean_over))) * network.loss_scale
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
