"""Time of the calls that allocate and move memory, by size."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.medians import median_interval
from snn.microbenchmarks.memory_calls import BOTH, COPIES, FROM_PAGEABLE, FROM_PINNED, PRODUCTS
from snn.microbenchmarks.readings import OK, Reading

TITLE = "Time of memory calls"

_POINT = ("kind", "call", "direction", "bytes", "live", "streams")
_COUNTS = ("bytes", "live", "streams")


def build(record: Mapping[str, Any]) -> pd.DataFrame:
    """One row per call, direction, size and number of streams: the median of its samples, in ``unit``.

    ``low`` and ``high`` are the 95% interval of the median. ``live`` counts the other blocks of the size that
    are allocated meanwhile. The rows ``overlap`` are the fraction of the shorter of copies and products that
    runs beside the longer one: (copies + products - both) / min(copies, products), sample by sample.
    """
    readings = list(map(Reading.of, record["readings"]))
    rows = [_row(reading, "us", [1e6 * seconds for seconds in reading.seconds]) for reading in readings]
    of_streams: dict[Any, dict[Any, Reading]] = {}
    for reading in readings:
        if reading.point.get("kind") in (FROM_PINNED, FROM_PAGEABLE):
            point = reading.point["kind"], reading.point["streams"]
            of_streams.setdefault(point, {})[reading.point["call"]] = reading
    rows += [_overlap(parts) for parts in of_streams.values() if parts.keys() == {COPIES, PRODUCTS, BOTH}]
    provenance = record["provenance"]
    table = pd.DataFrame(rows).astype(
        dict.fromkeys(_COUNTS, "Int64") | dict.fromkeys(("median", "low", "high"), float)
    )
    return table.assign(device=provenance["device"], backend=provenance["backend"])


def _row(reading: Reading, unit: str, values: list[float]) -> dict[str, Any]:
    middle, low, high = median_interval(values) if values else (None, None, None)
    return {
        **{key: reading.point.get(key) for key in _POINT},
        **{"median": middle, "low": low, "high": high, "unit": unit, "samples": len(values)},
        **{"status": reading.status, "reason": reading.reason},
    }


def _overlap(parts: Mapping[Any, Reading]) -> dict[str, Any]:
    """The row of the overlap that a number of streams reaches."""
    both = parts[BOTH]
    fractions = []
    if all(part.status == OK for part in parts.values()):
        times = zip(*(parts[call].seconds for call in (COPIES, PRODUCTS, BOTH)), strict=False)
        fractions = [(copies + products - done) / min(copies, products) for copies, products, done in times]
    return {**_row(both, "fraction", fractions), "call": "overlap"}
