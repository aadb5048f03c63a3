"""Peak memory of each strategy by purpose, and its fragmentation."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds

MEMORY = "memory."
TITLE = "Peak memory by purpose"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per strategy and data set: peak bytes of device memory by purpose, reserved and free bytes,
    pinned host bytes, the largest fraction of the device's memory in use, and a warning where it exceeds 90%.

    ``reserved_bytes`` counts the 2 MiB chunks that the blocks touch; ``fragmentation`` is the share of their
    free bytes outside of the largest free run. A cell that ran out of memory has a ``reason``.
    """
    columns = [name for name in frame if name.startswith(MEMORY)]
    table = frame[["strategy", "dataset", *columns]].rename(
        columns={name: name.removeprefix(MEMORY) for name in columns}
    )
    return table.join(frame[["status", "reason", "device", "backend"]])
