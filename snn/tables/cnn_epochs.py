"""Time and loss by epoch beside published curves: the form of Figures 1 to 4 of the CNN report."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from snn.analysis.floors import steps
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.tables import cnn_rows
from snn.tables.cnn_rows import AS_PUBLISHED, LOADER

TITLE = "Time and loss by epoch, beside the CNN report's curves"

_MEASURED = (
    *("epoch", "epoch_s", "step_us", "cumulative_s", "cumulative_std_s"),
    *("loss", "mean_loss", "mean_loss_std"),
)
_PUBLISHED = ("published_cumulative_s", "published_loss")


def build(frame: pd.DataFrame, published: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell and epoch, each of which was timed; of a cell without a time one row.

    ``epoch_s`` is the mean time of the epoch over all runs, ``cumulative_s`` that from the start of the
    training; ``mean_loss`` is the mean of the epoch's batch losses over all runs, ``loss`` that of the first
    run, whose initial weights are the published ones. ``published_cumulative_s`` and ``published_loss`` are
    the published curve of a row that trains as published on the report's data. Where there is such a row, the
    published curves that have no row here have rows without a measured value.
    """
    rows = cnn_rows.named(frame).assign(threads=[cnn_rows.threads(row) for row in frame.to_dict("records")])
    is_reports = cnn_rows.is_reports(frame, published)
    beside = outcome(frame).join(frame[["runs", "machine"]])
    beside = beside.assign(data=cnn_rows.data(frame, published), device=frame["device"])
    beside["backend"] = frame["backend"]
    if any(is_reports) and "reason" not in beside:
        beside["reason"] = ""
    per_epoch = steps(frame) / frame["training.epochs"]
    found: list[dict[str, Any]] = []
    shown = set()
    for i, row in enumerate(frame.to_dict("records")):
        name = _curve_of(row, published) if is_reports[i] else None
        shown |= {name}
        for epoch in row["curve"] or [{}]:
            found.append(
                rows.iloc[i].to_dict()
                | _measured(epoch, float(per_epoch.iloc[i]))
                | _published(published, name, epoch.get("epoch"))
                | beside.iloc[i].to_dict()
            )
    if any(is_reports):
        found += _not_measured(published, shown)
    columns = [*rows, *_MEASURED, *_PUBLISHED, "published_device", *beside]
    table = pd.DataFrame(found, columns=columns)
    return table.astype({"epoch": "Int64", "threads": "Int64"} | dict.fromkeys(_PUBLISHED, float))


def _measured(epoch: Mapping[str, Any], per_epoch: float) -> dict[str, Any]:
    if not epoch:
        return {}
    same = ("epoch", "cumulative_s", "cumulative_std_s", "mean_loss", "mean_loss_std")
    return {key: epoch[key] for key in same} | {
        "epoch_s": epoch["seconds"],
        "step_us": 1e6 * epoch["seconds"] / per_epoch,
        "loss": epoch["first_mean_loss"],
    }


def _curve_of(row: Mapping[str, Any], published: Mapping[str, Any]) -> str | None:
    """The name of the published curve of what trains as a row does; None where there is none.

    A curve with a ``dataset`` is of another data set than the file's, or of one that is not stated.
    """
    if not cnn_rows.trains_as_published(row):
        return None
    if row["strategy"] == LOADER:
        where = "GPU" if row["backend"] == "cuda" else "CPU"
        names = [f"PyTorch on the {where}"] if row["strategy.workers"] == published.get("workers") else []
    else:
        names = [cnn_rows.program(row), str(cnn_rows.threads(row))]
    curves = published["curves"]
    return next((name for name in names if name in curves and "dataset" not in curves[name]), None)


def _published(published: Mapping[str, Any], name: str | None, epoch: int | None) -> dict[str, Any]:
    """The published values of an epoch of a curve, and their device."""
    if name is None or epoch is None:
        return {}
    curve = published["curves"][name]
    return {
        "published_cumulative_s": curve["cumulative_s"][epoch - 1],
        "published_loss": curve["mean_loss"][epoch - 1],
        "published_device": curve.get("device", published["device"]),
    }


def _not_measured(published: Mapping[str, Any], shown: set[str | None]) -> Iterator[dict[str, Any]]:
    """The published curves that no row here is the counterpart of, by epoch, with the reason."""
    own = {"gradient": AS_PUBLISHED, "reason": "published only: not measured on this device"}
    of_file = ", ".join(published["training"]["data"])
    for name, curve in published["curves"].items():
        own |= {"program": name, "dataset": curve.get("dataset", of_file)}
        for epoch in range(1, 1 + published["training"]["epochs"]) if name not in shown else ():
            yield own | {"epoch": epoch} | _published(published, name, epoch)
