"""What the tables of the CNN report call their rows, and which published values stand beside each."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.floors import steps
from snn.models.gradients import EXACT

PROGRAMS = {"synchronous": ("naive", "naive"), "pipelined": ("optimised", "fused")}
"""The report's programs, and the kernel of each, by the strategy that does here what they do.

On a CPU NumPy takes the place of every kernel, under the name naive.
"""

AS_PUBLISHED, EXACT_GRADIENT = "as published", "exact"


def program(row: Mapping[str, Any]) -> str:
    """The program of the report that a row does the work of; else its strategy, with its kernel or loader."""
    strategy, kernel = row["strategy"], row["kernel"]
    if strategy == "torch_loader":
        pinned = "pinned" if row["strategy.pin_memory"] else "pageable"
        return f"PyTorch, {row['strategy.workers']} workers, {pinned}"
    if row["runtime"]:
        return str(strategy)
    name, of_program = PROGRAMS.get(strategy, ("", ""))
    if kernel == of_program or (name and row["backend"] == "cpu"):
        return name
    return f"{strategy}, {kernel}" + ("" if row["precision"] == "fp32" else f", {row['precision']}")


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that say what a row trained: data set, program, gradient, reduction and learning rate."""
    rows = frame.to_dict("records")
    exact = frame["training.gradient"] == EXACT.name
    return pd.DataFrame(
        {
            "dataset": frame["dataset"],
            "program": [program(row) for row in rows],
            "gradient": exact.map({True: EXACT_GRADIENT, False: AS_PUBLISHED}),
            "reduction": frame["training.reduction"],
            "learning_rate": frame["training.learning_rate"],
            "strategy": frame["strategy"],
            "kernel": frame["kernel"].where(frame["runtime"] == "", ""),
        },
        index=frame.index,
    )


def step_us(frame: pd.DataFrame) -> pd.Series:
    """The microseconds per step of each row's mean time."""
    return 1e6 * frame["mean_s"] / steps(frame)


def data(frame: pd.DataFrame, published: Mapping[str, Any]) -> list[str]:
    """What each row was trained and tested on, and that it is not the report's data, where it is not."""
    said = []
    for row, is_same in zip(frame.to_dict("records"), is_reports(frame, published), strict=True):
        text = (
            f"{row['dataset.rows']} images of {row['dataset']}, {row['training.epochs']} epochs, "
            f"tested on {row.get('dataset.test_rows')}"
        )
        said.append(text if is_same else f"{text}: not the report's data, so nothing published is shown")
    return said


def is_reports(frame: pd.DataFrame, published: Mapping[str, Any]) -> list[bool]:
    """Whether each row trained on as many images of a data set of the report, as long and in such batches."""
    wanted = published["training"]
    return [
        row["dataset"] in wanted["data"]
        and row["dataset.rows"] == wanted["rows"]
        and row["training.epochs"] == wanted["epochs"]
        and row["training.batch_size"] == wanted["batch_size"]
        for row in frame.to_dict("records")
    ]


def last_loss(row: Mapping[str, Any]) -> float | None:
    """The mean loss of the first run's last epoch."""
    return row["curve"][-1]["first_mean_loss"] if row["curve"] else None


def images_tested(row: Mapping[str, Any]) -> int:
    """The test images of a row: with ``drop_last`` those of whole batches."""
    rows, batch = int(row["dataset.test_rows"]), int(row["training.batch_size"])
    return rows - rows % batch if row["training.drop_last"] else rows
