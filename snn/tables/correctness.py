"""Table III: every strategy trains the same network to the same error."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.tables.outcome import outcome
from snn.verdict import Thresholds

TITLE = "All strategies reach the same error (Table III)"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a strategy on the small data set: mean final MSE, and its distance from the paper's.

    Strategies that the paper does not have are held against its reference: the error must be the same.
    """
    published = [paper.get(strategy, {}) for strategy in frame["strategy"]]
    expected = pd.Series([row.get("mse", paper["reference"]["mse"]) for row in published])
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "final_mse": frame["final_mse"],
            "paper_mse": expected,
            "relative_difference": (frame["final_mse"] - expected).abs() / expected,
            "mean_s": frame["mean_s"],
            "std_s": frame["std_s"],
            "paper_s": pd.Series([row.get("seconds") for row in published], dtype=float),
            "runs": frame["runs"],
            **outcome(frame),
            "machine": frame["machine"],
            "device": frame["device"],
            "backend": frame["backend"],
        }
    )
