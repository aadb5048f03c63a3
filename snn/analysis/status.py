"""How a row's measurement ended, by which plan, and why there is no time where there is none."""

import pandas as pd


def outcome(frame: pd.DataFrame) -> pd.DataFrame:
    """``status`` of each row of ``snn.analysis.frame``; ``plan``, how a strategy trained that chooses, where
    any row has one; and ``reason``, where any has no time."""
    found = frame[["status"]]
    if (frame["plan"] != "").any():
        found = found.join(frame["plan"])
    untimed = frame["mean_s"].isna()
    return found.assign(reason=frame["reason"].where(untimed, "")) if untimed.any() else found
