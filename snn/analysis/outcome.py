"""How a row of a table ended, with which launch plan, and why it has no time."""

import pandas as pd


def outcome(frame: pd.DataFrame) -> pd.DataFrame:
    """``status`` of each row of ``snn.analysis.frame``; ``plan`` of strategies that choose one, where any row
    has one; and ``reason`` of rows without a time, where there are any."""
    columns = frame[["status"]]
    if (frame["plan"] != "").any():
        columns = columns.join(frame["plan"])
    untimed = frame["mean_s"].isna()
    return columns.assign(reason=frame["reason"].where(untimed, "")) if untimed.any() else columns
