"""Whether the times of two cells may be divided by each other, and if not, why."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds, drift

_OF_KERNEL = ("kernel", "kernel.block", "kernel.work", "precision")


def reason(a: Mapping[str, Any], b: Mapping[str, Any], thresholds: Thresholds) -> str:
    """Empty where they may be; otherwise what differs between two rows of ``snn.analysis.frame``, and how.

    Times of two devices, of two drivers, or of moments at which the probe's costs differed are not divided,
    nor is there anything to divide where a side has no run. Of cells with two kernels, or one of two shapes,
    or with a runtime of their own, only what a copy costs is compared: the probe launches the cell's own
    kernel, and what an allocation costs depends on the memory that a library holds beside it.
    """
    for one in (a, b):
        if not one["runs"]:
            return f"{one['strategy']} has no time: {one['status']}"
    for key, what in (("device", "devices"), ("device_uuid", "devices"), ("driver", "drivers")):
        if a[key] != b[key] and not (pd.isna(a[key]) and pd.isna(b[key])):  # a CPU has no UUID
            return f"two {what}: {a[key]} and {b[key]}"
    alike = all(a.get(key) == b.get(key) for key in _OF_KERNEL) and not (a.get("runtime") or b.get("runtime"))
    before, after = (
        {key: cost for key, cost in one["probe"].items() if key == "copy_us" or alike} for one in (a, b)
    )
    drifted = drift(before, after, thresholds)
    return f"the probe drifted between them: {drifted}" if drifted else ""
