"""Fragmentation of device memory by trace and allocator: memory reserved, time, memory that suffices."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from snn.analysis.medians import median_interval
from snn.microbenchmarks.fragmentation import AGAIN, CAP, FIRST
from snn.microbenchmarks.readings import OK, OUT_OF_MEMORY, Reading

TITLE = "Fragmentation by allocator"

_NUMBERS = (
    *("reserved_bytes", "reserved_over_used"),
    *("first_us", "first_us_low", "first_us_high", "again_us", "again_us_low", "again_us_high"),
    *("suffices", "fails", "served"),
)


def build(record: Mapping[str, Any]) -> pd.DataFrame:
    """One row per trace and allocator.

    ``reserved_over_used`` is the peak of what the system has handed out over the peak in use. Times are
    medians per call with their 95% interval: through a new allocator (``first_us``), and through one that has
    served the trace before (``again_us``); of cudaMalloc, which keeps nothing, both are the same.
    ``suffices`` is the least of the caps, as a multiple of the peak in use, with which no allocation failed;
    ``fails`` the largest with which one did, after the share ``served`` of the calls.
    """
    groups: dict[tuple[str, str], dict[str, list[Reading]]] = {}
    for reading in map(Reading.of, record["readings"]):
        of = groups.setdefault((reading.point["trace"], reading.point["allocator"]), {})
        of.setdefault(reading.point["kind"], []).append(reading)
    rows = [_row(trace, allocator, kinds) for (trace, allocator), kinds in groups.items()]
    provenance = record["provenance"]
    table = pd.DataFrame(rows).astype(dict.fromkeys(_NUMBERS, float))
    return table.assign(device=provenance["device"], backend=provenance["backend"])


def _row(trace: str, allocator: str, kinds: Mapping[str, Sequence[Reading]]) -> dict[str, Any]:
    first, caps = kinds[FIRST][0], kinds.get(CAP, ())
    again, point = kinds.get(AGAIN, [first])[0], first.point
    row = {
        **{
            "trace": trace,
            "allocator": allocator,
            "calls": point["calls"],
            "used_bytes": point["peak_bytes"],
        },
        **dict.fromkeys(_NUMBERS),
    }
    if first.status == OK:
        row["reserved_bytes"] = point["reserved_bytes"]
        row["reserved_over_used"] = point["reserved_bytes"] / point["peak_bytes"]
    for kind, reading in (("first_us", first), ("again_us", again)):
        if reading.status == OK:
            per_call = [1e6 * seconds / point["calls"] for seconds in reading.seconds]
            row[kind], row[f"{kind}_low"], row[f"{kind}_high"] = median_interval(per_call)
    for cap in caps:
        if cap.status == OK:
            row["suffices"] = cap.point["percent"] / 100
        elif cap.status == OUT_OF_MEMORY:
            row["fails"], row["served"] = cap.point["percent"] / 100, cap.point["served"] / point["calls"]
    return row | {"status": first.status, "reason": first.reason}
