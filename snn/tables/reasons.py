"""Why one cell is faster than another, in a sentence: from their ledgers and the parts of their time."""

from collections.abc import Mapping, Sequence

import pandas as pd

from snn.tables.attribution import LABELS, PART
from snn.tables.page import is_empty

_COUNTS = {
    "mallocs": "device allocations",
    "pool_allocs": "allocations from a pool",
    "managed_allocs": "managed allocations",
    "host_allocs": "page-locked allocations",
    "pageable_allocs": "pageable allocations",
    "h2d_copies": "copies in",
    "d2h_copies": "copies out",
    "streams_created": "streams made",
    "launches": "launches",
    "graph_launches": "graph launches",
    "synchronizations": "synchronisations",
}
_MOST = 3
_LEAST_SHARE = 0.05
"""Of the difference between two times: what is less is not worth a word."""


def reason(winner: pd.Series, reference: pd.Series | None) -> str:
    """What the winner does less often than the reference, and in which parts its time is shorter or longer.

    Counts are exact, of one training. Seconds come from untimed passes: they add up to about the difference.
    """
    if reference is None:
        return "there is no reference to hold it against"
    if winner["strategy"] == "reference" and winner["kernel"] == reference["kernel"]:
        return "nothing that was tried is faster than the reference"
    said = [*_counts(winner, reference), *_seconds(winner, reference)]
    return "; ".join(said) or "neither the ledgers nor the parts of the time tell them apart"


def _counts(winner: pd.Series, reference: pd.Series) -> list[str]:
    """``50,000 device allocations and 100,000 copies in fewer``, ``100 graph launches more``."""
    changes = _changes(winner, reference, {f"ledger.{key}": name for key, name in _COUNTS.items()})
    found = []
    for sign, word in ((1, "fewer"), (-1, "more")):
        named = [f"{count:,} {name}" for name, count in _largest(changes, sign)]
        found += [f"{_listed(named)} {word}"] if named else []
    return found


def _seconds(winner: pd.Series, reference: pd.Series) -> list[str]:
    """``saves about 3.1 s of device allocation and free``, ``spends about 0.2 s more on kernels``."""
    changes = _changes(winner, reference, {PART + part: name for part, name in LABELS.items()})
    least = _LEAST_SHARE * abs(reference["mean_s"] - winner["mean_s"])
    found = []
    for sign, said, of in ((1, "saves", "of"), (-1, "spends", "more on")):
        named = [f"{seconds:.2g} s {of} {name}" for name, seconds in _largest(changes, sign, least)]
        found += [f"{said} about {_listed(named)}"] if named else []
    return found


def _changes(winner: pd.Series, reference: pd.Series, names: Mapping[str, str]) -> dict[str, float]:
    """By name, how much more of it the reference has; of what both have on record."""
    known = [key for key in names if not any(is_empty(row.get(key)) for row in (winner, reference))]
    return {names[key]: reference[key] - winner[key] for key in known}


def _largest(changes: Mapping[str, float], sign: int, least: float = 0) -> list[tuple[str, float]]:
    """The largest of those with this sign, without it."""
    found = [(name, sign * change) for name, change in changes.items() if sign * change > least]
    return sorted(found, key=lambda one: -one[1])[:_MOST]


def _listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
