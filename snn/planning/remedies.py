"""Changes of a cell's settings that may save device memory, and what each costs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from snn.backends.base import Backend
from snn.backends.ops import OPS
from snn.config import groups
from snn.config.cell import Cell
from snn.errors import ConfigError
from snn.models import remedies
from snn.models.layers import parse
from snn.models.network import Network
from snn.models.remedies import AGAIN
from snn.models.step import LAYERS_AT_ONCE, Launch
from snn.models.storage import BF16
from snn.models.training_step import batch_steps, micro_batch
from snn.profiling.memory import size
from snn.strategies import factory

USUAL = (2, 4, 8)
"""Micro-batches that are always tried, to show how far they help."""

_MOST = 64
"""Micro-batches of a batch: with more, a step would be little but launches."""

_COSTS = {
    "h2d_bytes": "more copied in",
    "d2h_bytes": "more copied out",
    "launches": "more launches",
    "mallocs": "more allocations",
}


class Change(NamedTuple):
    """Settings to change in a cell, as ``python -m snn`` takes them, and the cell with them."""

    settings: str
    cell: Cell


def changed(cell: Cell, accumulate: int | None = None, recompute: Sequence[int] = ()) -> Change:
    """The cell with micro-batches, the update order that they need, and layers to compute again."""
    settings, network, training = [], dict[str, Any](), dict[str, Any]()
    if accumulate is not None:
        training["accumulate"] = accumulate
        settings.append(f"training.accumulate={accumulate}")
        if cell["network"]["update_order"] == "sequential":
            network["update_order"] = "simultaneous"
            settings.append("network.update_order=simultaneous")
    if recompute:
        network["recompute"] = list(recompute)
        settings.append(f"network.recompute=[{','.join(map(str, recompute))}]")
    return Change(" ".join(settings), cell.replace(network=network, training=training))


def micro_batches(cell: Cell) -> list[int]:
    """The numbers of micro-batches that the cell's batch may be divided into, beyond its own number."""
    batch, own = cell.batch_size, cell.accumulate
    try:
        remedies.check_divisible(own + 1, list(map(parse, cell["network"].get("layers", ()))))
    except ConfigError:
        return []
    return [n for n in range(own + 1, min(batch, _MOST) + 1) if batch % n == 0]


def layers_again(cell: Cell) -> list[list[int]]:
    """Ways to choose the layers that are computed again: every second kept, every third, ...

    With n equal layers, memory is lowest if about sqrt(n) of them are kept (Chen et al., 2016).
    """
    known = remedies.choices(cell["network"])
    ways = [known[::2], known[1::2]]
    for apart in sorted({3, round(math.sqrt(len(known))) + 1}):
        ways.append([layer for i, layer in enumerate(known, 1) if i % apart])
    return [way for way in ways if len(way) > 1 and way != cell.recompute]


def choices(cell: Cell, group: str) -> list[Change]:
    """The cell with each other kernel of its precision, or each other strategy that can be proposed."""

    def fits(choice: Mapping[str, Any]) -> bool:
        if group == "kernel":
            return cell.precision in choice["precisions"]
        kind = factory.class_of(choice)
        return not (kind.own_runtime or kind.on_host or kind.diagnostic or kind.several_devices)

    others = [groups.load(group, name) for name in groups.names(group) if name != cell[group]["name"]]
    return [Change(f"{group}={choice['name']}", cell | {group: choice}) for choice in others if fits(choice)]


def rounded(cell: Cell) -> Change | None:
    """The cell in bf16, with another kernel if its own lacks bf16; None if it is in bf16 already."""
    if cell.precision == "bf16":
        return None
    precise = cell.replace(precision=groups.load("precision", "bf16"))
    if "bf16" in cell["kernel"]["precisions"]:
        return Change("precision=bf16", precise)
    kernels = [groups.load("kernel", name) for name in groups.names("kernel")]
    kernel = next(one for one in kernels if one["source"] and "bf16" in one["precisions"])
    return Change(f"precision=bf16 kernel={kernel['name']}", precise | {"kernel": kernel})


def halved(cell: Cell) -> Change | None:
    """The cell with activations in 16 bits; None if they already are."""
    if "storage" in cell["training"]:
        return None
    return Change("training.storage=bf16", cell.replace(training={"storage": BF16}))


HALVED = "no more launches, but activations and error signals are rounded to 8 significant bits"
ROUNDED = "every array is held as before: only a product's inputs are rounded to bf16, on the chip"


def steps(before: int, after: int) -> str:
    """Cost of changing an epoch's number of steps, in words."""
    many = "as many steps" if before == after else f"{after / before:.3g} times as many steps"
    return f"{many} an epoch, and other weights"


def calls(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Calls and bytes that a step needs in addition, in words; both arguments are ``Needs.per_step``."""
    said = []
    for key, words in _COSTS.items():
        more = after.get(key, 0) - before.get(key, 0)
        if more > 0:
            said.append(f"{size(more) if key.endswith('bytes') else more} {words}")
    return f"per step {', '.join(said)}" if said else "nothing more per step"


def work(before: Network, after: Network, batch_size: int, backend: Backend) -> str:
    """Additional work of a device-driven strategy's step, in words."""
    own, others = (_launches(network, batch_size, backend) for network in (before, after))
    more, again = (len(others) - len(own), _flop(others, again=True) - _flop(own, again=True))
    said = [f"per step {more} more launches" if more > 0 else "no more launches per step"]
    if again > 0:
        said.append(f"{again / 1e6:.4g} MFLOP again, {again / _flop(own):.0%} of a step's")
    if before.update_order != after.update_order:
        said.append("and other weights, since no error passes through updated ones")
    return ", ".join(said)


def _launches(network: Network, batch_size: int, backend: Backend) -> list[Launch]:
    kernel = backend.fused, backend.pretransposed, backend.convolves
    steps = batch_steps(network, batch_size, micro_batch(network, batch_size), 0.0, *kernel)
    return [launch for step in steps for launch in step.launches]


def _flop(launches: Sequence[Launch], again: bool = False) -> float:
    """The floating-point operations of the products and convolutions of a step, or of those done again."""
    return sum(_of_launch(one) for one in launches if not again or one.label.endswith(AGAIN))


def _of_launch(launch: Launch) -> float:
    op, numbers = OPS[launch.op], launch.numbers
    if op.is_product:
        return 2 * math.prod(numbers[:3])
    if op.is_grouped:
        sizes, rows = numbers[: 4 * LAYERS_AT_ONCE], numbers[4 * LAYERS_AT_ONCE]
        return 2 * rows * sum(m * n for m, n in zip(sizes[::4], sizes[1::4], strict=True))
    if not op.is_convolution:
        return 0
    rows, channels, height, width, filters, kernel, padding = numbers[:7]
    outputs = rows * filters * math.prod(side + 2 * padding - kernel + 1 for side in (height, width))
    return 2 * outputs * channels * kernel**2
