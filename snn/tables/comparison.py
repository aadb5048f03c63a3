"""Two sets of results side by side: the cells measured in both, divided only where they are comparable."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.grouping import is_empty
from snn.analysis.intervals import speedup_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import SPEEDUP, common_rounds, over_baselines, speedup
from snn.analysis.verdicts import AGREES, DIFFERS, INCONCLUSIVE, NOT_SIGNIFICANT, SAME
from snn.config.cell import NONE
from snn.tables.table import reference

NEIGHBOUR = "protocol.neighbour"
_ASIDE = ("device", "protocol", "strategy")
_NAMES = ["dataset", "strategy", "network", "kernel"]
_SHOWN_BY_NAMES = ("network.hidden", "network.layers", "dataset.name", "strategy.name", "kernel.name")
_SECTIONS = {"dataset", "network", "strategy", "training", *_ASIDE}
_OF_KERNEL = ("kernel.name", "kernel.block", "kernel.work")


def keyed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``snn.analysis.frame`` indexed by what was trained and how: the cell without device and
    protocol.

    Of a cell measured with two protocols the one with more runs is kept, and none that was measured beside a
    neighbour. ``point`` is the key without the strategy, by which a row finds its reference.
    """
    if NEIGHBOUR in frame:
        frame = frame[frame[NEIGHBOUR].fillna(NONE) == NONE]
    points = [_key(row, _ASIDE) for row in frame.to_dict("records")]
    frame = frame.assign(point=points, key=[_key(row, _ASIDE[:2]) for row in frame.to_dict("records")])
    return frame.sort_values("runs").drop_duplicates("key", keep="last").set_index("key").sort_index()


def build(a: pd.DataFrame, b: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell that both of these frames of ``keyed`` hold.

    ``ratio`` is A's mean time over B's, with its 95% interval; ``verdict`` says whether B is faster, or that
    the times may not be divided, for the reason in ``note``. The ratio is of the rounds in common, by their
    numbers; ``note`` says so where a side has others, of which its mean time is too. ``speedup_a`` and
    ``speedup_b`` are each side's own speedups over its own reference: these may be compared whatever the
    devices. ``agreement`` is ``agrees`` where the interval of their quotient is within the threshold ``same``
    of 1, ``differs`` where it excludes 1, otherwise ``inconclusive``; that interval takes the two for
    independent.
    """
    both = [key for key in a.index if key in b.index]
    sides = {"a": a.loc[both], "b": b.loc[both]}
    left, right = sides.values()
    ratios = speedup(left, right, thresholds)
    own = {
        side: over_baselines(rows, reference("point")(rows), thresholds).loc[both, list(SPEEDUP)]
        for side, rows in (("a", a), ("b", b))
    }
    table = left[[*_NAMES, *_further_settings(left)]].copy()
    for side, rows in sides.items():
        table[f"{side}_s"], table[f"{side}_std_s"] = rows["mean_s"], rows["std_s"]
    columns = {"ratio": ratios, **{f"speedup_{side}": speedups for side, speedups in own.items()}}
    for column, found in columns.items():
        for name in SPEEDUP:
            table[name.replace("speedup", column)] = found[name]
    triples = zip(*(rows.to_dict("records") for rows in (left, right, ratios)), strict=True)
    notes = ["; ".join(filter(None, (_left_out(*three), three[2]["note"]))) for three in triples]
    at = table.columns.get_loc("speedup_a")
    table.insert(at, "verdict", ratios["verdict"])
    table.insert(at + 1, "note", notes)
    pairs = zip(*(speedups.to_dict("records") for speedups in own.values()), strict=True)
    table["agreement"] = [_agreement(x, y, thresholds) for x, y in pairs]
    for name in ("device", "commit", "started"):
        table[f"{name}_a"], table[f"{name}_b"] = left[name], right[name]
    return table.reset_index(drop=True)


def _left_out(a: Mapping[str, Any], b: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """That a ratio found is of fewer rounds than the two times beside it; empty where it is of as many."""
    common = sum(map(all, zip(*common_rounds(a, b), strict=False)))
    if is_empty(found[SPEEDUP[0]]) or common == max(sum(map(bool, row["rounds"])) for row in (a, b)):
        return ""
    return f"rounds are unequal: the ratio is of {common} in common, the times are of all"


def _key(row: Mapping[str, Any], aside: tuple[str, ...]) -> str:
    """A row's settings without the sections ``aside``, as JSON; a setting that is empty is left out."""
    cell = {
        key: value
        for key, value in row.items()
        if (key in _OF_KERNEL or key.partition(".")[0] in _SECTIONS - set(aside))
        and "." in key
        and not is_empty(value)
    }
    return json.dumps(cell | {"precision": row["precision"]}, sort_keys=True, default=str)


def _further_settings(rows: pd.DataFrame) -> list[str]:
    """The settings in which rows differ that have the same four names."""
    if not rows.duplicated(_NAMES).any():
        return []
    sections = {*_SECTIONS, "kernel"} - {"device", "protocol"}
    settings = ["precision", *(c for c in rows if "." in c and c.split(".")[0] in sections)]
    return [c for c in settings if c not in _SHOWN_BY_NAMES and rows[c].astype(str).nunique() > 1]


def _agreement(a: Mapping[str, float], b: Mapping[str, float], thresholds: Thresholds) -> str:
    values = [side[key] for side in (a, b) for key in SPEEDUP]
    if not np.isfinite(values).all():
        return ""
    (x, x_low, x_high), (y, y_low, y_high) = (np.log(values[i : i + 3]) for i in (0, 3))
    low = x - y - np.hypot(x - x_low, y_high - y)
    high = x - y + np.hypot(x_high - x, y - y_low)
    verdict = speedup_verdict(np.exp(low), np.exp(high), thresholds["same"])
    return {SAME: AGREES, NOT_SIGNIFICANT: INCONCLUSIVE}.get(verdict, DIFFERS)
