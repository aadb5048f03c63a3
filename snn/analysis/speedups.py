"""Speedups: the ratio of two mean times, with its bootstrap interval and a verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.bootstrap import ratio_interval, speedup_verdict
from snn.analysis.comparability import reason
from snn.analysis.machine_state import Thresholds
from snn.analysis.verdicts import BASELINE, NOT_COMPARABLE, QUIET, REFERENCE

SPEEDUP = ("speedup", "speedup_ci_low", "speedup_ci_high")
"""The columns of a ratio and its 95% interval."""

_COLUMNS = (*SPEEDUP, "verdict", "note")


def speedup(baseline: pd.DataFrame, other: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """Row by row ``speedup`` = baseline mean_s / other mean_s, its 95% interval, a verdict and a note.

    ``verdict`` is ``same`` where the interval lies within the threshold of that name of 1, ``faster`` or
    ``slower`` where it excludes 1, otherwise ``not significant``; or ``not comparable``, without a ratio, for
    the reason in ``note``. ``machine`` joins the states of both machines.
    """
    rows = zip(baseline.to_dict("records"), other.to_dict("records"), strict=True)
    compared = [_compared(a, b, thresholds) for a, b in rows]
    table = pd.DataFrame(compared, index=other.index, columns=list(_COLUMNS))
    return table.assign(machine=joint(QUIET, baseline["machine"], other["machine"]))


def _compared(
    baseline: Mapping[str, Any], other: Mapping[str, Any], thresholds: Thresholds
) -> dict[str, Any]:
    note = reason(baseline, other, thresholds)
    low, high = (np.nan, np.nan) if note else _interval(baseline["rounds"], other["rounds"])
    no_ratio = note or not (baseline["mean_s"] and other["mean_s"])
    return {
        "speedup": np.nan if no_ratio else baseline["mean_s"] / other["mean_s"],
        "speedup_ci_low": low,
        "speedup_ci_high": high,
        "verdict": NOT_COMPARABLE if note else speedup_verdict(low, high, thresholds["same"]),
        "note": note,
    }


def over_reference(frame: pd.DataFrame, keys: list[str], thresholds: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference that has the same ``keys``; the reference's own is 1."""
    points = frame[keys].apply(tuple, axis=1).tolist()
    references = {
        point: i
        for i, (point, name) in enumerate(zip(points, frame["strategy"], strict=True))
        if name == "reference"
    }
    return over_baselines(frame, [references[point] for point in points], thresholds)


def over_baselines(frame: pd.DataFrame, baselines: Sequence[int], thresholds: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the row whose number is in ``baselines``, -1 for none.

    A baseline's own speedup is 1, its verdict ``reference`` where it is that, otherwise ``baseline``. A row
    without a time has neither.
    """
    numbers = np.array(baselines)
    compared = (numbers >= 0) & frame["mean_s"].notna().to_numpy()
    table = speedup(frame.iloc[numbers[compared]], frame[compared], thresholds).reindex(frame.index)
    table = table.astype(dict.fromkeys(("verdict", "note", "machine"), object))
    table.loc[~compared, ["verdict", "note"]] = ""
    table.loc[~compared, "machine"] = frame.loc[~compared, "machine"]
    itself = (numbers == np.arange(len(frame))) & frame["mean_s"].notna().to_numpy()
    table.loc[itself, list(SPEEDUP)] = 1.0
    table.loc[itself, "verdict"] = (frame["strategy"] == "reference").map({True: REFERENCE, False: BASELINE})
    return table


def joint(best: str, *columns: pd.Series) -> list[str]:
    """Row by row ``best`` (``ok``, ``quiet``) where no column holds another word, otherwise the others."""
    rows = zip(*columns, strict=True)
    return [
        ", ".join(dict.fromkeys(word for cell in row for word in cell.split(", ") if word not in ("", best)))
        or best
        for row in rows
    ]


def _interval(baseline: list[list[float]], other: list[list[float]]) -> tuple[float, float]:
    if not all(any(rounds) for rounds in (baseline, other)):  # a side without runs
        return np.nan, np.nan
    return ratio_interval(baseline, other)
