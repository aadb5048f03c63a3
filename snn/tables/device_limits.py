"""What the device can do at best, measured: the rates and waits that floors are computed from."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.hardware.limits import BYTES, FLOPS, SECONDS, Measured

TITLE = "What the device can do at best"

_SHOWN = {FLOPS: ("GFLOP/s", 1e-9), BYTES: ("GB/s", 1e-9), SECONDS: ("us", 1e6)}


def build(limits: Mapping[str, Any]) -> pd.DataFrame:
    """One row a limit of a record: the median, the least and the most of its samples, in ``unit``.

    ``blocks``: by or between how many, each on a multiprocessor of its own. Where the device has no such
    thing the row is ``unsupported`` and says why.
    """
    where, rows = limits["provenance"], []
    for one in Measured.of(limits).limits:
        unit, factor = _SHOWN[one.unit]
        samples = [factor * sample for sample in one.samples]
        rows.append(
            {
                "limit": one.what,
                "blocks": one.blocks,
                "value": factor * one.value if one.value is not None else None,
                "least": min(samples, default=None),
                "most": max(samples, default=None),
                "unit": unit,
                "samples": len(samples),
                "how": one.how,
                "status": "ok" if samples else "unsupported",
                "reason": one.reason,
            }
        )
    table = pd.DataFrame(rows).astype({"blocks": "Int64", "value": float, "least": float, "most": float})
    return table.assign(device=where["device"], backend=where["backend"])
