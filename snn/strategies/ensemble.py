"""Many trainings of one network side by side in one launch, over seeds, initialisers and learning rates."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.glibc_random import GlibcRandom
from snn.models.network import Network, draw_weights
from snn.strategies.common.one_launch import OneLaunch


@dataclass(frozen=True)
class Member:
    """One training: its learning rate, and the ``start``-th draw (from 1) of a seed as initial weights."""

    seed: int
    init: str
    learning_rate: float
    start: int


class Ensemble(OneLaunch):
    """Training of many members in one launch: every combination of the listed values, times ``starts``.

    An empty list stands for the value of the cell. Start k has the initial weights that run k of any other
    strategy has, so ten starts are the protocol's ten runs. All members share the data on the device; each
    has its own weights and learning rate.

    A run is one launch of all members, or several (``LaunchedTraining``). Every run trains the same members:
    the protocol repeats it to measure its time. A member is trained by the kernel of ``persistent`` for one
    hidden layer, with fewer blocks than a single network would get if that finishes all members sooner.
    Members that do not fit on the device at the same time follow in the same launch when others have
    finished. If a network has no such kernel (several hidden layers, an older GPU), ``setup`` raises
    Unsupported with the reason. On a CPU, NumPy trains the members one after the other.
    """

    side_by_side = True
    any_network = False

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
        self._rate = float("nan")  # the cell's; set by ``setup``

    def setup(self, network: Network, X: np.ndarray, Y: np.ndarray, batch_size: int, rate: float) -> None:
        self._rate = rate
        any_seed = 1  # rates do not depend on the seed, which ``starts`` is given
        self.rates = [member.learning_rate for member in self._members_for(network, any_seed)]
        super().setup(network, X, Y, batch_size, rate)

    def starts(self, network: Network, seed: int) -> Iterator[list[np.ndarray]]:
        """Initial weights of all members, one after the other; the same for every run."""
        streams = {
            (each_seed, init): _first_draws(replace(network, init=init), each_seed, self._starts)
            for each_seed in self._seeds or [seed]
            for init in self._initialisers or [network.init]
        }
        members = self._members_for(network, seed)
        yield from itertools.repeat(
            [W for member in members for W in streams[member.seed, member.init][member.start - 1]]
        )

    def members(self, seed: int) -> list[dict[str, Any]]:
        return [asdict(member) for member in self._members_for(self.network, seed)]

    def _members_for(self, network: Network, seed: int) -> list[Member]:
        """The members, given the cell's network and seed for what is not listed."""
        combinations = itertools.product(
            self._seeds or [seed],
            self._initialisers or [network.init],
            self._learning_rates or [self._rate],
            range(1, self._starts + 1),
        )
        return [Member(*combination) for combination in combinations]


def _first_draws(network: Network, seed: int, count: int) -> list[list[np.ndarray]]:
    """The initial weights of the first ``count`` runs of a seed."""
    random = GlibcRandom(seed)
    return [draw_weights(network, random) for _ in range(count)]
