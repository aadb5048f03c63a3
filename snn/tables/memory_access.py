"""Bandwidth by pattern of memory access, beside the device's measured limit."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.medians import median_interval
from snn.analysis.microbenchmarks import limit_of
from snn.microbenchmarks.readings import Reading

TITLE = "Bandwidth by pattern of memory access"

_GB = 1e-9
_INTERVAL = ("median", "low", "high")
_RATES = ("moved_gb_s", "limit_gb_s", "fraction_of_limit")
_COLUMNS = (*_INTERVAL, "unit", *_RATES)


def build(record: Mapping[str, Any], *limits: Mapping[str, Any]) -> pd.DataFrame:
    """One row per pattern, value and access: the bytes per second that are asked for, in ``unit``.

    ``low`` and ``high`` are the 95% interval of the ``median``. ``moved_gb_s`` counts the whole sectors (on a
    CPU: lines of the cache) that hold these bytes, once for each group of threads that asks for them; where a
    cache has them the second time, it can exceed the limit. ``fraction_of_limit`` is the median over
    ``limit_gb_s``, the device's measured limit of reading or copying.
    """
    limit = {access: limit_of(record, limits, f"dram_{access}") for access in ("read", "copy")}
    rows = [_row(reading, limit[reading.point["access"]]) for reading in map(Reading.of, record["readings"])]
    provenance = record["provenance"]
    table = pd.DataFrame(rows).astype(dict.fromkeys((*_INTERVAL, *_RATES), float))
    return table.assign(device=provenance["device"], backend=provenance["backend"])


def _row(reading: Reading, limit: float | None) -> dict[str, Any]:
    useful, moved = reading.point["useful_bytes"], reading.point["moved_bytes"]
    rates = [_GB * useful / seconds for seconds in reading.seconds]
    row = {**reading.point, **dict.fromkeys(_COLUMNS), "unit": "GB/s", "samples": len(rates)}
    row |= {"status": reading.status, "reason": reading.reason}
    row["limit_gb_s"] = limit and _GB * limit
    if rates:
        middle, low, high = median_interval(rates)
        row |= {"median": middle, "low": low, "high": high, "moved_gb_s": middle * moved / useful}
        row["fraction_of_limit"] = middle / (_GB * limit) if limit else None
    return row
