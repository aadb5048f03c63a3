"""What a row holds of a classification: its accuracy on test rows, and its curve by epoch."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from snn.analysis.floors import steps

Run = Mapping[str, Any]


def beside_times(frame: pd.DataFrame) -> pd.DataFrame:
    """``step_us``, the microseconds per step of the mean time, and what was tested; no column of other rows.

    ``test_accuracy`` is the mean over all runs, and ``test_s`` that of the seconds of predicting test rows.
    """
    if not frame["curve"].map(bool).any():
        return pd.DataFrame(index=frame.index)
    tested = [name for name in ("test_accuracy", "test_s") if frame[name].notna().any()]
    return frame[tested].assign(step_us=1e6 * frame["mean_s"] / steps(frame))[["step_us", *tested]]


def columns(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of one cell from the records of its rounds; None, and an empty curve, where runs lack them.

    ``test_accuracy`` and ``test_s`` are means over all runs, each with its standard deviation.
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
        "curve": _curve(runs, first),
    }


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
