"""Tables 3 to 6 of the CNN report: its two programs as published, and with the exact gradient."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, over_baselines
from snn.analysis.verdicts import AGREES, DIFFERS
from snn.models.gradients import PublishedNaive, PublishedOptimised
from snn.tables import cnn_rows

TITLE = "The CNN report's programs, as published and with the exact gradient (Tables 3 to 6)"

_BASELINE = "naive"
_PROGRAMS = {PublishedNaive.name: "naive", PublishedOptimised.name: "optimised"}


def build(frame: pd.DataFrame, published: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: times, the speedup over the naive program that trains alike, and the test accuracy.

    ``step_us`` is the mean time over the steps of a run, ``test_s`` that of predicting the test images.
    ``accuracy`` and ``loss``, the mean loss of the last epoch, are those of the first run, whose initial
    weights are the published ones; ``mean_accuracy`` is that of all runs, each from other weights.
    Published values stand beside rows that train as published on the report's data: there ``images_apart``
    is how many more test images are right than published, and the accuracy ``agrees`` where it is within
    ``agrees_accuracy`` of the published one.
    """
    rows = cnn_rows.named(frame)
    ratios = over_baselines(frame, _baselines(rows), thresholds)
    table = rows.assign(
        mean_s=frame["mean_s"],
        std_s=frame["std_s"],
        step_us=cnn_rows.step_us(frame),
        **{name: ratios[name] for name in (*SPEEDUP, "verdict", "note")},
        loss=pd.Series([cnn_rows.last_loss(row) for row in frame.to_dict("records")], frame.index, float),
        accuracy=frame["first_accuracy"],
        mean_accuracy=frame["test_accuracy"],
        accuracy_std=frame["test_accuracy_std"],
        test_s=frame["test_s"],
        test_std_s=frame["test_std_s"],
        runs=frame["runs"],
    )
    beside = [
        _published(published, row) if same else {}
        for row, same in zip(frame.to_dict("records"), cnn_rows.is_reports(frame, published), strict=True)
    ]
    table = table.join(pd.DataFrame(beside, frame.index, _published_columns(published), float))
    table = table.join(_agreement(frame, table["published_accuracy"], thresholds))
    table = table.join(outcome(frame)).assign(machine=ratios["machine"])
    return table.assign(
        data=cnn_rows.data(frame, published), device=frame["device"], backend=frame["backend"]
    )


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: the naive program, and a row over it."""
    numbers = _baselines(cnn_rows.named(frame))
    return [(number, i) for i, number in enumerate(numbers) if number >= 0]


def _baselines(rows: pd.DataFrame) -> list[int]:
    """The number of the naive program that trains as each row does; -1 where there is none."""
    return cnn_rows.baselines(rows, (rows["program"] == _BASELINE).tolist())


def _published_columns(published: Mapping[str, Any]) -> list[str]:
    devices = published["devices"]
    times = [f"published_{name}{end}" for end in ("_s", "_step_us", "_test_s") for name in devices]
    return [*times, "published_speedup_min", "published_speedup_max", "published_accuracy"]


def _published(published: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, float]:
    """What the report has of a row's data set and of the program with its gradient, by column."""
    of_data, program = published[row["dataset"]], _PROGRAMS.get(row["training.gradient"])
    if program is None:
        return {}
    own, naive = of_data[program], of_data[_BASELINE]
    values = {"published_accuracy": own["accuracy"]}
    speedups = []
    for name in published["devices"]:
        seconds = own["seconds"][name]
        values[f"published_{name}_s"] = seconds
        values[f"published_{name}_step_us"] = 1e6 * seconds / published["training"]["steps"]
        values[f"published_{name}_test_s"] = own["test_seconds"][name]
        speedups.append(naive["seconds"][name] / seconds)
    return values | {"published_speedup_min": min(speedups), "published_speedup_max": max(speedups)}


def _agreement(frame: pd.DataFrame, expected: pd.Series, thresholds: Thresholds) -> pd.DataFrame:
    """How many test images more are right than published, and the verdict; empty where nothing is known."""
    difference = frame["first_accuracy"] - expected
    tested = pd.Series([cnn_rows.images_tested(row) for row in frame.to_dict("records")], frame.index)
    agrees = np.where(difference.abs() <= thresholds["agrees_accuracy"], AGREES, DIFFERS)
    return pd.DataFrame(
        {
            "images_apart": (difference * tested).round().astype("Int64"),
            "agreement": np.where(difference.notna(), agrees, ""),
        },
        index=frame.index,
    )
