"""Two sets of results side by side: the cells measured in both, divided only where they are comparable."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.grouping import is_empty, settings
from snn.analysis.intervals import speedup_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import SPEEDUP, common_rounds, over_baselines, speedup
from snn.analysis.verdicts import AGREES, DIFFERS, INCONCLUSIVE, NOT_SIGNIFICANT, SAME
from snn.config.cell import NONE
from snn.tables.table import reference

NEIGHBOUR = "protocol.neighbour"
_NAMES = ["dataset", "strategy", "network", "kernel"]
_SHOWN_BY_NAMES = ("network.hidden", "network.layers", "dataset.name", "strategy.name", "kernel.name")
_TRAINED = ("dataset", "network", "training")
_OF_KERNEL = ("kernel.name", "kernel.block", "kernel.work")


def keyed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``snn.analysis.frame`` indexed by what was trained and how: the cell without device and
    protocol.

    Of a cell measured with two protocols the one with more runs is kept, and none that was measured beside a
    neighbour. ``point`` is the key without the strategy, by which a row finds its reference.
    """
    if NEIGHBOUR in frame:
        frame = frame[frame[NEIGHBOUR].fillna(NONE) == NONE]
    listed = frame.to_dict("records")
    points, keys = ([_key(row, of) for row in listed] for of in (_TRAINED, (*_TRAINED, "strategy")))
    frame = frame.assign(point=points, key=keys)
    return frame.sort_values("runs").drop_duplicates("key", keep="last").set_index("key").sort_index()


def build(a: pd.DataFrame, b: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell that both of these frames of ``keyed`` hold.

    ``ratio`` is of the rounds in common, by their numbers. ``speedup_a`` and ``speedup_b`` are each side's
    own, over its own reference: these may be compared whatever the devices. ``agreement`` is ``agrees`` if
    the interval of their quotient, which takes the two for independent, is within the threshold ``same`` of
    1, ``differs`` if it excludes 1, otherwise ``inconclusive``.
    """
    both = [key for key in a.index if key in b.index]
    left, right = a.loc[both], b.loc[both]
    ratios = speedup(left, right, thresholds)
    speedups = [
        over_baselines(rows, reference("point")(rows), thresholds).loc[both, list(SPEEDUP)] for rows in (a, b)
    ]
    triples = zip(*(rows.to_dict("records") for rows in (left, right, ratios)), strict=True)
    pairs = zip(*(own.to_dict("records") for own in speedups), strict=True)
    return (
        left[[*_NAMES, *_further_settings(left)]]
        .assign(
            **_times("a", left), **_times("b", right), **_named(ratios, "ratio"), verdict=ratios["verdict"]
        )
        .assign(note=["; ".join(filter(None, (_left_out(*three), three[2]["note"]))) for three in triples])
        .assign(**_named(speedups[0], "speedup_a"), **_named(speedups[1], "speedup_b"))
        .assign(agreement=[_agreement(x, y, thresholds) for x, y in pairs])
        .assign(
            **{
                f"{name}_{side}": rows[name]
                for name in ("device", "commit", "started")
                for side, rows in (("a", left), ("b", right))
            }
        )
        .reset_index(drop=True)
    )


def _times(side: str, rows: pd.DataFrame) -> dict[str, pd.Series]:
    return {f"{side}_s": rows["mean_s"], f"{side}_std_s": rows["std_s"]}


def _named(found: pd.DataFrame, name: str) -> dict[str, pd.Series]:
    return {one.replace("speedup", name): found[one] for one in SPEEDUP}


def _left_out(a: Mapping[str, Any], b: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """That a ratio found is of fewer rounds than the two times beside it; empty where it is of as many."""
    common = sum(map(all, zip(*common_rounds(a, b), strict=False)))
    if is_empty(found[SPEEDUP[0]]) or common == max(sum(map(bool, row["rounds"])) for row in (a, b)):
        return ""
    return f"rounds are unequal: the ratio is of {common} in common, the times are of all"


def _key(row: Mapping[str, Any], sections: Sequence[str]) -> str:
    """A row's kernel, precision and settings in these sections, as JSON; one that is empty is left out."""
    cell = {
        key: value
        for key, value in row.items()
        if (key in _OF_KERNEL or ("." in key and key.partition(".")[0] in sections)) and not is_empty(value)
    }
    return json.dumps(cell | {"precision": row["precision"]}, sort_keys=True, default=str)


def _further_settings(rows: pd.DataFrame) -> list[str]:
    """The settings in which rows differ that have the same four names."""
    if not rows.duplicated(_NAMES).any():
        return []
    names = ["precision", *settings(rows, (*_TRAINED, "strategy", "kernel"))]
    return [c for c in names if c not in _SHOWN_BY_NAMES and rows[c].astype(str).nunique() > 1]


def _agreement(a: Mapping[str, float], b: Mapping[str, float], thresholds: Thresholds) -> str:
    values = [side[key] for side in (a, b) for key in SPEEDUP]
    if not np.isfinite(values).all():
        return ""
    (x, x_low, x_high), (y, y_low, y_high) = (np.log(values[i : i + 3]) for i in (0, 3))
    low = x - y - np.hypot(x - x_low, y_high - y)
    high = x - y + np.hypot(x_high - x, y - y_low)
    verdict = speedup_verdict(np.exp(low), np.exp(high), thresholds["same"])
    return {SAME: AGREES, NOT_SIGNIFICANT: INCONCLUSIVE}.get(verdict, DIFFERS)
