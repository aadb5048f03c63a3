"""Table V: the speedup over the reference, by strategy and data set."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import over_reference

TITLE = "Speedup over the reference (Table V)"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per strategy and data set: the speedup, the paper's, its 95% interval and its verdict."""
    ratios = over_reference(frame, ["dataset"], thresholds)
    published = [
        paper.get(strategy, {}).get(dataset)
        for strategy, dataset in zip(frame["strategy"], frame["dataset"], strict=True)
    ]
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "dataset": frame["dataset"],
            "speedup": ratios["speedup"],
            "paper_speedup": pd.Series(published, dtype=float),
            "speedup_ci_low": ratios["speedup_ci_low"],
            "speedup_ci_high": ratios["speedup_ci_high"],
            "verdict": ratios["verdict"],
            "note": ratios["note"],
            "runs": frame["runs"],
            **outcome(frame),
            "machine": ratios["machine"],
            "device": frame["device"],
            "backend": frame["backend"],
        }
    )
