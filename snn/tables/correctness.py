"""Table III: the final error of every strategy and kernel, beside the paper's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.grouping import settings, texts
from snn.analysis.machine_state import Thresholds
from snn.analysis.status import outcome
from snn.analysis.verdicts import AGREES, DIFFERS

TITLE = "All strategies reach the same error (Table III)"
_PAPER_RUNS = 10


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per strategy and kernel that trains what the reference does: mean final MSE and the paper's.

    Strategies that are not in the paper are compared with its reference: the error must be the same. It
    ``agrees`` where the relative difference is at most ``tolerance``, otherwise it ``differs``. The mean of
    more or fewer runs than the paper's ten is of other weights, so it has no verdict.
    """
    frame = _same_training(frame)
    published = [paper.get(strategy, {}) for strategy in frame["strategy"]]
    expected = pd.Series([row.get("mse", paper["reference"]["mse"]) for row in published])
    difference = (frame["final_loss"] - expected).abs() / expected
    reordered = frame["on_host"] | (frame["kernel"] != "naive")
    tolerance = reordered.map({True: thresholds["agrees_reordered"], False: thresholds["agrees"]})
    trained = frame["members"].where(frame["members"] > 1, frame["runs"])
    judged = (trained == _PAPER_RUNS) & difference.notna()
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "kernel": frame["kernel"],
            "final_mse": frame["final_loss"],
            "paper_mse": expected,
            "relative_difference": difference,
            "tolerance": tolerance,
            "agreement": np.where(judged, np.where(difference <= tolerance, AGREES, DIFFERS), ""),
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


def _same_training(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with the data, network and training settings of the first reference."""
    trained = texts(frame, settings(frame, ("dataset", "network", "training")))
    reference = trained[frame["strategy"] == "reference"].iloc[0]
    return frame[trained == reference].reset_index(drop=True)
