"""Many trainings of one network side by side in one launch: seeds, initialisers, learning rates."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.glibc_random import GlibcRandom
from snn.models.network import Network, draw_weights
from snn.strategies.common.single_launch import OneLaunch


@dataclass(frozen=True)
class Member:
    """One training: the ``start``-th draw of weights, from 1, of a seed's stream, and its learning rate."""

    seed: int
    init: str
    learning_rate: float
    start: int


class Ensemble(OneLaunch):
    """A member for every combination of what is listed and, of each, for so many ``starts``; where nothing is
    listed it is the cell's. Start k has the weights of any other strategy's run k, so ten starts are the
    protocol's ten runs. All share the data on the device; each has weights and a learning rate of its own.

    A run is one launch of all members, always the same ones: what a protocol repeats is the launch, for its
    time. A member is trained by the kernel of ``persistent``, a cluster of blocks: by fewer of them than one
    network alone where all are done sooner so. Members that the device cannot hold at the same time follow
    when others are done, in the same launch. Where a network has no such kernel (several hidden layers, an
    older GPU) there is nothing to be had side by side: ``setup`` raises Unsupported with the reason. On a CPU
    NumPy trains one after the other.
    """

    side_by_side = True

    def __init__(
        self,
        backend: Backend,
        starts: int = 1,
        seeds: Sequence[int] = (),
        initialisers: Sequence[str] = (),
        learning_rates: Sequence[float] = (),
    ) -> None:
        super().__init__(backend)
        self._starts, self._seeds = starts, seeds
        self._initialisers, self._learning_rates = initialisers, learning_rates
        self._rate = float("nan")  # the cell's, from ``setup`` on

    def setup(
        self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, learning_rate: float
    ) -> None:
        self._rate = learning_rate
        any_seed = 1  # the cell's is told with ``starts``, and decides no rate
        self.rates = [member.learning_rate for member in self._of(network, any_seed)]
        super().setup(network, X, Y, batch_size, learning_rate)

    def starts(self, network: Network, seed: int) -> Iterator[list[np.ndarray]]:
        """The same weights for every run: those of all members, one after the other."""
        streams = {
            (one, init): _draws(replace(network, init=init), one, self._starts)
            for one in self._seeds or [seed]
            for init in self._initialisers or [network.init]
        }
        members = self._of(network, seed)
        yield from itertools.repeat(
            [W for member in members for W in streams[member.seed, member.init][member.start - 1]]
        )

    def members(self, seed: int) -> list[dict[str, Any]]:
        return [asdict(member) for member in self._of(self.network, seed)]

    def _of(self, network: Network, seed: int) -> list[Member]:
        every = itertools.product(
            self._seeds or [seed],
            self._initialisers or [network.init],
            self._learning_rates or [self._rate],
            range(1, self._starts + 1),
        )
        return [Member(*one) for one in every]


def _draws(network: Network, seed: int, count: int) -> list[list[np.ndarray]]:
    """The weights of the first runs from a seed."""
    random = GlibcRandom(seed)
    return [draw_weights(network, random) for _ in range(count)]
