"""Table III: the final error of every strategy and kernel, beside the paper's."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.draws import mean, named
from snn.analysis.grouping import settings, texts
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.verdicts import AGREES, DIFFERS

TITLE = "All strategies reach the same error (Table III)"
_PAPER = range(1, 11)
"""The draws of initial weights that the paper's errors are the mean over."""


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per strategy and kernel that trains what the reference does: mean final MSE and the paper's.

    An error is the mean over ``draws`` of initial weights. Over the paper's ten it is compared with
    ``paper_mse``, the paper's reference for a strategy that the paper does not have; over others with
    ``reference_mse``, that of the reference here over the same draws. It ``agrees`` where the relative
    difference is at most ``tolerance``, otherwise it ``differs``. ``note`` says of other draws what the error
    was compared with, if with anything.
    """
    frame = _same_training(frame)
    published = [paper.get(strategy, {}) for strategy in frame["strategy"]]
    compared = [_compared(row, paper, _reference(frame)) for _, row in frame.iterrows()]
    errors = pd.DataFrame(compared, frame.index, columns=["paper_mse", "reference_mse", "note"])
    errors = errors.astype({"paper_mse": float, "reference_mse": float})
    expected = errors["paper_mse"].fillna(errors["reference_mse"])
    difference = (frame["final_loss"] - expected).abs() / expected
    reordered = frame["on_host"] | (frame["kernel"] != "naive")
    tolerance = reordered.map({True: thresholds["agrees_reordered"], False: thresholds["agrees"]})
    words = np.where(difference <= tolerance, AGREES, DIFFERS)
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "kernel": frame["kernel"],
            "final_mse": frame["final_loss"],
            "draws": frame["draws"],
            "paper_mse": errors["paper_mse"],
            "reference_mse": errors["reference_mse"],
            "relative_difference": difference,
            "tolerance": tolerance,
            "agreement": np.where(difference.notna(), words, ""),
            "note": errors["note"],
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


def _reference(frame: pd.DataFrame) -> pd.Series:
    """The row of the reference with the most runs, with the paper's kernel where it has several."""
    rows = frame[frame["strategy"] == "reference"]
    with_paper_kernel = rows[rows["kernel"] == "naive"]
    rows = with_paper_kernel if len(with_paper_kernel) else rows
    return rows.loc[rows["runs"].idxmax()]


def _compared(
    row: pd.Series, paper: Mapping[str, Any], reference: pd.Series
) -> tuple[float | None, float | None, str]:
    """The paper's error or else the reference's over the draws of this row, and a note on other draws."""
    draws, known = set(row["draw_losses"]), reference["draw_losses"]
    if not draws:
        return None, None, ""
    if draws == set(_PAPER):
        return paper.get(row["strategy"], {}).get("mse", paper["reference"]["mse"]), None, ""
    other = f"the mean over draws {row['draws']} of initial weights, not the paper's {named(_PAPER)}"
    if row.name == reference.name:
        return None, None, f"{other}; the reference that others are compared with"
    if draws <= set(known):
        return None, mean(known, draws), f"{other}; compared with the reference over the same draws"
    return None, None, f"{other}; the reference was not trained from all of these"
