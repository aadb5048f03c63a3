"""Why one cell is faster than another, in a sentence: from their ledgers and the parts of their time."""

from collections.abc import Mapping, Sequence

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.tables.attribution import LABELS, PART

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
"""Of the difference between two times, or of the largest between two counts: less is not worth a word."""


def reason(winner: pd.Series, reference: pd.Series | None) -> str:
    """What the winner does less often than the reference, and in which parts its time is shorter or longer.

    Counts are exact, of one training. Seconds come from untimed passes: they add up to about the difference.
    """
    if reference is None:
        return "There is no reference to hold it against."
    if winner["strategy"] == "reference" and winner["kernel"] == reference["kernel"]:
        return "Nothing that was tried is faster than the reference."
    said = [_counts(winner, reference), _seconds(winner, reference)]
    if winner["kernel"] != reference["kernel"]:
        said.insert(0, f"Its products are those of the kernel {winner['kernel']}, not {reference['kernel']}")
    found = ". ".join(filter(None, said))
    return f"{found}." if found else "Neither the ledgers nor the parts of the time tell them apart."


def _counts(winner: pd.Series, reference: pd.Series) -> str:
    """``One training does without 50,000 device allocations and 99,800 copies in, but adds 100 launches``."""
    changes = _changes(winner, reference, {f"ledger.{key}": name for key, name in _COUNTS.items()})
    least = _LEAST_SHARE * max(map(abs, changes.values()), default=0)
    fewer, more = (
        _listed([f"{count:,} {name}" for name, count in _largest(changes, sign, least)]) for sign in (1, -1)
    )
    if fewer:
        return f"One training does without {fewer}" + (f", but adds {more}" if more else "")
    return f"One training adds {more}" if more else ""


def _seconds(winner: pd.Series, reference: pd.Series) -> str:
    """``It saves about 3.1 s of copies in, but spends about 0.2 s more on kernels``."""
    changes = _changes(winner, reference, {PART + part: name for part, name in LABELS.items()})
    least = _LEAST_SHARE * abs(reference["mean_s"] - winner["mean_s"])
    saved = _listed([f"{seconds:.2g} s of {name}" for name, seconds in _largest(changes, 1, least)])
    spent = _listed([f"{seconds:.2g} s more on {name}" for name, seconds in _largest(changes, -1, least)])
    if saved:
        return f"It saves about {saved}" + (f", but spends about {spent}" if spent else "")
    return f"It spends about {spent}" if spent else ""


def _changes(winner: pd.Series, reference: pd.Series, names: Mapping[str, str]) -> dict[str, float]:
    """By name, how much more of it the reference has; of what both have on record."""
    known = [key for key in names if not any(is_empty(row.get(key)) for row in (winner, reference))]
    return {names[key]: reference[key] - winner[key] for key in known}


def _largest(changes: Mapping[str, float], sign: int, least: float) -> list[tuple[str, float]]:
    """The largest of those with this sign, without it."""
    found = [(name, sign * change) for name, change in changes.items() if sign * change > least]
    return sorted(found, key=lambda one: -one[1])[:_MOST]


def _listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
