"""Random cells whose device memory is predicted and measured; shared by ``plan_accuracy.py`` and its test."""

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from snn.hardware import threads  # noqa: E402

threads.assign()

from snn.config import groups  # noqa: E402
from snn.config.compose import composed  # noqa: E402
from snn.errors import ConfigError, Unsupported  # noqa: E402
from snn.models import remedies  # noqa: E402
from snn.planning import gpus  # noqa: E402
from snn.planning.plan import predicted  # noqa: E402
from snn.strategies import factory  # noqa: E402

# So that a cell trains in a second or two on a GPU:
_MOST_BYTES = 4 << 30  # of its device memory
_MOST_PRODUCTS = 2e11  # multiplications of a perceptron's products in an epoch, forward
_MOST_BATCHES = 4
_MOST_TRIES = 100

MLP = ("dataset=large", "dataset.features=8", "dataset.rows=400000", "network.hidden=[512,512]")
CNN = ("dataset=patterns", "dataset.rows=30000", "network=layers", "network.loss=cross_entropy")
CONVOLVES = "network.layers=[conv2d 8 3, relu, maxpool2d 2, linear 10]"
NAIVE = groups.load("kernel", "naive")

CAPPED = (
    (*MLP, "strategy=graph", "kernel=tiled_fused"),
    (*MLP, "strategy=resident", "kernel=naive"),
    (*MLP, "strategy=pipelined", "kernel=tiled"),
    (*MLP, "strategy=reference"),
    (*MLP, "strategy=async_pool"),
    (*CNN, CONVOLVES, "strategy=resident", "kernel=naive"),
    (*CNN, CONVOLVES, "strategy=graph", "kernel=tiled_fused"),
)
"""The cells whose largest batch is tried out, but for the batch."""


class Ranges(NamedTuple):
    """The least and the most rows of a batch, widths of layers and filters of a convolution."""

    rows: tuple[int, int] = (1024, 1 << 16)
    images: tuple[int, int] = (32, 768)
    widths: tuple[int, int] = (64, 2048)
    filters: tuple[int, int] = (2, 24)


LARGE = Ranges()


@dataclass(frozen=True)
class Draw:
    """A random cell: its settings, as ``python -m snn`` takes them, and its predicted memory."""

    settings: tuple[str, ...]
    cell: Mapping[str, Any]
    predicted: Mapping[str, int]

    @property
    def words(self) -> str:
        return " ".join(self.settings)


def strategies() -> list[str]:
    """The strategies whose device memory can be predicted, which use one device."""
    chosen = {name: factory.class_of(groups.load("strategy", name)) for name in groups.names("strategy")}
    return [n for n, kind in chosen.items() if not (kind.own_runtime or kind.on_host or kind.several_devices)]


def draws(seed: int, gpu: gpus.Gpu, ranges: Ranges = LARGE) -> Iterator[Draw]:
    """Cells without end: every strategy in turn, with a network of layers every other time if it trains any.

    Cells that the strategy cannot train on the GPU, or that need more than 4 GiB, are drawn again.
    """
    chance, turn = random.Random(seed), 0
    while True:
        for name in strategies():
            strategy = factory.class_of(groups.load("strategy", name))
            for _ in range(_MOST_TRIES):
                draw_network = _layers if turn % 2 and strategy.any_network else _perceptron
                settings = (f"strategy={name}", *_kernel(chance), *draw_network(chance, ranges))
                cell = composed(settings, checks_memory=False)
                if strategy.remedies and chance.random() < 0.5:
                    settings = (*settings, *_remedies(chance, cell))
                    cell = composed(settings, checks_memory=False)
                try:
                    wanted = predicted(cell, gpu)
                except (Unsupported, ConfigError):
                    continue
                if sum(wanted.values()) <= _MOST_BYTES:
                    yield Draw(settings, cell, wanted)
                    break
        turn += 1


def _kernel(chance: random.Random) -> tuple[str, str]:
    name = chance.choice(groups.names("kernel"))
    precision = chance.choice(groups.load("kernel", name)["precisions"])
    return f"kernel={name}", f"precision={precision}"


def _perceptron(chance: random.Random, ranges: Ranges) -> tuple[str, ...]:
    features = _between(chance, 2, 512)
    hidden = [_between(chance, *ranges.widths) for _ in range(chance.randint(1, 3))]
    of_row = sum(a * b for a, b in pairwise((features, *hidden, 1)))
    least, most = ranges.rows
    most = min(most, int(_MOST_PRODUCTS / of_row / _MOST_BATCHES))
    return (
        "dataset=large",
        f"dataset.features={features}",
        *_rows(chance, _between(chance, least, most)),
        f"network.hidden={hidden}".replace(" ", ""),
    )


def _layers(chance: random.Random, ranges: Ranges) -> tuple[str, ...]:
    """One or two convolutions with or without a pooling behind them, and one or two linear layers."""
    layers = []
    for _ in range(chance.randint(1, 2)):
        side = chance.choice((3, 5))
        layers += [
            f"conv2d {_between(chance, *ranges.filters)} {side} {chance.choice((0, side // 2))}",
            "relu",
        ]
        layers += ["maxpool2d 2"] * chance.randint(0, 1)
    layers += [f"linear {_between(chance, *ranges.widths)}", "relu"] * chance.randint(0, 1)
    return (
        "dataset=patterns",
        "dataset.test_rows=1",
        *_rows(chance, _between(chance, *ranges.images)),
        "network=layers",
        "network.loss=cross_entropy",
        f"network.layers=[{', '.join((*layers, 'linear 10'))}]",
    )


def _remedies(chance: random.Random, cell: Mapping[str, Any]) -> tuple[str, ...]:
    """Micro-batches, and layers whose outputs are computed again."""
    known = remedies.choices(cell["network"])
    again = [number for number in known if chance.random() < 0.6]
    return (
        "network.update_order=simultaneous",
        f"network.recompute={again}".replace(" ", ""),
        f"training.accumulate={chance.choice((1, 2, 4))}",
    )


def _rows(chance: random.Random, batch: int) -> tuple[str, str]:
    """A few batches, each of them two or four micro-batches, the last mostly a smaller one."""
    batch = -(-batch // 4) * 4
    return f"dataset.rows={chance.randint(batch, _MOST_BATCHES * batch)}", f"training.batch_size={batch}"


def _between(chance: random.Random, least: int, most: int) -> int:
    """A whole number, as likely small as large on a log scale."""
    return round(least * (most / least) ** chance.random())
