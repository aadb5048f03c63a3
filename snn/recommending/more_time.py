"""Which candidates get how many more rounds, in the time that is left."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import pandas as pd

from snn.analysis.intervals import Ratio, ratio, ratio_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import common_rounds, rounds_needed
from snn.analysis.verdicts import NOT_SIGNIFICANT
from snn.tables import overview

LEAST, MOST = 3, 30
"""Rounds of a candidate. The interval of two is of no use: Student's factor is 12.7."""


def wanted(cells: pd.DataFrame, contender: float, first: int, thresholds: Thresholds) -> dict[str, int]:
    """The rounds that the cells of one training should have in all, by name; only of those that lack some.

    ``cells`` is a frame of ``snn.analysis.frame``. A candidate is out if its mean time is more than
    ``contender`` times the shortest and the interval of their ratio agrees, and after one round only if that
    round can tell them apart. All others have the same number of rounds, so that their means are of the same
    passes of the workflow: ``first``, and from then on those that the least clear of their comparisons with
    the fastest asks for, at most doubled at once. So have candidates that may not be compared yet, because
    the machine changed, unless their mean time is as far behind. The reference has ``first`` rounds even if
    it is out. A candidate without an interval gets a second round.
    """
    competing = overview.ranked(cells, thresholds)
    if len(competing) < 2 or competing[0]["status"] != "ok":
        return {}
    best, *others = competing
    ratios = {other["cell"]: ratio(*common_rounds(other, best)) for other in others}
    field = {name: found for name, found in ratios.items() if not _is_out(found, contender, thresholds)}
    wants = {
        other["cell"]: first if other["strategy"] == "reference" else 2
        for other in others
        if other["strategy"] == "reference" or isnan(ratios[other["cell"]].low)
    }
    apart = _not_compared(cells, competing, contender)
    asked = max((_rounds(found, first, thresholds) for found in field.values()), default=0)
    if any(len(row["rounds"]) < first for row in apart):
        asked = max(asked, first)
    if asked:
        wants |= dict.fromkeys((best["cell"], *field, *(row["cell"] for row in apart)), asked)
    wants[best["cell"]] = max(wants.values(), default=0)
    return {
        row["cell"]: min(wants[row["cell"]], MOST)
        for row in (*competing, *apart)
        if len(row["rounds"]) < min(wants.get(row["cell"], 0), MOST)
    }


def _not_compared(
    cells: pd.DataFrame, competing: Sequence[Mapping[str, Any]], contender: float
) -> list[dict[str, Any]]:
    """The rows that ended well and are near to the shortest mean time, but may not be compared."""
    compared = cells["cell"].isin([row["cell"] for row in competing])
    near = cells["mean_s"] <= contender * competing[0]["mean_s"]
    return cells[~compared & near & (cells["status"] == "ok")].to_dict("records")


def _is_out(found: Ratio, contender: float, thresholds: Thresholds) -> bool:
    """Whether a candidate's time over the shortest one shows that it is not the fastest; for want of runs it
    may have no interval."""
    verdict = ratio_verdict(found, thresholds["same"], thresholds["one_round"])
    return found.value > contender and (isnan(found.low) or verdict != NOT_SIGNIFICANT)


def _rounds(found: Ratio, first: int, thresholds: Thresholds) -> int:
    """The rounds that one comparison asks for; 0 where it is settled."""
    if found.rounds < 2:
        return first
    needed = rounds_needed(found, thresholds)
    return min(needed, max(2 * found.rounds, first)) if needed > found.rounds else 0


def fitting(
    wants: Mapping[str, int], has: Mapping[str, int], seconds: Mapping[str, float], left: float
) -> dict[str, int]:
    """As many of the rounds that cells want as fit into the seconds left; empty where too few do.

    ``has`` are the rounds that there are, ``seconds`` what one takes. All cells are cut at the same number of
    rounds, since only common rounds are compared; not below ``LEAST``.
    """
    wanted_most = max(wants.values(), default=0)
    for most in range(wanted_most, min(LEAST, wanted_most) - 1, -1):
        given = {name: min(count, most) for name, count in wants.items() if min(count, most) > has[name]}
        cost = sum((count - has[name]) * seconds[name] for name, count in given.items())
        if given and cost <= left:
            return given
    return {}


def seconds_per_round(records: Mapping[str, Sequence[Mapping[str, Any]]], outside: float) -> dict[str, float]:
    """The mean seconds of a round's job by name of cell: what its records say, and what is outside of it."""
    return {
        name: outside + sum(record["provenance"]["elapsed_seconds"] for record in of_cell) / len(of_cell)
        for name, of_cell in records.items()
    }
