"""Table IV: seconds of one training, by strategy and data set."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome

TITLE = "Training time by strategy and data set (Table IV)"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per strategy and data set: mean and standard deviation of the runs, beside the paper's mean."""
    measured = ["strategy", "dataset", "mean_s", "std_s", "runs", "stopped_by"]
    table = frame[measured].join(outcome(frame))
    table = table.join(frame[["machine", "machine_note", "device", "backend"]])
    published = [
        paper.get(strategy, {}).get(dataset)
        for strategy, dataset in zip(frame["strategy"], frame["dataset"], strict=True)
    ]
    table.insert(5, "paper_s", pd.Series(published, dtype=float))
    return table
