"""How a row's measurement ended, and why there is no time where there is none."""

import pandas as pd


def outcome(frame: pd.DataFrame) -> pd.DataFrame:
    """``status`` of each row of ``snn.tables.frame``; and ``reason``, where any row has no time."""
    untimed = frame["mean_s"].isna()
    if not untimed.any():
        return frame[["status"]]
    return frame[["status"]].assign(reason=frame["reason"].where(untimed, ""))
