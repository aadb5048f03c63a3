"""What a row holds of what was learned: scores on test rows, and the curve by epoch of a classification."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from snn.analysis.floors import steps

Run = Mapping[str, Any]

TESTED = ("test_accuracy", "test_s", "test_r2", "test_rmse")
"""Columns of what was tested, each with its standard deviation in another column."""

SCORES = ("test_accuracy", "test_r2", "test_rmse")
"""Those that say how well test rows are predicted."""


def beside_times(frame: pd.DataFrame) -> pd.DataFrame:
    """What was tested and, of classifications, ``step_us``, the microseconds per step of the mean time.

    ``test_accuracy`` is the mean over all runs, and ``test_s`` that of the seconds of predicting test rows;
    so are ``test_r2`` and ``test_rmse`` of regressions. There is no column that no row has.
    """
    tested = [name for name in TESTED if frame[name].notna().any()]
    if not frame["curve"].map(bool).any():
        return frame[tested]
    return frame[tested].assign(step_us=1e6 * frame["mean_s"] / steps(frame))[["step_us", *tested]]


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of one cell from the records of its rounds; None, and an empty curve, where runs lack them.

    ``test_accuracy``, ``test_s``, ``test_r2`` and ``test_rmse`` are means over all runs, each with its
    standard deviation.
    ``first_accuracy`` is that of the first run of the first round, whose weights are the first draw of the
    seed: the one training that a published program did.
    """
    runs = [run for record in records for run in record["runs"]]
    of_first_round = [run for record in records if record["round"] == 1 for run in record["runs"]]
    first: Run = of_first_round[0] if of_first_round else {}
    tested = [run for run in runs if "test_accuracy" in run]
    accuracy, accuracy_std = _spread([run["test_accuracy"] for run in tested])
    seconds, seconds_std = _spread([run["test_seconds"] for run in tested])
    return {
        "test_accuracy": accuracy,
        "test_accuracy_std": accuracy_std,
        "first_accuracy": first.get("test_accuracy"),
        "test_s": seconds,
        "test_std_s": seconds_std,
        **_of_errors(runs),
        "curve": _curve(runs, first),
    }


def _of_errors(runs: Sequence[Run]) -> dict[str, float | None]:
    found = {}
    for name in ("test_r2", "test_rmse"):
        found[name], found[f"{name}_std"] = _spread([run[name] for run in runs if name in run])
    return found


def _curve(runs: Sequence[Run], first: Run) -> list[dict[str, float | int | None]]:
    """One entry per epoch, from 1: means over the runs, each with its standard deviation.

    ``seconds`` are those of the epoch, ``cumulative_s`` those from the start of the run to its end;
    ``mean_loss`` is that of its batches, each before its update, and None where a run's is not finite;
    ``first_mean_loss`` is that of the first run.
    """
    epochs = [run["epochs"] for run in runs if "epochs" in run]
    cumulative = [list(accumulate(epoch["seconds"] for epoch in of_run)) for of_run in epochs]
    entries = []
    for i in range(len(epochs[0]) if epochs else 0):
        loss, loss_std = _spread([of_run[i]["mean_loss"] for of_run in epochs])
        until, until_std = _spread([of_run[i] for of_run in cumulative])
        entries.append(
            {
                "epoch": i + 1,
                "seconds": fmean(of_run[i]["seconds"] for of_run in epochs),
                "cumulative_s": until,
                "cumulative_std_s": until_std,
                "mean_loss": loss,
                "mean_loss_std": loss_std,
                "first_mean_loss": first["epochs"][i]["mean_loss"] if "epochs" in first else None,
            }
        )
    return entries


def _spread(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    """The mean and the standard deviation; None where a value is, and of fewer than one or two."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    return fmean(known), stdev(known) if len(known) > 1 else None
