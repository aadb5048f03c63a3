"""The tables of the CNN report: its programs, its PyTorch program, its curves by epoch and by block size.

Published values stand beside rows that train as published on the report's data.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.grouping import texts
from snn.analysis.machine_state import Thresholds
from snn.analysis.roofline import steps
from snn.analysis.verdicts import AGREES, DIFFERS
from snn.models import gradients
from snn.models.gradients import EXACT, PublishedNaive, PublishedOptimised
from snn.tables.table import Column, Rows, Table, assemble, cells_table, each, ratio, status, step_us

Row = Mapping[str, Any]
Published = Mapping[str, Any]

_LOADER = "torch_loader"
"""The strategy that trains as the report's PyTorch program does; its gradient is the exact one."""

_PROGRAMS = {"synchronous": ("naive", "naive"), "pipelined": ("optimised", "fused")}
"""The report's programs, and the kernel of each, by the strategy that does here what they do.

On a CPU NumPy takes the place of every kernel, under the name naive.
"""

_AS_PUBLISHED = "as published"
_NAMES = "dataset program gradient reduction learning_rate strategy kernel"
_RATIO = (ratio(), "verdict note")


def _rows(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with what the report's tables call what a row trained, and the results of its first run.

    ``loss`` is the mean loss of the last epoch. The initial weights of the first run are the published ones.
    """
    listed = cells.to_dict("records")
    return cells.assign(
        program=[_program(row) for row in listed],
        gradient=[_AS_PUBLISHED if _trains_as_published(row) else "exact" for row in listed],
        reduction=cells["training.reduction"],
        learning_rate=cells["training.learning_rate"],
        threads=[_threads(row) for row in listed],
        step_us=step_us(cells),
        loss=pd.Series(
            [row["curve"][-1]["first_mean_loss"] if row["curve"] else None for row in listed],
            cells.index,
            float,
        ),
        accuracy=cells["first_accuracy"],
        mean_accuracy=cells["test_accuracy"],
        accuracy_std=cells["test_accuracy_std"],
    )


def _program(row: Row) -> str:
    """The program of the report that a row does the work of; else its strategy, with its kernel."""
    strategy, kernel = row["strategy"], row["kernel"]
    if strategy == _LOADER:
        pinned = "pinned" if row["strategy.pin_memory"] else "pageable"
        return f"PyTorch, {row['strategy.workers']} workers, {pinned}"
    if row["runtime"]:
        return str(strategy)
    name, with_kernel = _PROGRAMS.get(strategy, ("", ""))
    if kernel == with_kernel or (name and row["backend"] == "cpu"):
        return name
    return f"{strategy}, {kernel}" + ("" if row["precision"] == "fp32" else f", {row['precision']}")


def _trains_as_published(row: Row) -> bool:
    return bool(row["training.gradient"] != EXACT.name or row["strategy"] == _LOADER)


def _threads(row: Row) -> int:
    """The threads of a row's block."""
    return prod(map(int, row["kernel.block"].split("-")))


def _over(is_baseline: Callable[[Row], bool]) -> Callable[[pd.DataFrame], list[int]]:
    """The number of the baseline that does the same work as each row; -1 where there is none."""

    def numbers(rows: pd.DataFrame) -> list[int]:
        trained = texts(rows, ("dataset", "gradient", "reduction", "learning_rate")).tolist()
        listed = zip(trained, rows.to_dict("records"), strict=True)
        baselines = {key: i for i, (key, row) in enumerate(listed) if is_baseline(row)}
        return [baselines.get(key, -1) for key in trained]

    return numbers


def _is_reports(row: Row, published: Published) -> bool:
    """Whether a row trained on as many images of a data set of the report, as long and in such batches."""
    wanted = published["training"]
    return row["dataset"] in wanted["data"] and all(
        row[column] == wanted[key]
        for column, key in (
            ("dataset.rows", "rows"),
            ("training.epochs", "epochs"),
            ("training.batch_size", "batch_size"),
        )
    )


def _data(rows: Rows) -> pd.Series:
    """What each row was trained and tested on, and that it is not the report's data, where it is not."""

    def text(row: Row) -> str:
        images = (
            f"{row['dataset.rows']} images of {row['dataset']}, {row['training.epochs']} epochs, "
            f"tested on {row.get('dataset.test_rows')}"
        )
        is_same = _is_reports(row, rows.published)
        return images if is_same else f"{images}: not the report's data, so nothing published is shown"

    return each(data=text)(rows)["data"]


def _beside(
    rows: Rows, values: Callable[[Published, Row], Mapping[str, Any]], columns: list[str]
) -> pd.DataFrame:
    """The published values of each row that trained on the report's data."""
    listed = rows.frame.to_dict("records")
    found = [values(rows.published, row) if _is_reports(row, rows.published) else {} for row in listed]
    return pd.DataFrame(found, rows.frame.index, columns)


_END: tuple[Column, ...] = (status, "machine", _data, "device backend")


# ---- Tables 3 to 6: the two programs as published, and with the exact gradient


def _published_programs(rows: Rows) -> pd.DataFrame:
    """What the report has of a row's data set and of the program with its gradient, and whether it agrees.

    ``images_apart`` is how many more test images are right than published; the accuracy ``agrees`` where it
    is within ``agrees_accuracy`` of the published one.
    """
    devices = rows.published["devices"]
    columns = [f"published_{name}{end}" for end in ("_s", "_step_us", "_test_s") for name in devices]
    columns += ["published_speedup_min", "published_speedup_max", "published_accuracy"]
    table = _beside(rows, _published_program, columns).astype(float)
    difference = rows.frame["first_accuracy"] - table["published_accuracy"]
    agrees = np.where(difference.abs() <= rows.thresholds["agrees_accuracy"], AGREES, DIFFERS)
    return table.assign(
        images_apart=(difference * each(tested=_images_tested)(rows)["tested"]).round().astype("Int64"),
        agreement=np.where(difference.notna(), agrees, ""),
    )


def _published_program(published: Published, row: Row) -> dict[str, float]:
    programs = {PublishedNaive.name: "naive", PublishedOptimised.name: "optimised"}
    results, program = published[row["dataset"]], programs.get(row["training.gradient"])
    if program is None:
        return {}
    own, naive = results[program], results["naive"]
    values = {"published_accuracy": own["accuracy"]}
    for name in published["devices"]:
        seconds = own["seconds"][name]
        values[f"published_{name}_s"] = seconds
        values[f"published_{name}_step_us"] = 1e6 * seconds / published["training"]["steps"]
        values[f"published_{name}_test_s"] = own["test_seconds"][name]
    speedups = [naive["seconds"][name] / own["seconds"][name] for name in published["devices"]]
    return values | {"published_speedup_min": min(speedups), "published_speedup_max": max(speedups)}


def _images_tested(row: Row) -> int:
    """The test images of a row: with ``drop_last`` those of whole batches."""
    rows, batch = int(row["dataset.test_rows"]), int(row["training.batch_size"])
    return rows - rows % batch if row["training.drop_last"] else rows


cnn_programs = cells_table(
    "The CNN report's programs, as published and with the exact gradient (Tables 3 to 6)",
    f"{_NAMES} mean_s std_s step_us",
    *_RATIO,
    "loss accuracy mean_accuracy accuracy_std test_s test_std_s runs",
    _published_programs,
    *_END,
    rows=_rows,
    over=_over(lambda row: row["program"] == "naive"),
)


# ---- Tables 1 and 2: the PyTorch program by the workers of its loader, and pinned memory

_RAN_ON = {"cuda": "GPU", "cpu": "CPU"}


def _published_loaders(published: Published, dataset: str) -> list[dict[str, Any]]:
    return [
        {
            "dataset": dataset,
            "ran_on": _RAN_ON[row["backend"]],
            "workers": row["workers"],
            "pin_memory": row["pin_memory"],
            "published_s": row["seconds"],
            "published_step_us": 1e6 * row["seconds"] / published["training"]["steps"],
            "published_test_s": row["test_seconds"],
            "published_accuracy": published[dataset]["accuracy"],
            "published_device": published["devices"][row["backend"]],
        }
        for row in published[dataset]["rows"]
    ]


def _counterpart(published: Published, row: Row) -> dict[str, Any]:
    """The published row with the device, workers and pinned memory of a measured one.

    On the CPU pinned memory does nothing, so that any row there is the counterpart of the report's.
    """
    for one in _published_loaders(published, row["dataset"]):
        same = (one["ran_on"], one["workers"]) == (row["ran_on"], row["workers"])
        if same and one["pin_memory"] in (None, row["pin_memory"]):
            return one
    return {}


def _loader_rows(cells: pd.DataFrame) -> pd.DataFrame:
    return _rows(cells).assign(
        ran_on=cells["backend"].map(_RAN_ON),
        workers=cells["strategy.workers"],
        pin_memory=cells["strategy.pin_memory"].astype(object),
    )


_NUMBERS = ["published_s", "published_step_us", "published_test_s", "published_accuracy"]
_measured_loader = cells_table(
    "The CNN report's PyTorch program by its loader's settings (Tables 1 and 2)",
    "dataset ran_on workers pin_memory mean_s std_s step_us",
    *_RATIO,
    "loss accuracy mean_accuracy accuracy_std test_s test_std_s runs",
    lambda rows: _beside(rows, _counterpart, [*_NUMBERS, "published_device"]),
    *_END,
    rows=_loader_rows,
    # The fewest workers, and no pinned memory: what the report compares with.
    over=_over(lambda row: (row["workers"], row["pin_memory"]) == (2, False)),
)


def _loader(cells: pd.DataFrame, published: Published, thresholds: Thresholds) -> pd.DataFrame:
    """The measured rows, followed by the published ones of their data sets that have no counterpart."""
    table = _measured_loader.build(cells, published, thresholds)
    listed = [row for row in _loader_rows(cells).to_dict("records") if _is_reports(row, published)]
    shown = [_counterpart(published, row) for row in listed]
    rest = []
    for dataset in dict.fromkeys(row["dataset"] for row in listed):
        for one in _published_loaders(published, dataset):
            measured = one["ran_on"] in set(table["ran_on"])
            backend = next(name for name, where in _RAN_ON.items() if where == one["ran_on"])
            why = "not in the sweep" if measured else f"--config device={backend} measures it"
            rest += [one | {"reason": f"published only: {why}"}] if one not in shown else []
    if rest:
        if "reason" not in table:
            table.insert(table.columns.get_loc("status") + 1, "reason", "")
        table = pd.DataFrame([*table.to_dict("records"), *rest], columns=table.columns)
    return table.astype(dict.fromkeys(_NUMBERS, float) | {"workers": "Int64"})


cnn_loader = replace(_measured_loader, build=_loader)


# ---- Figures 3 and 4: the naive program by block size

BLOCK = 256
"""The threads of a block in every other experiment of the report: what others are compared with."""


def _used(row: Row) -> dict[str, float]:
    """How much of a batch's gradient is computed with a row's block.

    ``logit_gradients`` are the gradients of a batch's outputs that are computed, ``samples_used`` the rows of
    the batch that they are of, and ``mean_loss_step`` the learning rate along the gradient of a mean loss
    over as many rows of which a step is as long.
    """
    rows, outputs = row["training.batch_size"], int(re.findall(r"linear(\d+)", row["network"])[-1])
    block = [int(size) for size in row["kernel.block"].split("-")]
    written = gradients.of(row["training.gradient"], block).written(rows, outputs)
    used = written / outputs
    per_sample = 1 / rows if row["training.reduction"] == "mean" else 1
    return {
        "logit_gradients": written,
        "samples_used": used,
        "mean_loss_step": row["training.learning_rate"] * used * per_sample,
    }


def _end_of_curve(published: Published, row: Row) -> dict[str, float]:
    """The end of the published curve of a row's block size, by column."""
    curve = published["curves"].get(str(row["threads"])) if _trains_as_published(row) else None
    if curve is None:
        return {}
    seconds = curve["cumulative_s"][-1]
    return {
        "published_s": seconds,
        "published_step_us": 1e6 * seconds / published["training"]["steps"],
        "published_loss": curve["mean_loss"][-1],
    }


cnn_block_size = cells_table(
    "The block size of the CNN report's naive program (Figures 3 and 4)",
    _NAMES,
    lambda rows: rows.frame["kernel.block"].rename("block"),
    "threads",
    lambda rows: pd.DataFrame(map(_used, rows.frame.to_dict("records")), rows.frame.index),
    "mean_s std_s step_us",
    *_RATIO,
    "loss accuracy mean_accuracy accuracy_std runs",
    lambda rows: _beside(rows, _end_of_curve, ["published_s", "published_step_us", "published_loss"]).astype(
        float
    ),
    *_END,
    rows=_rows,
    over=_over(lambda row: row["threads"] == BLOCK),
)


# ---- Figures 1 to 4: time and loss by epoch beside published curves

_EPOCH = {
    "epoch": "epoch",
    "epoch_s": "seconds",
    "step_us": "step_us",
    "cumulative_s": "cumulative_s",
    "cumulative_std_s": "cumulative_std_s",
    "loss": "first_mean_loss",
    "mean_loss": "mean_loss",
    "mean_loss_std": "mean_loss_std",
}
"""The columns of an epoch that was measured, and their keys in a row's ``curve``."""

_PUBLISHED = ("published_cumulative_s", "published_loss")


def _epochs(cells: pd.DataFrame, published: Published, thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell and epoch, each of which was timed; of a cell without a time one row.

    Where a row trains as published on the report's data, the published curves that have no row here have rows
    without a measured value.
    """
    made = _rows(cells)
    listed = made.to_dict("records")
    reports = [_is_reports(row, published) for row in listed]
    names = made[[*_NAMES.split(), "threads"]]
    beside = assemble(Rows(made, published, thresholds), status, "runs machine", _data, "device backend")
    if any(reports) and "reason" not in beside:
        beside["reason"] = ""
    per_epoch = (steps(cells) / cells["training.epochs"]).tolist()
    found: list[dict[str, Any]] = []
    rest = _published_curves(published) if any(reports) else {}
    for i, row in enumerate(listed):
        name = _curve_of(row, published) if reports[i] else None
        rest.pop(name, None)
        ends = beside.iloc[i].to_dict()
        curve = _published_curves(published)[name] if name else [{} for _ in row["curve"]]
        for epoch, one in zip(row["curve"], curve, strict=True):
            timed = epoch | {"step_us": 1e6 * epoch["seconds"] / per_epoch[i]}
            values = {column: timed[key] for column, key in _EPOCH.items()}
            found.append(one | names.iloc[i].to_dict() | values | ends)
        if not row["curve"]:
            found.append(names.iloc[i].to_dict() | ends)
    why = {"gradient": _AS_PUBLISHED, "reason": "published only: not measured on this device"}
    found += [one | why for curve in rest.values() for one in curve]
    table = pd.DataFrame(found, columns=[*names, *_EPOCH, *_PUBLISHED, "published_device", *beside])
    return table.astype({"epoch": "Int64", "threads": "Int64"} | dict.fromkeys(_PUBLISHED, float))


def _published_curves(published: Published) -> dict[str | None, list[dict[str, Any]]]:
    """The published curves by name, epoch by epoch.

    A curve with a ``dataset`` is of another data set than the file's, or of one that is not stated.
    """
    data = ", ".join(published["training"]["data"])
    return {
        name: [
            {
                "program": name,
                "dataset": curve.get("dataset", data),
                "epoch": epoch,
                "published_cumulative_s": seconds,
                "published_loss": loss,
                "published_device": curve.get("device", published["device"]),
            }
            for epoch, (seconds, loss) in enumerate(
                zip(curve["cumulative_s"], curve["mean_loss"], strict=True), 1
            )
        ]
        for name, curve in published["curves"].items()
    }


def _curve_of(row: Row, published: Published) -> str | None:
    """The name of the published curve of what trains as a row does; None where there is none."""
    if not _trains_as_published(row):
        return None
    names = [row["program"], str(row["threads"])]
    if row["strategy"] == _LOADER:
        same = row["strategy.workers"] == published.get("workers")
        names = [f"PyTorch on the {_RAN_ON[row['backend']]}"] if same else []
    curves = published["curves"]
    return next((name for name in names if name in curves and "dataset" not in curves[name]), None)


cnn_epochs = cnn_block_epochs = Table("Time and loss by epoch, beside the CNN report's curves", _epochs)
