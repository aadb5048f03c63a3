"""The tables of the CNN report: its programs, its PyTorch program, its curves by epoch and by block size.

Rows that train as published, on the report's data, also show the published values.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.grouping import first_at, texts
from snn.analysis.machine_state import Thresholds
from snn.analysis.roofline import step_us, steps
from snn.analysis.verdicts import AGREES, DIFFERS
from snn.models import gradients
from snn.models.gradients import EXACT, PublishedNaive, PublishedOptimised
from snn.tables.table import Column, Row, Rows, Table, assemble, cells_table, ratio, status

Published = Mapping[str, Any]

_LOADER = "torch_loader"
"""The strategy that trains as the report's PyTorch program does; its gradient is the exact one."""

_PROGRAMS = {"synchronous": ("naive", "naive"), "pipelined": ("optimised", "fused")}
"""The report's programs, and the kernel of each, by the strategy that does the same here.

On a CPU NumPy takes the place of every kernel, under the name naive.
"""

_RAN_ON = {"cuda": "GPU", "cpu": "CPU"}
_AS_PUBLISHED = "as published"
_NAMES = "dataset program gradient reduction learning_rate strategy kernel"
_RATIO = (ratio(), "verdict note")


def _rows(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the report's names for what a row trained, and the results of its first run.

    ``loss`` is the mean loss of the last epoch. The initial weights of the first run are the published ones.
    """
    listed = cells.to_dict("records")
    curves = [row["curve"] for row in listed]
    return cells.assign(
        program=[_program(row) for row in listed],
        gradient=[_AS_PUBLISHED if _trains_as_published(row) else "exact" for row in listed],
        reduction=cells["training.reduction"],
        learning_rate=cells["training.learning_rate"],
        block=cells["kernel.block"],
        threads=[prod(_block(row)) for row in listed],
        step_us=step_us(cells),
        loss=np.array([curve[-1]["first_mean_loss"] if curve else None for curve in curves], float),
        accuracy=cells["first_accuracy"],
        mean_accuracy=cells["test_accuracy"],
        accuracy_std=cells["test_accuracy_std"],
    )


def _program(row: Row) -> str:
    """The program of the report that a row does the work of; else its strategy, with its kernel."""
    strategy, kernel = row["strategy"], row["kernel"]
    if strategy == _LOADER:
        where = "on the CPU" if row.get("strategy.on_host") is True else ""
        where = where or ("pinned" if row["strategy.pin_memory"] else "pageable")
        images = ", images" if row.get("strategy.images") is True else ""
        return f"PyTorch, {row['strategy.workers']} workers, {where}{images}"
    if row["runtime"]:
        return str(strategy)
    name, with_kernel = _PROGRAMS.get(strategy, ("", ""))
    if kernel == with_kernel or (name and row["backend"] == "cpu"):
        return name
    return f"{strategy}, {kernel}" + ("" if row["precision"] == "fp32" else f", {row['precision']}")


def _trains_as_published(row: Row) -> bool:
    return bool(row["training.gradient"] != EXACT.name or row["strategy"] == _LOADER)


def _block(row: Row) -> list[int]:
    return [int(size) for size in row["kernel.block"].split("-")]


def _over(is_baseline: Callable[[Row], bool], *alike: str) -> Callable[[pd.DataFrame], list[int]]:
    """The number of the baseline that does the same work as each row, also in ``alike``; -1 if none does."""

    def numbers(rows: pd.DataFrame) -> list[int]:
        points = texts(rows, ("dataset", "gradient", "reduction", "learning_rate", *alike))
        return first_at(points, [i for i, row in enumerate(rows.to_dict("records")) if is_baseline(row)])

    return numbers


def _is_reports(row: Row, published: Published) -> bool:
    """Whether a row has the report's data set, number of images, epochs and batch size."""
    wanted = published["training"]
    keys = {"dataset.rows": "rows", "training.epochs": "epochs", "training.batch_size": "batch_size"}
    is_as_long = all(row[column] == wanted[key] for column, key in keys.items())
    return is_as_long and row["dataset"] in wanted["data"]


def _data(rows: Rows) -> pd.Series:
    """Text of what each row was trained and tested on, with a note if it is not the report's data."""
    said = []
    for row in rows.frame.to_dict("records"):
        on = f"{row['dataset.rows']} images of {row['dataset']}, {row['training.epochs']} epochs, "
        on += f"tested on {row.get('dataset.test_rows')}"
        is_same = _is_reports(row, rows.published)
        said.append(on if is_same else f"{on}: not the report's data, so nothing published is shown")
    return pd.Series(said, rows.frame.index, name="data")


def _beside(
    rows: Rows, values: Callable[[Published, Row], Mapping[str, Any]], columns: Sequence[str]
) -> pd.DataFrame:
    """The published values of each row that trained on the report's data."""
    listed = rows.frame.to_dict("records")
    found = [values(rows.published, row) if _is_reports(row, rows.published) else {} for row in listed]
    return pd.DataFrame(found, rows.frame.index, columns)


_SCORES = "loss accuracy mean_accuracy accuracy_std"
_END: tuple[Column, ...] = (status, "machine", _data, "device backend")


# ---- Tables 3 to 6: the two programs as published, and with the exact gradient


def _published_programs(rows: Rows) -> pd.DataFrame:
    """The report's values for a row's data set and the program with its gradient, and whether they agree.

    With ``drop_last`` only the test images of whole batches count.
    """
    devices, cells = rows.published["devices"], rows.frame
    columns = [f"published_{name}{end}" for end in ("_s", "_step_us", "_test_s") for name in devices]
    columns += ["published_speedup_min", "published_speedup_max", "published_accuracy"]
    table = _beside(rows, _published_program, columns).astype(float)
    difference = cells["first_accuracy"] - table["published_accuracy"]
    tested, batches = cells["dataset.test_rows"], cells["training.batch_size"]
    tested = tested - (tested % batches).where(cells["training.drop_last"].astype(bool), 0)
    agrees = np.where(difference.abs() <= rows.thresholds["agrees_accuracy"], AGREES, DIFFERS)
    return table.assign(
        images_apart=(difference * tested).round().astype("Int64"),
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


cnn_programs = cells_table(
    "The CNN report's programs, as published and with the exact gradient (Tables 3 to 6)",
    f"{_NAMES} mean_s std_s step_us",
    *_RATIO,
    f"{_SCORES} test_s test_std_s runs",
    _published_programs,
    *_END,
    rows=_rows,
    over=_over(lambda row: row["program"] == "naive"),
)


# ---- Tables 1 and 2: the PyTorch program by the workers of its loader, and pinned memory

_NUMBERS = ("published_s", "published_step_us", "published_test_s", "published_accuracy")


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
        images=[row.get("strategy.images") is True for row in cells.to_dict("records")],
    )


_measured_loader = cells_table(
    "The CNN report's PyTorch program by its loader's settings (Tables 1 and 2)",
    "dataset ran_on workers pin_memory",
    lambda rows: rows.frame[["images"] if rows.frame["images"].any() else []],
    "mean_s std_s step_us",
    *_RATIO,
    f"{_SCORES} test_s test_std_s runs",
    lambda rows: _beside(rows, _counterpart, [*_NUMBERS, "published_device"]),
    *_END,
    rows=_loader_rows,
    # The fewest workers, and no pinned memory: what the report compares with.
    over=_over(lambda row: (row["workers"], row["pin_memory"]) == (2, False), "images", "ran_on"),
)


def _loader(cells: pd.DataFrame, published: Published, thresholds: Thresholds) -> pd.DataFrame:
    """The measured rows, followed by the published ones of their data sets that have no counterpart."""
    table = _measured_loader.build(cells, published, thresholds)
    listed = [row for row in _loader_rows(cells).to_dict("records") if _is_reports(row, published)]
    shown = [_counterpart(published, row) for row in listed]
    rest = []
    for dataset in dict.fromkeys(row["dataset"] for row in listed):
        for one in _published_loaders(published, dataset):
            is_there = one["ran_on"] in set(table["ran_on"])
            why = "not in the sweep" if is_there else "the sweep cnn_pytorch measures it on a GPU's host"
            rest += [one | {"reason": f"published only: {why}"}] if one not in shown else []
    if rest:
        if "reason" not in table:
            table.insert(table.columns.get_loc("status") + 1, "reason", "")
        table = pd.DataFrame([*table.to_dict("records"), *rest], columns=table.columns)
    return table.astype(dict.fromkeys(_NUMBERS, float) | {"workers": "Int64"})


cnn_loader = cnn_pytorch = Table(_measured_loader.title, _loader, _measured_loader.pairs)


# ---- Figures 3 and 4: the naive program by block size

BLOCK = 256
"""The threads of a block in every other experiment of the report: what others are compared with."""


def _used(rows: Rows) -> pd.DataFrame:
    """Part of a batch's gradient that is computed with a row's block."""
    found = []
    for row in rows.frame.to_dict("records"):
        batch, outputs = row["training.batch_size"], int(re.findall(r"linear(\d+)", row["network"])[-1])
        written = gradients.of(row["training.gradient"], _block(row)).written(batch, outputs)
        per_sample = 1 / batch if row["training.reduction"] == "mean" else 1
        length = row["training.learning_rate"] * (written / outputs) * per_sample
        found.append(
            {"logit_gradients": written, "samples_used": written / outputs, "mean_loss_step": length}
        )
    return pd.DataFrame(found, rows.frame.index)


def _ends_of_curves(rows: Rows) -> pd.DataFrame:
    """The ends of the published curves of the rows' block sizes."""

    def end(published: Published, row: Row) -> dict[str, float]:
        curve = published["curves"].get(str(row["threads"])) if _trains_as_published(row) else None
        if curve is None:
            return {}
        seconds, steps_there = curve["cumulative_s"][-1], published["training"]["steps"]
        return dict(zip(columns, (seconds, 1e6 * seconds / steps_there, curve["mean_loss"][-1]), strict=True))

    columns = ("published_s", "published_step_us", "published_loss")
    return _beside(rows, end, columns).astype(float)


cnn_block_size = cells_table(
    "The block size of the CNN report's naive program (Figures 3 and 4)",
    f"{_NAMES} block threads",
    _used,
    "mean_s std_s step_us",
    *_RATIO,
    f"{_SCORES} runs",
    _ends_of_curves,
    *_END,
    rows=_rows,
    over=_over(lambda row: row["threads"] == BLOCK),
)


# ---- Figures 1 to 4: time and loss by epoch, and the published curves

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

    If a row trains as published on the report's data, the published curves that have no row here have rows
    without a measured value.
    """
    made = _rows(cells)
    names = made[[*_NAMES.split(), "threads"]]
    beside = assemble(Rows(made, published, thresholds), status, "runs machine", _data, "device backend")
    is_reports = [_is_reports(row, published) for row in made.to_dict("records")]
    if any(is_reports) and "reason" not in beside:
        beside["reason"] = ""
    curves = _published_curves(published) if any(is_reports) else {}
    rest = dict(curves)
    found: list[dict[str, Any]] = []
    per_epoch = (steps(cells) / cells["training.epochs"]).tolist()
    for i, row in enumerate(made.to_dict("records")):
        name = _curve_of(row, published) if is_reports[i] else None
        rest.pop(name or "", None)
        whole = names.iloc[i].to_dict() | beside.iloc[i].to_dict()
        for n, epoch in enumerate(row["curve"]):
            timed = epoch | {"step_us": 1e6 * epoch["seconds"] / per_epoch[i]}
            values = {column: timed[key] for column, key in _EPOCH.items()}
            found.append((curves[name][n] if name else {}) | whole | values)
        found += [] if row["curve"] else [whole]
    why = {"gradient": _AS_PUBLISHED, "reason": "published only: not measured on this device"}
    found += [one | why for curve in rest.values() for one in curve]
    table = pd.DataFrame(found, columns=[*names, *_EPOCH, *_PUBLISHED, "published_device", *beside])
    return table.astype({"epoch": "Int64", "threads": "Int64"} | dict.fromkeys(_PUBLISHED, float))


def _published_curves(published: Published) -> dict[str, list[dict[str, Any]]]:
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
    """The name of the published curve that was trained as a row was; None if there is none."""
    if not _trains_as_published(row):
        return None
    names = [row["program"], str(row["threads"])]
    if row["strategy"] == _LOADER:
        same = row["strategy.workers"] == published.get("workers")
        names = [f"PyTorch on the {_RAN_ON[row['backend']]}"] if same else []
    curves = published["curves"]
    return next((name for name in names if name in curves and "dataset" not in curves[name]), None)


cnn_epochs = cnn_block_epochs = Table("Time and loss by epoch, beside the CNN report's curves", _epochs)
