"""Two ways to train in less device memory: micro-batches, and outputs that are computed again.

``training.accumulate``: the gradients of n micro-batches are added up before one update, that of the whole
batch, to rounding. ``network.recompute``: the outputs of these layers are not kept for the backward pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from snn.errors import ConfigError, shown
from snn.models.gradients import EXACT, Gradient
from snn.models.layer_text import parse


def check(accumulate: int, recompute: Sequence[int], update_order: str, gradient: Gradient) -> None:
    """Raise ConfigError where a network cannot be trained in this way."""
    if accumulate > 1 and update_order == "sequential":
        raise ConfigError(
            f"training.accumulate is {accumulate}: with network.update_order=sequential an error passes "
            "through weights that the whole batch has updated, of which a micro-batch knows only a part: "
            "choose network.update_order=simultaneous"
        )
    key = "training.accumulate" if accumulate > 1 else "network.recompute" if recompute else ""
    if key and gradient != EXACT:
        raise ConfigError(
            f"{key} is set: training.gradient={gradient.name} is what a program computes of a whole batch "
            "whose outputs it keeps: choose training.gradient=exact"
        )


def check_divides(accumulate: int, batch_size: int) -> None:
    """Raise ConfigError unless a batch is so many micro-batches of one size."""
    if batch_size % accumulate:
        divisors = [n for n in range(1, min(batch_size, 4096) + 1) if batch_size % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - accumulate))[:2])
        raise ConfigError(
            f"training.accumulate is {accumulate}: it must divide training.batch_size={batch_size}, the rows "
            f"of one update, as {' or '.join(map(str, near))} does"
        )


def choices(network: Mapping[str, Any]) -> list[int]:
    """What a network's key ``recompute`` may name: layers whose outputs are kept for the backward pass.

    Of an MLP its hidden layers, of ``layers`` their numbers in that list; all from 1.
    """
    if "hidden" in network:
        return list(range(1, len(network["hidden"]) + 1))
    layers = map(parse, network["layers"])
    return [number for number, layer in enumerate(layers, 1) if not layer.in_place][:-1]


def layers(network: Mapping[str, Any]) -> tuple[int, ...]:
    """The layers in ``recompute`` as a ``Network`` counts them. Raises ConfigError for any other."""
    given = network.get("recompute", [])
    known = choices(network)
    if not isinstance(given, list) or len({*map(str, given)}) < len(given):
        raise ConfigError(f"network.recompute is {shown(given)}: it must be a list of layers, each once")
    for number in given:
        if isinstance(number, bool) or not isinstance(number, int) or number not in known:
            raise ConfigError(f"network.recompute names {shown(number)}: {_right(network, number, known)}")
    return tuple(2 * (number - 1) if "hidden" in network else number - 1 for number in given)


def _right(network: Mapping[str, Any], number: object, known: Sequence[int]) -> str:
    """What is wrong with a layer that cannot be named, and what would be right."""
    several = f"{'one of ' * (len(known) > 1)}{', '.join(map(str, known))}"
    among = several if known else "none, since there is no other layer"
    if "hidden" in network:
        return f"it must be the number of a hidden layer, {among}"
    texts = network["layers"]
    if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= len(texts):
        text = texts[number - 1]
        if parse(text).in_place:
            return f"layer {number}, {text}, works in place on the output of another: it must be {among}"
        return f"layer {number}, {text}, has the network's outputs, which the loss reads: it must be {among}"
    return f"it must be the number of a layer in network.layers, from 1: {among}"
