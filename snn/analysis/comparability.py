"""Whether the times of two cells may be divided by each other, and if not, why."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.intervals import Rounds
from snn.analysis.machine_state import Thresholds, drift

_EQUAL = {
    "device": "devices",
    "driver": "drivers",
    "blas_threads": "numbers of BLAS threads",
}
"""Columns that must be equal, and what they count."""

_OF_KERNEL = ("kernel.name", "kernel.block", "kernel.work", "precision")

COMPARED = (
    *(*_EQUAL, *_OF_KERNEL),
    *("strategy", "status", "runs", "rounds", "gpus", "device_uuid", "runtime", "probe", "surroundings"),
)
"""Columns that ``reason`` and ``common_rounds`` read."""


def reason(a: Mapping[str, Any], b: Mapping[str, Any], thresholds: Thresholds) -> str:
    """Why the times of two rows of ``snn.analysis.frame`` may not be divided; empty where they may.

    They may not where all rounds of both were measured on two devices, where the drivers, the BLAS threads or
    the surroundings of the processes (``snn.records.rounds``) differ, where the probe's costs drifted between
    the two, or where a side has no run. The probe launches the cell's own kernel, and what an allocation
    costs depends on the memory that a library holds. So of cells with different kernels, or with a runtime of
    their own, only the cost of a copy is compared.
    """
    for row in (a, b):
        if not row["runs"]:
            return f"{row['strategy']} has no time: {row['status']}"
    for key, what in _EQUAL.items():
        if a[key] != b[key] and not (pd.isna(a[key]) and pd.isna(b[key])):  # a CPU has no UUID
            return f"different {what}: {a[key]} and {b[key]}"
    around, others = (row.get("surroundings") for row in (a, b))
    if isinstance(around, Mapping) and isinstance(others, Mapping):  # of earlier records nothing is known
        for what in filter(others.__contains__, around):
            if around[what] != others[what]:
                return f"different {what}: {around[what]} and {others[what]}"
    rounds = zip(_gpus(a), _gpus(b), a["rounds"], b["rounds"], strict=False)
    on = [(x, y) for x, y, *seconds in rounds if all(seconds)]
    if on and not any(x == y for x, y in on):
        return f"different devices: {a['device_uuid']} and {b['device_uuid']}"
    alike = all(a.get(key) == b.get(key) for key in _OF_KERNEL) and not (a.get("runtime") or b.get("runtime"))
    before, after = (
        {key: cost for key, cost in row["probe"].items() if key == "copy_us" or alike} for row in (a, b)
    )
    drifted = drift(before, after, thresholds)
    return f"the probe's costs drifted between the two: {drifted}" if drifted else ""


def common_rounds(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[Rounds, Rounds]:
    """The seconds of two rows by round, without those of rounds that were measured on two GPUs.

    A GPU's host has no UUID: its rounds may stand beside those of the GPU.
    """
    both = zip(_gpus(a), _gpus(b), strict=False)
    kept = [x == y or x is None or y is None for x, y in both]
    first, second = (
        [seconds if keep else [] for seconds, keep in zip(row["rounds"], kept, strict=False)]
        for row in (a, b)
    )
    return first, second


def _gpus(row: Mapping[str, Any]) -> list[str | None]:
    """The UUID of the GPU of each round of a row, None for a CPU."""
    uuid = row["device_uuid"]
    alone = None if pd.isna(uuid) else uuid
    return row.get("gpus") or [alone] * len(row.get("rounds") or [alone])
