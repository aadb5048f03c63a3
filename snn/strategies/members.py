"""Strategies that train many networks in a run."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from snn.backends.base import Backend
from snn.models.glibc_random import GlibcRandom
from snn.models.members import Member
from snn.models.network import Network, draw_weights
from snn.strategies.base import Strategy


class SideBySide(Strategy):
    """A strategy whose runs train members: every combination of the listed values, times ``starts``.

    An empty list means the cell's value. Start k has the initial weights that run k of any other strategy
    has, so ten starts are the protocol's ten runs. If rows are shuffled, a member's order follows from its
    seed. With ``folds``, each combination trains once without each fold of a cross-validation; with
    ``bootstraps``, on so many bootstrap samples of the rows. Every run trains the same members: the protocol
    repeats it to measure its time. Lists of weights hold one member's weights after the other's; if ``load``
    gets one network's weights, all members start from them.
    """

    side_by_side = True

    def __init__(
        self,
        backend: Backend,
        starts: int = 1,
        seeds: Sequence[int] = (),
        initialisers: Sequence[str] = (),
        learning_rates: Sequence[float] = (),
        weight_decays: Sequence[float] = (),
        folds: int = 0,
        bootstraps: int = 0,
    ) -> None:
        super().__init__(backend)
        self._starts, self._seeds, self._initialisers = starts, seeds, initialisers
        self._learning_rates, self._weight_decays = learning_rates, weight_decays
        self._folds, self._bootstraps = folds, bootstraps
        self._rate = float("nan")  # the cell's; set by ``setup``

    def starts(self, network: Network, seed: int) -> Iterator[list[np.ndarray]]:
        """Initial weights of all members, one after the other; the same for every run."""
        found: list[np.ndarray] = []
        for one in self._members(network, seed):
            draws = _draws(replace(network, init=one.init), one.seed, self._starts)
            found += draws[one.start - 1]
        yield from itertools.repeat(found)

    def members(self, seed: int) -> list[dict[str, Any]]:
        return [member.record for member in self._members(self.network, seed)]

    def described(self, network: Network, rate: float) -> list[Member]:
        """The members, for ``setup``: without listed seeds, theirs is the seed of the row order, or 1."""
        self.network, self._rate = network, rate
        return self._members(network, network.order_seed or network.dropout_seed or 1)

    def each(self, given: list[np.ndarray], members: int) -> list[list[np.ndarray]]:
        """The parameters of each member in a list of one network's or of all members'."""
        count = len(self.network.parameters)
        every = given * members if len(given) == count else given
        return [every[i : i + count] for i in range(0, len(every), count)]

    def _members(self, network: Network, seed: int) -> list[Member]:
        """The members, given the cell's network and seed for what is not listed."""
        decays: Sequence[float | None] = self._weight_decays or [None]
        folds: Sequence[int | None] = range(1, self._folds + 1) or [None]
        bootstraps: Sequence[int | None] = range(1, self._bootstraps + 1) or [None]
        return [
            Member(seed, init, rate, start, decay, fold, bootstrap)
            for seed in self._seeds or [seed]
            for init in self._initialisers or [network.init]
            for rate in self._learning_rates or [self._rate]
            for decay in decays
            for fold in folds
            for bootstrap in bootstraps
            for start in range(1, self._starts + 1)
        ]


@lru_cache(maxsize=128)  # thousands of draws take seconds, and a cell's passes all begin with them
def _draws(network: Network, seed: int, count: int) -> list[list[np.ndarray]]:
    """The first draws of a network's initial weights from a seed."""
    random = GlibcRandom(seed)
    return [draw_weights(network, random) for _ in range(count)]
