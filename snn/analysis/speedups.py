"""Speedups: one mean over another, with the interval that the runs of both give it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.bootstrap import compare, ratio_interval
from snn.analysis.comparability import reason
from snn.analysis.machine_state import Thresholds

NOT_COMPARABLE = "not comparable"
_COLUMNS = ("speedup", "speedup_low", "speedup_high", "comparison", "why")


def speedup(base: pd.DataFrame, other: pd.DataFrame, verdicts: Thresholds) -> pd.DataFrame:
    """Row by row ``speedup`` = base mean_s / other mean_s, its 95% interval, and a word.

    ``speedup_low`` and ``speedup_high`` are the bootstrap interval of the ratio; ``comparison`` is ``same``
    where it lies within the threshold of that name of 1, ``faster`` or ``slower`` where it does not reach 1,
    else ``unclear``; or ``not comparable``, without a ratio, for the reason in ``why``. ``machine`` joins the
    verdicts on both machines.
    """
    rows = zip(base.to_dict("records"), other.to_dict("records"), strict=True)
    compared = [_compared(a, b, verdicts) for a, b in rows]
    table = pd.DataFrame(compared, index=other.index, columns=list(_COLUMNS))
    return table.assign(machine=joint("quiet", base["machine"], other["machine"]))


def _compared(base: Mapping[str, Any], other: Mapping[str, Any], verdicts: Thresholds) -> dict[str, Any]:
    why = reason(base, other, verdicts)
    low, high = (np.nan, np.nan) if why else _interval(base["rounds"], other["rounds"])
    ratio = np.nan if why or not (base["mean_s"] and other["mean_s"]) else base["mean_s"] / other["mean_s"]
    return {
        "speedup": ratio,
        "speedup_low": low,
        "speedup_high": high,
        "comparison": NOT_COMPARABLE if why else compare(low, high, verdicts["same"]),
        "why": why,
    }


def against_reference(frame: pd.DataFrame, keys: list[str], verdicts: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference that has the same ``keys``; the reference is 1 to itself."""
    points = frame[keys].apply(tuple, axis=1).tolist()
    references = {
        point: i
        for i, (point, name) in enumerate(zip(points, frame["strategy"], strict=True))
        if name == "reference"
    }
    return against(frame, [references[point] for point in points], verdicts)


def against(frame: pd.DataFrame, bases: Sequence[int], verdicts: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the row of the number in ``bases``, which is 1 to itself; none over -1.

    ``comparison`` calls a base ``reference`` where it is that, else ``base``; a row without a time has none.
    """
    numbers = np.array(bases)
    held = (numbers >= 0) & frame["mean_s"].notna().to_numpy()
    table = speedup(frame.iloc[numbers[held]], frame[held], verdicts).reindex(frame.index)
    table = table.astype(dict.fromkeys(("comparison", "why", "machine"), object))
    table.loc[~held, ["comparison", "why"]] = ""
    table.loc[~held, "machine"] = frame.loc[~held, "machine"]
    itself = (numbers == np.arange(len(frame))) & frame["mean_s"].notna().to_numpy()
    table.loc[itself, ["speedup", "speedup_low", "speedup_high"]] = 1.0
    table.loc[itself, "comparison"] = (frame["strategy"] == "reference").map(
        {True: "reference", False: "base"}
    )
    return table


def joint(best: str, *columns: pd.Series) -> list[str]:
    """Row by row ``best`` (``ok``, ``quiet``) where no column says another word, otherwise these words."""
    rows = zip(*columns, strict=True)
    return [
        ", ".join(dict.fromkeys(word for cell in row for word in cell.split(", ") if word not in ("", best)))
        or best
        for row in rows
    ]


def _interval(base: list[list[float]], other: list[list[float]]) -> tuple[float, float]:
    if not all(any(one) for one in (base, other)):  # a side without runs
        return np.nan, np.nan
    return ratio_interval(base, other)
