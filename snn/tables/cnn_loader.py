"""Tables 1 and 2 of the CNN report: its PyTorch program by the workers of its loader, and pinned memory."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, over_baselines
from snn.tables import cnn_rows

TITLE = "The CNN report's PyTorch program by its loader's settings (Tables 1 and 2)"

_BASELINE = (2, False)
"""The fewest workers, and no pinned memory: what the report compares more workers and pinned memory with."""

_DEVICES = {"cuda": "GPU", "cpu": "CPU"}
_PUBLISHED = ("published_s", "published_step_us", "published_test_s", "published_accuracy")


def build(frame: pd.DataFrame, published: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell, with the report's values where it trains on the report's data.

    ``ran_on`` is where PyTorch trained. A speedup is over two workers without pinned memory. ``accuracy`` is
    that of the first run, ``mean_accuracy`` that of all. On the CPU pinned memory does nothing, so that any
    row there is the counterpart of the report's. Rows of the report without a counterpart, as those of
    another device are, follow without a measured value, and ``reason`` says why.
    """
    listed = frame.to_dict("records")
    ratios = over_baselines(frame, _baselines(frame), thresholds)
    table = pd.DataFrame(
        {
            "dataset": frame["dataset"],
            "ran_on": frame["backend"].map(_DEVICES),
            "workers": frame["strategy.workers"],
            "pin_memory": frame["strategy.pin_memory"].astype(object),
            "mean_s": frame["mean_s"],
            "std_s": frame["std_s"],
            "step_us": cnn_rows.step_us(frame),
            **{name: ratios[name] for name in (*SPEEDUP, "verdict", "note")},
            "loss": pd.Series([cnn_rows.last_loss(row) for row in listed], frame.index, float),
            "accuracy": frame["first_accuracy"],
            "mean_accuracy": frame["test_accuracy"],
            "accuracy_std": frame["test_accuracy_std"],
            "test_s": frame["test_s"],
            "test_std_s": frame["test_std_s"],
            "runs": frame["runs"],
        }
    )
    is_reports = cnn_rows.is_reports(frame, published)
    names = [
        _counterpart(published, row) if same else None for row, same in zip(listed, is_reports, strict=True)
    ]
    beside = [_values(published, name) if name else {} for name in names]
    table = table.join(pd.DataFrame(beside, frame.index, [*_PUBLISHED, "published_device"]))
    table = table.join(outcome(frame)).assign(machine=ratios["machine"])
    table = table.assign(
        data=cnn_rows.data(frame, published), device=frame["device"], backend=frame["backend"]
    )
    datasets = dict.fromkeys(row["dataset"] for row, same in zip(listed, is_reports, strict=True) if same)
    measured = set(frame["backend"])
    table = _with_the_rest(table, [_rest(published, name, names, measured) for name in datasets])
    return table.astype(dict.fromkeys(_PUBLISHED, float) | {"workers": "Int64"})


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: two workers without pinned memory, and a row over it."""
    return [(number, i) for i, number in enumerate(_baselines(frame)) if number >= 0]


def _baselines(frame: pd.DataFrame) -> list[int]:
    rows = frame.to_dict("records")
    chosen = [(row["strategy.workers"], row["strategy.pin_memory"]) == _BASELINE for row in rows]
    return cnn_rows.baselines(cnn_rows.named(frame), chosen)


Name = tuple[str, int]
"""A data set, and the number of one of its published rows."""


def _counterpart(published: Mapping[str, Any], row: Mapping[str, Any]) -> Name | None:
    """The published row with the device, workers and pinned memory of a measured one."""
    for i, one in enumerate(published[row["dataset"]]["rows"]):
        same = (one["backend"], one["workers"]) == (row["backend"], row["strategy.workers"])
        if same and one["pin_memory"] in (None, row["strategy.pin_memory"]):
            return row["dataset"], i
    return None


def _values(published: Mapping[str, Any], name: Name) -> dict[str, Any]:
    """The published values of a row, by column."""
    dataset, i = name
    row = published[dataset]["rows"][i]
    return {
        "published_s": row["seconds"],
        "published_step_us": 1e6 * row["seconds"] / published["training"]["steps"],
        "published_test_s": row["test_seconds"],
        "published_accuracy": published[dataset]["accuracy"],
        "published_device": published["devices"][row["backend"]],
    }


def _rest(
    published: Mapping[str, Any], dataset: str, shown: list[Name | None], measured: set[str]
) -> list[dict[str, Any]]:
    """The published rows of a data set that no measured row is the counterpart of.

    ``measured``: the backends that were measured on.
    """
    return [
        {
            "dataset": dataset,
            "ran_on": _DEVICES[row["backend"]],
            "workers": row["workers"],
            "pin_memory": row["pin_memory"],
            **_values(published, (dataset, i)),
            "reason": "published only: "
            + (
                "not in the sweep"
                if row["backend"] in measured
                else f"--config device={row['backend']} measures it"
            ),
        }
        for i, row in enumerate(published[dataset]["rows"])
        if (dataset, i) not in shown
    ]


def _with_the_rest(table: pd.DataFrame, rest: list[list[dict[str, Any]]]) -> pd.DataFrame:
    """The measured rows, followed by published ones that have no counterpart."""
    rows = [row for of_dataset in rest for row in of_dataset]
    if not rows:
        return table
    if "reason" not in table:
        table.insert(table.columns.get_loc("status") + 1, "reason", "")
    return pd.DataFrame([*table.to_dict("records"), *rows], columns=table.columns)
