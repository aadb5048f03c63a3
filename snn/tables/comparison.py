"""Two sets of results side by side: what was measured on both sides, divided only where it may be."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.bootstrap import compare
from snn.analysis.grouping import is_empty
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import speedup

_ASIDE = ("device", "protocol", "strategy")
_NAMES = ["dataset", "strategy", "network", "kernel"]


def keyed(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``snn.analysis.frame`` by what was trained and how: the cell less device and protocol.

    Of a cell under two protocols the one with the most runs stays. ``reference`` holds the key of the
    reference at the same point.
    """
    points = [_key(row, _ASIDE) for row in frame.to_dict("records")]
    frame = frame.assign(point=points, key=[_key(row, _ASIDE[:2]) for row in frame.to_dict("records")])
    return frame.sort_values("runs").drop_duplicates("key", keep="last").set_index("key").sort_index()


def build(a: pd.DataFrame, b: pd.DataFrame, verdicts: Thresholds) -> pd.DataFrame:
    """One row a cell that both of these frames of ``keyed`` hold.

    ``ratio`` is A's mean time over B's, with its 95% interval; ``comparison`` says whether B is faster, or
    that the times may not be divided, and ``why``. ``speedup_a`` and ``speedup_b`` are each side's own, over
    its own reference: these may stand beside each other whatever the devices. ``agreement``: ``agree`` where
    the interval of their quotient is within the threshold ``same`` of 1, ``differ`` where it does not reach
    1, else ``unclear``; the quotient's interval takes the two for independent.
    """
    both = [key for key in a.index if key in b.index]
    left, right = a.loc[both], b.loc[both]
    ratios = speedup(left, right, verdicts)
    own = {
        side: _own_speedups(all_, rows, verdicts) for side, all_, rows in (("a", a, left), ("b", b, right))
    }
    table = left[_NAMES].copy()
    for name in _further(left):
        table[name] = left[name]
    for side, rows in (("a", left), ("b", right)):
        table[f"{side}_s"], table[f"{side}_std_s"] = rows["mean_s"], rows["std_s"]
    for name, column in (("ratio", "speedup"), ("ratio_low", "speedup_low"), ("ratio_high", "speedup_high")):
        table[name] = ratios[column]
    table["comparison"], table["why"] = ratios["comparison"], ratios["why"]
    for side, found in own.items():
        table[f"speedup_{side}"] = found["speedup"]
        table[f"speedup_{side}_low"], table[f"speedup_{side}_high"] = (
            found["speedup_low"],
            found["speedup_high"],
        )
    table["agreement"] = [_agreement(x, y, verdicts) for x, y in zip(*map(_rows, own.values()), strict=True)]
    for name in ("device", "commit", "started"):
        table[f"{name}_a"], table[f"{name}_b"] = left[name], right[name]
    return table.reset_index(drop=True)


def _key(row: Mapping[str, Any], aside: tuple[str, ...]) -> str:
    """What a row is of, without the sections ``aside``; a key that it does not have is none."""
    cell = {
        key: value
        for key, value in row.items()
        if (key in _OF_KERNEL or key.partition(".")[0] in _SECTIONS - set(aside))
        and "." in key
        and not is_empty(value)
    }
    return json.dumps(cell | {"precision": row["precision"]}, sort_keys=True, default=str)


_SECTIONS = {"dataset", "network", "strategy", "training", *_ASIDE}
_OF_KERNEL = ("kernel.name", "kernel.block", "kernel.work")


def _further(rows: pd.DataFrame) -> list[str]:
    """Settings that tell rows apart which the four names do not."""
    if not rows.duplicated(_NAMES).any():
        return []
    named = ("network.hidden", "dataset.name", "strategy.name", "kernel.name")
    sections = {*_SECTIONS, "kernel"} - {"device", "protocol"}
    settings = ["precision", *(c for c in rows if "." in c and c.split(".")[0] in sections)]
    return [c for c in settings if c not in named and rows[c].astype(str).nunique() > 1]


def _own_speedups(frame: pd.DataFrame, rows: pd.DataFrame, verdicts: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference of its own side at the same point; NaN where there is none."""
    references = frame[frame["strategy"] == "reference"].drop_duplicates("point").set_index("point")
    known = rows[rows["point"].isin(references.index)]
    found = speedup(references.loc[known["point"]], known, verdicts) if len(known) else pd.DataFrame()
    found = found.reindex(rows.index, columns=["speedup", "speedup_low", "speedup_high"])
    found[(rows["strategy"] == "reference").to_numpy()] = 1.0
    return found


def _agreement(a: Mapping[str, float], b: Mapping[str, float], verdicts: Thresholds) -> str:
    values = [one[key] for one in (a, b) for key in ("speedup", "speedup_low", "speedup_high")]
    if not np.isfinite(values).all():
        return ""
    (x, x_low, x_high), (y, y_low, y_high) = (np.log(values[i : i + 3]) for i in (0, 3))
    low = x - y - np.hypot(x - x_low, y_high - y)
    high = x - y + np.hypot(x_high - x, y - y_low)
    word = compare(np.exp(low), np.exp(high), verdicts["same"])
    return {"same": "agree", "unclear": "unclear"}.get(word, "differ")


def _rows(frame: pd.DataFrame) -> list[dict[str, float]]:
    return frame.to_dict("records")
