"""The measured limits of the device: the rates and latencies that floors are computed from."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.hardware.limits import BYTES, CYCLES, FLOPS, SECONDS, Measured

TITLE = "Measured limits of the device"

_SHOWN = {FLOPS: ("GFLOP/s", 1e-9), BYTES: ("GB/s", 1e-9), SECONDS: ("us", 1e6), CYCLES: ("cycles", 1.0)}


def build(limits: Mapping[str, Any]) -> pd.DataFrame:
    """One row per limit of a record: the median, minimum and maximum of its samples, in ``unit``.

    ``blocks`` is the number of blocks that it was measured with or between, each on an SM of its own. Where
    the device lacks the feature, the row is ``unsupported`` and ``reason`` says why.
    """
    provenance, rows = limits["provenance"], []
    for limit in Measured.of(limits).limits:
        unit, factor = _SHOWN[limit.unit]
        samples = [factor * sample for sample in limit.samples]
        rows.append(
            {
                "limit": limit.what,
                "blocks": limit.blocks,
                "median": factor * limit.value if limit.value is not None else None,
                "min": min(samples, default=None),
                "max": max(samples, default=None),
                "unit": unit,
                "samples": len(samples),
                "method": limit.how,
                "status": "ok" if samples else "unsupported",
                "reason": limit.reason,
            }
        )
    table = pd.DataFrame(rows).astype({"blocks": "Int64", "median": float, "min": float, "max": float})
    return table.assign(device=provenance["device"], backend=provenance["backend"])
