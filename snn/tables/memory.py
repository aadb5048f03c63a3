"""What memory each strategy holds at its peak, by kind, and how it lies."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds

MEMORY = "memory."
TITLE = "Memory at its peak, by kind"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a strategy and data set: bytes of device memory at the peak by kind, reserved and free in it,
    page-locked bytes, the largest share of the device that was in use, and a warning where that is over 90%.

    ``reserved_bytes`` are the 2 MiB chunks that the blocks touch, ``fragmentation`` the share of their free
    bytes outside of the largest free run. A cell that ran out of memory says so in ``reason``.
    """
    columns = [name for name in frame if name.startswith(MEMORY)]
    table = frame[["strategy", "dataset", *columns]].rename(
        columns={name: name.removeprefix(MEMORY) for name in columns}
    )
    return table.join(frame[["status", "reason", "device", "backend"]])
