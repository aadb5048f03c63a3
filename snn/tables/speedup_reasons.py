"""Why one cell is faster than another, in sentences: from the ledgers and time breakdowns of both."""

from collections.abc import Mapping, Sequence

import pandas as pd

from snn.analysis.grouping import is_empty
from snn.tables.attribution import LABELS, PART

_COUNTS = {
    "mallocs": "device allocations",
    "pool_allocs": "pool allocations",
    "managed_allocs": "managed allocations",
    "host_allocs": "pinned allocations",
    "pageable_allocs": "pageable allocations",
    "h2d_copies": "host-to-device copies",
    "d2h_copies": "device-to-host copies",
    "streams_created": "stream creations",
    "launches": "launches",
    "graph_launches": "graph launches",
    "synchronizations": "synchronizations",
}
_MOST = 3
_MIN_SHARE = 0.05
"""Changes below this share of the difference between the times, or of the largest change, are left out."""
_TOO_MUCH = 1.25
"""That instrumented passes differ by more than the runs is said beyond this many times their difference."""


def reason(winner: pd.Series, reference: pd.Series | None) -> str:
    """What the winner does less and more often than the reference, and in which parts the times differ.

    Counts are exact, per training. Seconds are of instrumented passes, so they add up to the difference only
    approximately.
    """
    if reference is None:
        return "There is no reference to compare it with."
    if winner["strategy"] == "reference" and winner["kernel"] == reference["kernel"]:
        return "No other strategy is faster than the reference."
    sentences = [_counts(winner, reference), _seconds(winner, reference)]
    if winner["kernel"] not in ("", reference["kernel"]):
        sentences.insert(0, f"It uses the kernel {winner['kernel']} instead of {reference['kernel']}.")
    sentences = [sentence for sentence in sentences if sentence]
    return " ".join(sentences) or "Neither the ledgers nor the time breakdowns explain the difference."


def _counts(winner: pd.Series, reference: pd.Series) -> str:
    """``Per training it makes 1,488 fewer device allocations, but 100 more graph launches.``"""
    changes = _changes(winner, reference, {f"ledger.{key}": name for key, name in _COUNTS.items()})
    smallest = _MIN_SHARE * max(map(abs, changes.values()), default=0)
    fewer = _listed([f"{count:,} fewer {name}" for name, count in _largest(changes, 1, smallest)])
    more = _listed([f"{count:,} more {name}" for name, count in _largest(changes, -1, smallest)])
    both = ", but ".join(filter(None, (fewer, more)))
    return f"Per training it makes {both}." if both else ""


def _seconds(winner: pd.Series, reference: pd.Series) -> str:
    """``It spends about 3.1 s less on host-to-device copies, but 0.2 s more on waits for kernels.``

    Nothing where the instrumented passes were longer: they explain no shorter run. Where they differ by
    more than the runs do, that is said.
    """
    changes = _changes(winner, reference, {PART + part: name for part, name in LABELS.items()})
    if sum(changes.values()) <= 0:
        return ""
    difference = abs(reference["mean_s"] - winner["mean_s"])
    smallest = _MIN_SHARE * difference
    less = _listed([f"{seconds:.2g} s less on {name}" for name, seconds in _largest(changes, 1, smallest)])
    more = _listed([f"{seconds:.2g} s more on {name}" for name, seconds in _largest(changes, -1, smallest)])
    both = ", but ".join(filter(None, (less, more)))
    too_much = sum(changes.values()) > _TOO_MUCH * difference
    passes = ", by instrumented passes, which differ by more than the runs" if too_much else ""
    return f"It spends about {both}{passes}." if both else ""


def _changes(winner: pd.Series, reference: pd.Series, names: Mapping[str, str]) -> dict[str, float]:
    """By name, how much more of it the reference has, of what both records hold."""
    known = [key for key in names if not any(is_empty(row.get(key)) for row in (winner, reference))]
    return {names[key]: reference[key] - winner[key] for key in known}


def _largest(changes: Mapping[str, float], sign: int, smallest: float) -> list[tuple[str, float]]:
    """The sizes of the largest changes of this sign, in descending order."""
    sizes = [(name, sign * change) for name, change in changes.items() if sign * change > smallest]
    return sorted(sizes, key=lambda change: -change[1])[:_MOST]


def _listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]])) if names else ""
