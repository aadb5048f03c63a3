"""Speedups: the ratio of two mean times, with its interval, a verdict and a note."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.comparability import COMPARED, common_rounds, reason
from snn.analysis.intervals import Ratio, ratio, ratio_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.power import is_wide
from snn.analysis.verdicts import BASELINE, NOT_COMPARABLE, QUIET, REFERENCE

SPEEDUP = ("speedup", "speedup_ci_low", "speedup_ci_high")
"""The columns of a ratio and its 95% interval."""

_COLUMNS = (*SPEEDUP, "verdict", "note")


def speedup(baseline: pd.DataFrame, other: pd.DataFrame, thresholds: Thresholds) -> pd.DataFrame:
    """Row by row ``speedup`` = baseline mean_s / other mean_s, its 95% interval, a verdict and a note.

    ``verdict`` is ``same`` where the interval lies within the threshold of that name of 1, ``faster`` or
    ``slower`` where it excludes 1, otherwise ``not significant``, as all but large ratios of a single round
    are; or ``not comparable``, without a ratio, for the reason in ``note``. Elsewhere ``note`` warns of an
    interval that is wide, or of a single round.
    ``machine`` joins the states of both machines.
    """
    both = (side[[key for key in COMPARED if key in side]].to_dict("records") for side in (baseline, other))
    compared = [_compared(a, b, thresholds) for a, b in zip(*both, strict=True)]
    table = pd.DataFrame(compared, index=other.index, columns=list(_COLUMNS))
    return table.assign(machine=joint(QUIET, baseline["machine"], other["machine"]))


def _compared(
    baseline: Mapping[str, Any], other: Mapping[str, Any], thresholds: Thresholds
) -> dict[str, Any]:
    note = reason(baseline, other, thresholds)
    if note:
        return dict.fromkeys(SPEEDUP, np.nan) | {"verdict": NOT_COMPARABLE, "note": note}
    found = ratio(*common_rounds(baseline, other))
    return {
        **dict(zip(SPEEDUP, found[:3], strict=True)),
        "verdict": ratio_verdict(found, thresholds["same"], thresholds["one_round"]),
        "note": warning(found, thresholds),
    }


MORE_ROUNDS = "snn more-rounds adds rounds"


def warning(found: Ratio, thresholds: Thresholds) -> str:
    """What makes an interval less useful than it looks, and the command that helps; empty where nothing."""
    if not found.rounds:
        return "there is no round in which both have a time"
    if found.rounds < 2:
        beyond = f"only a factor beyond {thresholds['one_round']:g} is significant"
        what = f"one round: how much rounds differ is unknown, so {beyond}"
    elif is_wide(found, thresholds):
        what = f"wide interval, above a factor of {thresholds['wide']:g}"
    else:
        return ""
    return f"{what}; {MORE_ROUNDS}"


def over_reference(frame: pd.DataFrame, keys: list[str], thresholds: Thresholds) -> pd.DataFrame:
    """Each row's speedup over the reference that has the same ``keys``, if there is one; its own is 1."""
    points = frame[keys].apply(tuple, axis=1).tolist()
    references = {
        point: i
        for i, (point, name) in enumerate(zip(points, frame["strategy"], strict=True))
        if name == "reference"
    }
    return over_baselines(frame, [references.get(point, -1) for point in points], thresholds)


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
    table.loc[itself, "note"] = ""
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
