"""Two ways to train in less device memory: micro-batches, and outputs that are computed again.

``training.accumulate``: the gradients of n micro-batches are added up before one update, which equals the
whole batch's to rounding. ``network.recompute``: these layers' outputs are not kept for the backward pass.

Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost" (2016): the layers between two
whose outputs are kept are computed again together, right before the first of them is needed. Buffers that
are never in use at the same time share memory.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from snn.errors import ConfigError, shown
from snn.models.gradients import EXACT, Gradient
from snn.models.layers import BatchNorm, Layer, parse
from snn.models.step import Launch, Step


def check(accumulate: int, recompute: Sequence[int], update_order: str, gradient: Gradient) -> None:
    """Raise ConfigError if a network cannot be trained in this way."""
    if accumulate > 1 and update_order == "sequential":
        raise ConfigError(
            f"training.accumulate is {accumulate}: with network.update_order=sequential an error passes "
            "through weights that the whole batch has updated, but a micro-batch is only a part of it: "
            "choose network.update_order=simultaneous"
        )
    key = "training.accumulate" if accumulate > 1 else "network.recompute" if recompute else ""
    if key and gradient != EXACT:
        raise ConfigError(
            f"{key} is set: training.gradient={gradient.name} is what a program computes from a whole "
            "batch whose outputs it keeps: choose training.gradient=exact"
        )


def check_divisible(accumulate: int, layers: Sequence[Layer]) -> None:
    """Raise ConfigError for micro-batches if a layer's outputs depend on the whole batch."""
    norm = next((layer for layer in layers if isinstance(layer, BatchNorm)), None)
    if norm and accumulate > 1:
        raise ConfigError(
            f"training.accumulate is {accumulate}: {norm.name} takes means over a whole batch, which "
            "micro-batches do not have: choose training.accumulate=1, or layernorm"
        )


def check_divides(accumulate: int, batch_size: int) -> None:
    """Raise ConfigError unless a batch can be divided into ``accumulate`` equal micro-batches."""
    if batch_size % accumulate:
        divisors = [n for n in range(1, min(batch_size, 4096) + 1) if batch_size % n == 0]
        near = sorted(sorted(divisors, key=lambda n: abs(n - accumulate))[:2])
        raise ConfigError(
            f"training.accumulate is {accumulate}: it must divide training.batch_size={batch_size}, the rows "
            f"of one update, as {' or '.join(map(str, near))} does"
        )


def choices(network: Mapping[str, Any]) -> list[int]:
    """Values for a network's key ``recompute``: layers whose outputs are kept for the backward pass.

    For an MLP the hidden layers, for ``layers`` the numbers in that list; both count from 1.
    """
    if "hidden" in network:
        return list(range(1, len(network["hidden"]) + 1))
    layers = map(parse, network["layers"])
    return [number for number, layer in enumerate(layers, 1) if not layer.in_place][:-1]


def layers(network: Mapping[str, Any]) -> tuple[int, ...]:
    """The layers in ``recompute`` as a ``Network`` counts them. Raises ConfigError for any other."""
    given, known, is_mlp = network.get("recompute", []), choices(network), "hidden" in network
    if not isinstance(given, list) or len({*map(str, given)}) < len(given):
        raise ConfigError(f"network.recompute is {shown(given)}: it must be a list of layers, each once")
    which = "a hidden layer" if is_mlp else "a layer in network.layers that is not in place, nor the last"
    for number in given:
        if type(number) is not int or number not in known:
            right = f"the number of {which}: {', '.join(map(str, known)) or 'there is none'}"
            raise ConfigError(f"network.recompute names {shown(number)}: it must be {right}")
    if not is_mlp:
        return tuple(number - 1 for number in given)
    of_hidden = 1 if parse(network.get("activation", "relu")).in_place else 2  # outputs that it stores
    return tuple(2 * (number - 1) + i for number in given for i in range(of_hidden))


AGAIN = "again"
"""The last word of the label of a launch that is computed again."""


class _Block(NamedTuple):
    """Launches of the forward part, from ``first`` up to ``end``, that compute an output that is stored."""

    output: str
    first: int
    end: int


def compute_again(step: Step, outputs: Collection[str]) -> None:
    """Do not keep these outputs, nor what their layers leave for the backward part: compute both again there.

    A layer is launched again as it was, with the same operands, so that it writes the same bits: no weight in
    front of a gradient has been updated yet. What nothing in the backward part reads is not computed again.
    """
    blocks = _blocks(step)
    made_by: dict[str, int] = {}
    for number, block in enumerate(blocks):
        for launch in step.launches[block.first : block.end]:
            for name in launch.operands:
                if step.purposes.get(name, "optimizer") != "optimizer":
                    made_by.setdefault(name, number)
    dropped = {number for number, block in enumerate(blocks) if block.output in outputs}
    backward: list[Launch] = []

    def need(number: int) -> None:
        if number not in dropped:
            return
        dropped.remove(number)
        again = step.launches[blocks[number].first : blocks[number].end]
        for name in (name for launch in again for name in launch.operands):
            if made_by.get(name, number) != number:
                need(made_by[name])
        backward.extend(launch._replace(label=f"{launch.label} {AGAIN}") for launch in again)

    own = [name for name, number in made_by.items() if number in dropped]
    step.transient = {*own, *(f"d{name}" for name in own)} & set(step.purposes)
    for launch in step.launches[step.forward :]:
        for name in launch.operands:
            if name in made_by:
                need(made_by[name])
        backward.append(launch)
    step.launches[step.forward :] = backward


def _blocks(step: Step) -> list[_Block]:
    """The forward part; a layer in place, or in the launch before, belongs to the one that it follows."""
    blocks: list[_Block] = []
    ends = [*(before for before, _ in step.layers[1:]), step.forward]
    for (first, output), end in zip(step.layers, ends, strict=True):
        if blocks and (first == end or output == blocks[-1].output):
            first = blocks.pop().first
        blocks.append(_Block(output, first, end))
    return blocks


def sharing(steps: Iterable[Step], sizes: Mapping[str, int]) -> list[list[str]]:
    """Transient buffers of one purpose that are never in use at the same time, the largest of each first.

    A buffer is in use from the first launch of the forward part that names it to the last, and likewise in
    the backward part. ``sizes`` are in any unit. The largest are placed first, each with the first
    group that it can share with.
    """
    used: dict[str, list[tuple[int, int]]] = {}
    purposes: dict[str, str] = {}
    offset = 0
    for step in steps:
        purposes |= {name: step.purposes[name] for name in step.transient if name in sizes}
        for start, end in ((0, step.forward), (step.forward, len(step.launches))):
            for name, span in _spans(step.launches[start:end], step.transient).items():
                used.setdefault(name, []).append((offset + start + span[0], offset + start + span[1]))
        offset += len(step.launches)
    groups: list[list[str]] = []
    for name in sorted(purposes, key=lambda name: (-sizes[name], name)):
        fits = (
            group
            for group in groups
            if purposes[group[0]] == purposes[name]
            and not any(a <= d and c <= b for a, b in used[name] for other in group for c, d in used[other])
        )
        group = next(fits, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def _spans(launches: Sequence[Launch], names: Collection[str]) -> dict[str, tuple[int, int]]:
    """The first and the last launch that names each buffer."""
    spans: dict[str, tuple[int, int]] = {}
    for number, launch in enumerate(launches):
        for name in launch.operands:
            if name in names:
                spans[name] = spans.get(name, (number, number))[0], number
    return spans
