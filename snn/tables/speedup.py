"""Table V: how many times faster than the reference, by strategy and data set."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.tables.ratio import against_reference


def build(frame: pd.DataFrame, paper: Mapping[str, Any], margin: float) -> pd.DataFrame:
    """One row a strategy and data set: reference time / strategy time with its interval, beside the paper's.

    ``margin`` is how far from 1 a speedup may lie and still be called the same.
    """
    ratios = against_reference(frame, ["dataset"], margin)
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
            "runs": frame["runs"],
            "status": frame["status"],
            "machine": ratios["machine"],
            "device": frame["device"],
            "backend": frame["backend"],
        }
    )
