"""Speedups: one mean over another, with the interval that the runs of both give it."""

import numpy as np
import pandas as pd

from snn.statistics import compare, ratio_interval


def speedup(base: pd.DataFrame, other: pd.DataFrame, margin: float) -> pd.DataFrame:
    """Row by row ``speedup`` = base mean_s / other mean_s, its 95% interval, and a word.

    ``speedup_low`` and ``speedup_high`` are the bootstrap interval of the ratio; ``comparison`` is ``same``
    where it lies within ``margin`` of 1, ``faster`` or ``slower`` where it does not reach 1, else
    ``unclear``. ``machine`` joins the verdicts on both machines.
    """
    intervals = [_interval(a, b) for a, b in zip(base["rounds"], other["rounds"], strict=True)]
    return pd.DataFrame(
        {
            "speedup": base["mean_s"].to_numpy(float) / other["mean_s"].to_numpy(float),
            "speedup_low": [low for low, _ in intervals],
            "speedup_high": [high for _, high in intervals],
            "comparison": [compare(low, high, margin) for low, high in intervals],
            "machine": joint("quiet", base["machine"], other["machine"]),
        },
        index=other.index,
    )


def against_reference(frame: pd.DataFrame, keys: list[str], margin: float) -> pd.DataFrame:
    """Each row's speedup over the reference that has the same ``keys``; the reference is 1 to itself."""
    is_reference = frame["strategy"] == "reference"
    reference = frame[is_reference].set_index(keys)
    base = reference.loc[pd.MultiIndex.from_frame(frame[keys]) if len(keys) > 1 else frame[keys[0]]]
    table = speedup(base, frame, margin)
    table.loc[is_reference, ["speedup_low", "speedup_high"]] = 1.0
    table.loc[is_reference, "comparison"] = "reference"
    return table


def joint(best: str, *columns: pd.Series) -> list[str]:
    """Row by row ``best`` (``ok``, ``quiet``) where all columns say so, otherwise what else they say."""
    rows = zip(*columns, strict=True)
    return [
        ", ".join(dict.fromkeys(word for cell in row for word in cell.split(", ") if word != best)) or best
        for row in rows
    ]


def _interval(base: list[list[float]], other: list[list[float]]) -> tuple[float, float]:
    if not all(any(one) for one in (base, other)):  # a side without runs
        return np.nan, np.nan
    return ratio_interval(base, other)
