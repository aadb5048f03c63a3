"""Table V: how many times faster than the reference, by strategy and data set."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.tables.ratio import against_reference


def build(frame: pd.DataFrame, paper: Mapping[str, Any]) -> pd.DataFrame:
    """One row a strategy and data set: reference time / strategy time, beside the paper's."""
    ratios = against_reference(frame, ["dataset"])
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
            "speedup_std": ratios["speedup_std"],
            "runs": frame["runs"],
            "status": frame["status"],
            "machine": ratios["machine"],
            "device": frame["device"],
            "backend": frame["backend"],
        }
    )
