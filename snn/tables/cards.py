"""Cards of one model as units: each row's mean speedup over the cards that measured it, and their spread."""

from collections.abc import Sequence
from itertools import combinations
from math import exp, hypot, log, sqrt
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from snn.analysis import frame
from snn.analysis.grouping import is_empty
from snn.analysis.intervals import speedup_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import SPEEDUP
from snn.analysis.verdicts import BASELINE, REFERENCE
from snn.measurement.student import student_quantile
from snn.tables.devices import Records, Row, by_work, what_rows_are_of, without_neighbours

TITLE = "Speedups over the cards of one model"

_LEAST_ROUNDS = 2
"""Rounds of a card below which its speedup says little: one round has no interval of how rounds differ."""


def build(devices: Records, thresholds: Thresholds) -> pd.DataFrame:
    """One row per model and work that two cards or more measured; empty where there is none.

    ``speedup`` is the geometric mean of the cards' own speedups. Its interval is Student's over cards, with
    one degree of freedom less than there are cards, and no narrower than their rounds allow: two cards may
    be near each other by chance. ``lowest`` and ``highest`` are those of single cards. ``pairs_apart`` of
    ``pairs`` of cards differ by more than their intervals over rounds allow.
    """
    models: dict[str, dict[str, dict[str, frame.Record]]] = {}
    for records in without_neighbours(devices).values():
        for place, record in records.items():
            of = record["provenance"]
            if of["device_uuid"]:
                models.setdefault(of["device"], {}).setdefault(of["device_uuid"], {})[place] = record
    measured = [by_work(cards, thresholds) for cards in models.values() if len(cards) > 1]
    counted = [{card: one for card, one in row.items() if _counts(one)} for rows in measured for row in rows]
    found = [row for row in counted if len(row) > 1]
    if not found:
        return pd.DataFrame()
    columns = [_over_cards(list(row.values()), thresholds) for row in found]
    return what_rows_are_of(found).join(pd.DataFrame(columns))


def _counts(one: Row) -> bool:
    is_own = one["verdict"] in (REFERENCE, BASELINE)
    return not is_own and not is_empty(one["speedup"]) and one["common_rounds"] >= _LEAST_ROUNDS


def _over_cards(cards: Sequence[Row], thresholds: Thresholds) -> dict[str, Any]:
    logs, count = [log(one["speedup"]) for one in cards], len(cards)
    over_cards = student_quantile(count - 1) * stdev(logs) / sqrt(count)
    mean, reach = fmean(logs), max(over_cards, _reach(cards) / count)
    low, high = exp(mean - reach), exp(mean + reach)
    pairs = [_is_apart(a, b) for a, b in combinations(cards, 2)]
    return {
        "baseline": cards[0]["baseline"],
        "cards": count,
        "rounds": sum(one["common_rounds"] for one in cards),
        **dict(zip(SPEEDUP, (exp(mean), low, high), strict=True)),
        "verdict": speedup_verdict(low, high, thresholds["same"]),
        "lowest": exp(min(logs)),
        "highest": exp(max(logs)),
        "pairs": len(pairs),
        "pairs_apart": sum(pairs),
        "device": cards[0]["device"],
    }


def _is_apart(a: Row, b: Row) -> bool:
    """Whether two speedups differ by more than the interval of their ratio, whose sides are independent."""
    return abs(log(a["speedup"] / b["speedup"])) > _reach((a, b))


def _reach(cards: Sequence[Row]) -> float:
    """Half the width of the interval of the sum of the cards' logarithms, by the rounds of each."""
    return hypot(*(log(one["speedup_ci_high"] / one["speedup"]) for one in cards))
