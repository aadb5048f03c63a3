"""Where the time of a run goes, by strategy and data set."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.verdict import Thresholds

PART = "part."


TITLE = "Where the time of one training goes"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a strategy and data set: seconds of one run by part, their sum, and the measured mean.

    The parts come from an untimed pass with a timer around every call, so their sum is a little more than the
    measured mean: ``attributed_s`` / ``mean_s`` says by how much.
    """
    parts = [name for name in frame if name.startswith(PART)]
    table = frame[["strategy", "dataset", *parts]].rename(
        columns={name: name.removeprefix(PART) + "_s" for name in parts}
    )
    table["attributed_s"] = frame[parts].sum(axis=1, min_count=1)
    columns = ["mean_s", "std_s", "status", "machine", "device", "backend"]
    return table.join(frame[columns])
