"""Where the time of a run goes, by strategy and data set, and what the prices of its calls foretell."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.tables.ratio import against_reference
from snn.verdict import Thresholds

PART = "part."
TITLE = "Where the time of one training goes, and what the calls' prices foretell"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a strategy and data set: seconds of one run by part, their sum, the predicted and the measured.

    The parts come from an untimed pass with a timer around every call. ``predicted_s`` is what the strategy's
    calls cost alone, in their order, and the host arithmetic of the *reference*: nothing of a strategy's
    own time is in its prediction but its list of calls. ``predicted_speedup`` stands beside ``speedup``.
    """
    parts = [name for name in frame if name.startswith(PART)]
    table = frame[["strategy", "dataset", *parts]].rename(
        columns={name: name.removeprefix(PART) + "_s" for name in parts}
    )
    table["attributed_s"] = frame[parts].sum(axis=1, min_count=1)
    table["mean_s"], table["std_s"] = frame["mean_s"], frame["std_s"]
    reference = frame[frame["strategy"] == "reference"].set_index("dataset")
    calls = frame.get("predicted_calls_s", pd.Series(float("nan"), frame.index))
    arithmetic = reference.get(f"{PART}host_arithmetic", pd.Series(float("nan"), reference.index))
    table["predicted_s"] = calls + frame["dataset"].map(arithmetic)
    ratios = against_reference(frame, ["dataset"], verdicts["same"])
    table["speedup"] = ratios["speedup"]
    base = table[frame["strategy"] == "reference"].set_index("dataset")["predicted_s"]
    table["predicted_speedup"] = frame["dataset"].map(base) / table["predicted_s"]
    return table.join(frame[["status", "machine", "device", "backend"]])
