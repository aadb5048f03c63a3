"""Two training steps of each strategy, call by call: when each call ran, and the bytes held after it."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds

TITLE = "Two steps of training, call by call"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per call: microseconds since the start on the host's clock, and on the device's where it has
    device work.

    ``stream`` 0 is the default stream. ``device_bytes`` and ``pinned_bytes`` are held after the call,
    ``call_site`` is the line that made it. The times are of a separate instrumented pass, which slows every
    call a little.
    """
    tables = []
    for _, row in frame.iterrows():
        trace = row["trace"]
        if not trace:
            continue
        events = pd.DataFrame(trace["events"], columns=trace["columns"])
        events = events.rename(columns={"page_locked_bytes": "pinned_bytes", "site": "call_site"})
        events["call_site"] = [trace["sites"][site] for site in events["call_site"]]
        events["size"] = ["x".join(map(str, size)) for size in events["size"]]
        events["stream"] = events["stream"].astype("Int64")
        events.insert(0, "strategy", row["strategy"])
        tables.append(events.assign(device=row["device"], backend=row["backend"]))
    return (
        pd.concat(tables, ignore_index=True)
        if tables
        else pd.DataFrame(columns=["strategy", "device", "backend"])
    )
