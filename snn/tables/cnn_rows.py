"""What the tables of the CNN report call their rows, and which published values stand beside each."""

import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import pandas as pd

from snn.analysis.floors import steps
from snn.analysis.grouping import texts
from snn.models.gradients import EXACT

PROGRAMS = {"synchronous": ("naive", "naive"), "pipelined": ("optimised", "fused")}
"""The report's programs, and the kernel of each, by the strategy that does here what they do.

On a CPU NumPy takes the place of every kernel, under the name naive.
"""

AS_PUBLISHED, EXACT_GRADIENT = "as published", "exact"

LOADER = "torch_loader"
"""The strategy that trains as the report's PyTorch program does; its gradient is the exact one."""

TRAINED = ("dataset", "gradient", "reduction", "learning_rate")
"""What rows must have in common for their times to be of the same work."""


def program(row: Mapping[str, Any]) -> str:
    """The program of the report that a row does the work of; else its strategy, with its kernel."""
    strategy, kernel = row["strategy"], row["kernel"]
    if strategy == LOADER:
        pinned = "pinned" if row["strategy.pin_memory"] else "pageable"
        return f"PyTorch, {row['strategy.workers']} workers, {pinned}"
    if row["runtime"]:
        return str(strategy)
    name, of_program = PROGRAMS.get(strategy, ("", ""))
    if kernel == of_program or (name and row["backend"] == "cpu"):
        return name
    return f"{strategy}, {kernel}" + ("" if row["precision"] == "fp32" else f", {row['precision']}")


def trains_as_published(row: Mapping[str, Any]) -> bool:
    """Whether a row trains along what a program of the report computes."""
    return bool(row["training.gradient"] != EXACT.name or row["strategy"] == LOADER)


def named(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that say what a row trained: data set, program, gradient, reduction and learning rate."""
    rows = frame.to_dict("records")
    return pd.DataFrame(
        {
            "dataset": frame["dataset"],
            "program": [program(row) for row in rows],
            "gradient": [AS_PUBLISHED if trains_as_published(row) else EXACT_GRADIENT for row in rows],
            "reduction": frame["training.reduction"],
            "learning_rate": frame["training.learning_rate"],
            "strategy": frame["strategy"],
            "kernel": frame["kernel"],
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


def threads(row: Mapping[str, Any]) -> int:
    """The threads of a row's block."""
    return prod(map(int, row["kernel.block"].split("-")))


def outputs(row: Mapping[str, Any]) -> int:
    """The outputs of a row's network: the width of its last linear layer."""
    return int(re.findall(r"linear(\d+)", row["network"])[-1])


def baselines(rows: pd.DataFrame, is_baseline: Sequence[bool]) -> list[int]:
    """The number of the baseline that trains as each row does; -1 where there is none."""
    trained = texts(rows, TRAINED).tolist()
    numbers = {key: i for i, key in enumerate(trained) if is_baseline[i]}
    return [numbers.get(key, -1) for key in trained]


def last_loss(row: Mapping[str, Any]) -> float | None:
    """The mean loss of the first run's last epoch."""
    return row["curve"][-1]["first_mean_loss"] if row["curve"] else None


def images_tested(row: Mapping[str, Any]) -> int:
    """The test images of a row: with ``drop_last`` those of whole batches."""
    rows, batch = int(row["dataset.test_rows"]), int(row["training.batch_size"])
    return rows - rows % batch if row["training.drop_last"] else rows
