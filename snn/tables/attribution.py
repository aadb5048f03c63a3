"""Where the time of a run goes, by strategy and data set, and what the prices of its calls foretell."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import against_reference
from snn.analysis.status import outcome

PART = "part."
LABELS = {
    "allocation": "device allocation and free",
    "host_allocation": "host allocation and free",
    "streams": "streams made and destroyed",
    "copy_in": "copies in",
    "copy_out": "copies out",
    "launch": "launches",
    "kernels": "kernels",
    "waiting": "waiting for the device otherwise",
    "host_arithmetic": "host arithmetic",
}
"""The parts of a run's time: from what the paper's strategies remove to what they cannot."""

TITLE = "Where the time of one training goes, and what the calls' prices foretell"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a strategy and data set: seconds of one run by part, their sum, the predicted and the measured.

    The parts come from an untimed pass with a timer around every call. ``predicted_s`` is the host arithmetic
    and what the ledger's calls should take by their prices, which are measured without any training.
    ``predicted_speedup`` stands beside ``speedup``.
    """
    parts = [name for name in frame if name.startswith(PART)]
    table = frame[["strategy", "dataset", *parts]].rename(
        columns={name: name.removeprefix(PART) + "_s" for name in parts}
    )
    table["attributed_s"] = frame[parts].sum(axis=1, min_count=1)
    table["mean_s"], table["std_s"] = frame["mean_s"], frame["std_s"]
    unknown = pd.Series(float("nan"), frame.index)
    arithmetic = frame.get(f"{PART}host_arithmetic", unknown)
    table["predicted_s"] = frame.get("predicted_calls_s", unknown) + arithmetic
    ratios = against_reference(frame, ["dataset"], verdicts)
    table["speedup"] = ratios["speedup"]
    base = table[frame["strategy"] == "reference"].set_index("dataset")["predicted_s"]
    table["predicted_speedup"] = frame["dataset"].map(base) / table["predicted_s"]
    return table.join(outcome(frame)).join(frame[["machine", "device", "backend"]])
