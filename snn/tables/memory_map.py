"""Where each allocator puts the blocks of a trace, over time."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.microbenchmarks.readings import OK, Reading

TITLE = "Memory map over time"

_OF_BLOCK = ("allocated", "freed", "place", "bytes", "in_use_bytes", "reserved_bytes")


def build(record: Mapping[str, Any]) -> pd.DataFrame:
    """One row per allocator and block: the calls that allocate and free it, its place and its bytes.

    ``place`` counts bytes without the parts of the address space that no block of the trace touches.
    ``in_use_bytes`` and ``reserved_bytes`` are those of all blocks right after the allocation. An allocator
    that the device does not have is one row, with the reason.
    """
    parts = []
    for reading in map(Reading.of, record["readings"]):
        ok = reading.status == OK
        series = reading.series if ok else {name: [None] for name in _OF_BLOCK}
        part = pd.DataFrame({name: pd.array(series[name], dtype="Int64") for name in _OF_BLOCK})
        part.insert(0, "trace", reading.point["trace"])
        part.insert(1, "allocator", reading.point["allocator"])
        parts.append(part.assign(status=reading.status, reason=reading.reason))
    provenance = record["provenance"]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(device=provenance["device"], backend=provenance["backend"])
