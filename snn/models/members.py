"""Networks that train side by side: what distinguishes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from snn.models.network import Network
from snn.models.row_order import philox

LISTS = ("seeds", "initialisers", "learning_rates", "weight_decays", "folds", "bootstraps")
"""Keys of a strategy by which its members differ, besides ``starts``."""

_OF_CELL: Mapping[str, Any] = {
    "weight_decays": [],
    "folds": 0,
    "bootstraps": 0,
    "images": False,
    "on_host": False,
}
"""Keys of a strategy that cells name only if they differ from these values."""

_DRAWS = 1  # the last word of a counter of Philox: those of row orders have 0


def settled(strategy: Mapping[str, Any]) -> dict[str, Any]:
    """A cell's section ``strategy`` without keys that have their values of before there was a choice."""
    return {key: value for key, value in strategy.items() if key not in _OF_CELL or value != _OF_CELL[key]}


@dataclass(frozen=True)
class Member:
    """One of the networks. ``weight_decay`` None: the optimiser's own; ``fold`` and ``bootstrap`` from 1.

    ``start``: its initial weights are this draw from the seed, from 1.
    """

    seed: int
    init: str
    learning_rate: float
    start: int
    weight_decay: float | None = None
    fold: int | None = None
    bootstrap: int | None = None

    def rows(self, count: int, folds: int) -> np.ndarray | None:
        """The numbers of the rows that it trains on, of this many, int32; None for all in their order.

        Every ``folds``-th row is of the same fold; all folds have the same size, so that up to ``folds`` - 1
        rows at the end are in none. A bootstrap sample has ``count`` rows, drawn with replacement.
        """
        if self.fold:
            is_left_out = np.arange(count) % folds == self.fold - 1
            is_left_out[count // folds * folds :] = False
            return np.flatnonzero(~is_left_out).astype(np.int32)
        if self.bootstrap:
            places = np.arange(count, dtype=np.uint32)
            zeros = np.zeros_like(places)
            drawn, *_ = philox((places, zeros, zeros, zeros + np.uint32(_DRAWS)), (self.bootstrap, 0))
            return (drawn.astype(np.uint64) * np.uint64(count) >> np.uint64(32)).astype(np.int32)
        return None

    def left_out(self, count: int, folds: int) -> np.ndarray | None:
        """The rows that it does not train on; None if it trains on all."""
        rows = self.rows(count, folds)
        return None if rows is None else np.setdiff1d(np.arange(count), rows)

    @property
    def record(self) -> dict[str, Any]:
        """Its entry in a record."""
        return {key: value for key, value in vars(self).items() if value is not None}

    def network(self, network: Network) -> Network:
        """The network as this member trains it, in as many steps as on all rows."""
        changed: dict[str, Any] = {"dropout_seed": self.seed}
        if self.weight_decay is not None:
            optimizer = network.optimizer
            changed["optimizer"] = type(optimizer)(**vars(optimizer) | {"weight_decay": self.weight_decay})
        if network.order_seed is not None:
            changed["order_seed"] = self.seed
        return replace(network, **changed)


def on_rows(network: Network, count: int, own: int, batch: int) -> Network:
    """A network that is trained on all ``count`` rows, as it is on ``own`` rows for as many epochs."""
    epochs = network.run_steps // -(-count // batch)
    return replace(network, run_steps=epochs * -(-own // batch))


class MemberArrays(NamedTuple):
    """Arrays of what differs between members, apart from their initial weights, in the members' order.

    ``rate`` (members,) float32; ``weight_decay`` (members,) float32, None for the optimiser's own;
    ``order_seed`` (members,) uint32, None for the order of the file; ``rows`` (members, n) int32, the rows
    that each trains on, None for all.
    """

    rate: np.ndarray
    weight_decay: np.ndarray | None
    order_seed: np.ndarray | None
    rows: np.ndarray | None


def arrays_of(members: Sequence[Member], network: Network, count: int, folds: int) -> MemberArrays:
    """The arrays of members that train a network on ``count`` rows."""
    decays = [one.weight_decay for one in members if one.weight_decay is not None]
    rows = [numbers for one in members if (numbers := one.rows(count, folds)) is not None]
    return MemberArrays(
        np.array([one.learning_rate for one in members], np.float32),
        np.array(decays, np.float32) if decays else None,
        None if network.order_seed is None else np.array([one.seed for one in members], np.uint32),
        np.stack(rows) if rows else None,
    )
