"""The CNN report's naive program by block size: how much of its gradient there is, its time."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, over_baselines
from snn.models import gradients
from snn.tables import cnn_rows

TITLE = "The block size of the CNN report's naive program (Figures 3 and 4)"

_BASELINE = 256
"""The block size in every other experiment of the report."""


def build(frame: pd.DataFrame, published: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: what its block size leaves of the gradient, its time, its loss and its accuracy.

    ``logit_gradients`` are the gradients of a batch's outputs that are computed, ``samples_used`` the rows of
    the batch that they are of, and ``mean_loss_step`` the learning rate along the gradient of a mean loss
    over as many rows of which a step is as long. A speedup is over the block of 256 threads that trains
    alike. ``loss``, that of the last epoch, and ``accuracy`` are those of the first run. Published values
    stand beside rows that train as published on the report's data.
    """
    rows = cnn_rows.named(frame)
    listed = frame.to_dict("records")
    ratios = over_baselines(frame, _baselines(frame, rows), thresholds)
    table = rows.assign(
        block=frame["kernel.block"],
        **pd.DataFrame([_used(row) for row in listed], frame.index),
        mean_s=frame["mean_s"],
        std_s=frame["std_s"],
        step_us=cnn_rows.step_us(frame),
        **{name: ratios[name] for name in (*SPEEDUP, "verdict", "note")},
        loss=pd.Series([cnn_rows.last_loss(row) for row in listed], frame.index, float),
        accuracy=frame["first_accuracy"],
        mean_accuracy=frame["test_accuracy"],
        accuracy_std=frame["test_accuracy_std"],
        runs=frame["runs"],
    )
    beside = [
        _published(published, row) if same and cnn_rows.trains_as_published(row) else {}
        for row, same in zip(listed, cnn_rows.is_reports(frame, published), strict=True)
    ]
    columns = ["published_s", "published_step_us", "published_loss"]
    table = table.join(pd.DataFrame(beside, frame.index, columns, float))
    table = table.join(outcome(frame)).assign(machine=ratios["machine"])
    return table.assign(
        data=cnn_rows.data(frame, published), device=frame["device"], backend=frame["backend"]
    )


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: the block of 256 threads, and a row over it."""
    numbers = _baselines(frame, cnn_rows.named(frame))
    return [(number, i) for i, number in enumerate(numbers) if number >= 0]


def _baselines(frame: pd.DataFrame, rows: pd.DataFrame) -> list[int]:
    is_baseline = [cnn_rows.threads(row) == _BASELINE for row in frame.to_dict("records")]
    return cnn_rows.baselines(rows, is_baseline)


def _used(row: Mapping[str, Any]) -> dict[str, float]:
    """How much of a batch's gradient is computed with a row's block."""
    rows, outputs = row["training.batch_size"], cnn_rows.outputs(row)
    block = [int(size) for size in row["kernel.block"].split("-")]
    written = gradients.of(row["training.gradient"], block).written(rows, outputs)
    used = written / outputs
    per_sample = 1 / rows if row["training.reduction"] == "mean" else 1
    return {
        "threads": cnn_rows.threads(row),
        "logit_gradients": written,
        "samples_used": used,
        "mean_loss_step": row["training.learning_rate"] * used * per_sample,
    }


def _published(published: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, float]:
    """The end of the published curve of a row's block size, by column."""
    curve = published["curves"].get(str(cnn_rows.threads(row)))
    if curve is None:
        return {}
    seconds = curve["cumulative_s"][-1]
    return {
        "published_s": seconds,
        "published_step_us": 1e6 * seconds / published["training"]["steps"],
        "published_loss": curve["mean_loss"][-1],
    }
