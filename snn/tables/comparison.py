"""Two sets of results side by side: the cells in both, with ratios of those that are comparable."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.grouping import is_empty, settings, work_of
from snn.analysis.intervals import speedup_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import EVIDENCE, SPEEDUP, common_rounds, over_baselines, speedup
from snn.analysis.verdicts import AGREES, DIFFERS, INCONCLUSIVE, NOT_SIGNIFICANT, SAME
from snn.config.cell import NONE
from snn.records.origin import gpus_alone
from snn.tables.table import reference

NEIGHBOUR = "protocol.neighbour"
_NAMES = ["dataset", "strategy", "network", "kernel"]
_SHOWN_BY_NAMES = ("network.hidden", "network.layers", "dataset.name", "strategy.name", "kernel.name")
_TRAINED = ("dataset", "network", "training")


def keyed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``snn.analysis.frame``, indexed by the cell without device and protocol.

    If a cell was measured with two protocols, the row with more runs is kept; rows with a busy neighbour are
    dropped. ``point`` is the key without the strategy, by which a row finds its reference.
    """
    if NEIGHBOUR in frame:
        frame = frame[frame[NEIGHBOUR].fillna(NONE) == NONE]
    listed = frame.to_dict("records")
    points, keys = (
        [
            json.dumps(work_of(row, sections) | {"precision": row["precision"]}, sort_keys=True, default=str)
            for row in listed
        ]
        for sections in ((*_TRAINED, "kernel"), (*_TRAINED, "strategy", "kernel"))
    )
    frame = frame.assign(point=points, key=keys)
    return frame.sort_values("runs").drop_duplicates("key", keep="last").set_index("key").sort_index()


def build(a: pd.DataFrame, b: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell that both of these frames of ``keyed`` hold.

    ``agreement`` follows from the interval of the quotient of both speedups, assumed to be independent.
    """
    both = [key for key in a.index if key in b.index]
    sides = {"a": a.loc[both], "b": b.loc[both]}
    # The two were measured on different occasions.
    apart = {side: rows.assign(origins=rows["origins"].map(gpus_alone)) for side, rows in sides.items()}
    ratios = speedup(apart["a"], apart["b"], thresholds)
    own = [
        over_baselines(rows, reference("point")(rows), thresholds).loc[both, list(SPEEDUP)] for rows in (a, b)
    ]
    triples = zip(*(rows.to_dict("records") for rows in (*apart.values(), ratios)), strict=True)
    times = {"s": "mean_s", "std_s": "std_s"}
    columns = {
        **{f"{side}_{name}": rows[of] for side, rows in sides.items() for name, of in times.items()},
        **_renamed(ratios, "ratio"),
        **{name: ratios[name] for name in (*EVIDENCE, "verdict")},
        "note": ["; ".join(filter(None, (_left_out(*three), three[2]["note"]))) for three in triples],
        **_renamed(own[0], "speedup_a"),
        **_renamed(own[1], "speedup_b"),
        "agreement": _agreement(own[0], own[1], thresholds["same"]),
        **{
            f"{name}_{side}": rows[name]
            for name in ("device", "commit", "started")
            for side, rows in sides.items()
        },
    }
    names = [*_NAMES, *_further_settings(sides["a"])]
    return sides["a"][names].assign(**columns).reset_index(drop=True)


def _renamed(found: pd.DataFrame, name: str) -> dict[str, pd.Series]:
    return {one.replace("speedup", name): found[one] for one in SPEEDUP}


def _left_out(a: Mapping[str, Any], b: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Note that a ratio uses fewer rounds than the two times in its row; empty if it uses all."""
    common = sum(map(all, zip(*common_rounds(a, b), strict=False)))
    if is_empty(found[SPEEDUP[0]]) or common == max(sum(map(bool, row["rounds"])) for row in (a, b)):
        return ""
    return f"rounds are unequal: the ratio is of {common} in common, the times are of all"


def _further_settings(rows: pd.DataFrame) -> list[str]:
    """The settings in which rows with the same four names differ."""
    if not rows.duplicated(_NAMES).any():
        return []
    names = ["precision", *settings(rows, (*_TRAINED, "strategy", "kernel"))]
    return [c for c in names if c not in _SHOWN_BY_NAMES and rows[c].astype(str).nunique() > 1]


def _agreement(a: pd.DataFrame, b: pd.DataFrame, same: float) -> list[str]:
    """The word for each pair of speedups; empty if one of them has no interval."""
    (x, x_low, x_high), (y, y_low, y_high) = (np.log(side.to_numpy(float).T) for side in (a, b))
    low = np.exp(x - y - np.hypot(x - x_low, y_high - y))
    high = np.exp(x - y + np.hypot(x_high - x, y - y_low))
    words = {SAME: AGREES, NOT_SIGNIFICANT: INCONCLUSIVE}
    return [
        words.get(speedup_verdict(*ends, same), DIFFERS) if np.isfinite(ends).all() else ""
        for ends in zip(low, high, strict=True)
    ]
