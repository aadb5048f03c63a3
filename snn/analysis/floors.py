"""The floor of each row's training step, from the measured limits of its device, and the fraction reached."""

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.roofline import Step, check, floor
from snn.errors import RecordError
from snn.hardware.limits import Measured
from snn.records import microbenchmarks

FLOOR = "floor_s"
"""The column of a frame that ``with_floors`` adds: seconds per step, NaN where there is no floor."""


def read(path: Path, source_hash: str | None = None) -> dict[str, Any]:
    """A record of limits, as ``snn.records.microbenchmarks.read_limits`` checks it.

    Raises RecordError where it is none, or was measured with other sources.
    """
    record = microbenchmarks.read_limits(path)
    recorded = record["provenance"]["source_hash"]
    if source_hash not in (None, recorded):
        raise RecordError(
            f"{path}: measured with other sources ({recorded}) than the current ones ({source_hash}): "
            f"measure it again: snakemake --cores 1 --force {path}"
        )
    return record


def with_floors(frame: pd.DataFrame, *records: Mapping[str, Any]) -> pd.DataFrame:
    """The rows of ``snn.analysis.frame`` with the floor of each, from records of limits of one backend.

    Limits belong to one GPU, by its UUID. A row whose rounds ran on several has the least of their floors,
    which none of its times can be below. There is no floor for what ran, if only in part, on a GPU whose
    limits were not measured, or on a GPU's host, for a network that is not an MLP, for a data set whose size
    the cell does not state, and where limits are missing. Raises RecordError where the limits are of none of
    the rows' devices.
    """
    known = {device_of(record): Measured.of(record) for record in records}
    backends = [record["provenance"]["backend"] for record in records]
    rows = frame[frame["backend"].isin(backends) & frame["mean_s"].notna()]
    devices = {i: [(row["device"], gpu) for gpu in _gpus(row)] for i, row in rows.iterrows()}
    if devices and known.keys().isdisjoint(chain.from_iterable(devices.values())):
        row = rows.iloc[0]
        raise RecordError(
            f"the limits are of {' and '.join(map(named, known))}, times of "
            f"{row['device']} {row['device_uuid']}: measure the limits there, or the cells here, again"
        )
    floors = {
        i: np.min([_floor(rows.loc[i], known[one]) for one in on])
        for i, on in devices.items()
        if known.keys() >= set(on)
    }
    return frame.assign(**{FLOOR: pd.Series(floors, dtype=float).reindex(frame.index)})


def of_rows(frame: pd.DataFrame, records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those records of limits on whose devices some of the rows ran."""
    ran = {(row["device"], gpu) for _, row in frame.iterrows() for gpu in _gpus(row)}
    return [one for one in records if device_of(one) in ran]


def device_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """A record's device: its name, and a GPU's UUID."""
    return record["provenance"]["device"], record["provenance"]["device_uuid"] or ""


def named(device: tuple[str, str]) -> str:
    """A device for a message."""
    return " ".join(filter(None, device))


def _gpus(row: pd.Series) -> list[str]:
    """The UUIDs of the GPUs of a row's rounds; an empty one on a CPU."""
    return ("" if pd.isna(row["device_uuid"]) else row["device_uuid"]).split(", ")


def fraction_of_limit(frame: pd.DataFrame) -> pd.Series:
    """The floor of each row over its mean time per step, between 0 and 1; NaN where there is no floor.

    Where one launch trains several members it is the launch's time, which is no less than one member takes.
    Raises MeasurementError where a time is below its floor: then one of the two was measured wrongly.
    """
    if FLOOR not in frame:
        return pd.Series(np.nan, frame.index)
    seconds = frame["mean_s"] * frame["members"] / steps(frame)
    for i, row in frame[frame[FLOOR].notna()].iterrows():
        cell = (row[name] for name in ("dataset", "network", "strategy", "kernel", "precision"))
        check(", ".join(filter(None, cell)), seconds[i], row[FLOOR])
    return frame[FLOOR] / seconds


def steps(frame: pd.DataFrame) -> pd.Series:
    """The steps of one run of each row; NaN for a data set whose size the cell does not state.

    Rows that fill no batch are a step of their own, unless the training leaves them out (``drop_last``).
    """
    rows = frame["dataset.rows"] if "dataset.rows" in frame else pd.Series(np.nan, frame.index)
    batches = rows.astype(float) / frame["training.batch_size"]
    drops_last = frame.get("training.drop_last", pd.Series(False, frame.index)).astype(bool)
    return frame["training.epochs"] * batches.map(np.floor).where(drops_last, batches.map(np.ceil))


def _floor(row: pd.Series, measured: Measured) -> float:
    rows, features = (row.get(f"dataset.{name}") for name in ("rows", "features"))
    if row["hidden"] is None or pd.isna(rows) or pd.isna(features):
        return np.nan
    step = Step(
        features=int(features),
        hidden=tuple(row["hidden"]),
        rows=int(rows),
        batch_size=int(row["training.batch_size"]),
        sequential=row["network.update_order"] == "sequential",
        precision=row["precision"],
    )
    bound = floor(step, measured)
    return bound.seconds if bound else np.nan
