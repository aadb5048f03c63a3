"""Table V: how many times faster than the reference, by strategy and data set."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import against_reference
from snn.analysis.status import outcome

TITLE = "Speedup over the reference (Table V)"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a strategy and data set: reference time / strategy time, its interval, and the paper's."""
    ratios = against_reference(frame, ["dataset"], verdicts)
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
            "speedup_low": ratios["speedup_low"],
            "speedup_high": ratios["speedup_high"],
            "comparison": ratios["comparison"],
            "why": ratios["why"],
            "runs": frame["runs"],
            **outcome(frame),
            "machine": ratios["machine"],
            "device": frame["device"],
            "backend": frame["backend"],
        }
    )
