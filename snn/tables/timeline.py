"""Two steps of each strategy, call by call: what ran where, and how many bytes were held."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds

TITLE = "Two steps of training, call by call"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a call: microseconds since the beginning on the host's clock, and on the
    device's where it worked.

    ``stream`` 0 is the default one. ``device_bytes`` and ``page_locked_bytes`` are held after the call,
    ``site`` is the line that asked. It comes from a pass of its own, whose marks slow every call a little.
    """
    tables = []
    for _, row in frame.iterrows():
        traced = row["trace"]
        if not traced:
            continue
        events = pd.DataFrame(traced["events"], columns=traced["columns"])
        events["site"] = [traced["sites"][site] for site in events["site"]]
        events["size"] = ["x".join(map(str, size)) for size in events["size"]]
        events["stream"] = events["stream"].astype("Int64")
        events.insert(0, "strategy", row["strategy"])
        tables.append(events.assign(device=row["device"], backend=row["backend"]))
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else pd.DataFrame(columns=["strategy", "device", "backend"])
    )
