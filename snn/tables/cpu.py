"""How many times faster than the host's own processor: the classic CPU-to-GPU speedups, of one machine.

The one place where times of two devices are divided by each other: a GPU's by those of the very host that it
is in, which is what the columns say.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.bootstrap import ratio_interval
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.machine_state import Thresholds
from snn.analysis.status import outcome
from snn.tables.overview import options_of

TITLE = "The host's processor and the device of the same machine"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a cell, with the device that it was measured on, and two ratios with their 95% intervals.

    ``over_sequential`` is the time of the baseline ``sequential``, one core of the host, over the row's;
    ``over_fastest_host`` that of the host's fastest baseline, which ``fastest_host`` names. Of a row of the
    GPU both divide a time of the host's processor by one of the GPU. ``where`` says ``host`` or ``device``.
    ``frame`` has been checked to be of one machine.
    """
    point = settings(frame, ("dataset", "network", "training"))
    points = texts(frame, point)
    names = pd.Series([_name(row, frame) for _, row in frame.iterrows()], index=frame.index)
    more = varied(frame, point, ["dataset", "network"])
    rows = [_ratios(i, frame[points == points[i]], names) for i in frame.index]
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "options": [name.partition(" (")[2].rstrip(")") for name in names],
            **{key: frame[key] for key in ("dataset", "network", "kernel", *more)},
            "where": frame["on_host"].map({True: "host", False: "device"}),
            **{key: frame[key] for key in ("mean_s", "std_s", "runs")},
        }
    ).join([pd.DataFrame(rows, index=frame.index), outcome(frame), frame[["machine", "device", "backend"]]])


def _name(row: pd.Series, frame: pd.DataFrame) -> str:
    options = options_of(row, frame, "strategy")
    return f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"]


def _ratios(i: Any, point: pd.DataFrame, names: pd.Series) -> dict[str, Any]:
    host = point[point["on_host"] & point["mean_s"].notna()]
    sequential = host[host["strategy"] == "sequential"]
    fastest = host.sort_values("mean_s", kind="stable")
    return {
        **_ratio("over_sequential", sequential, i, point),
        **_ratio("over_fastest_host", fastest, i, point),
        "fastest_host": names[fastest.index[0]] if len(fastest) else "",
    }


def _ratio(name: str, bases: pd.DataFrame, i: Any, point: pd.DataFrame) -> dict[str, float]:
    """The first base's mean time over that of the row, with its interval; empty where a side has none."""
    row = point.loc[i]
    if bases.empty or pd.isna(row["mean_s"]):
        found = (np.nan, np.nan, np.nan)
    elif bases.index[0] == i:
        found = (1.0, 1.0, 1.0)
    else:
        base = bases.iloc[0]
        found = (base["mean_s"] / row["mean_s"], *ratio_interval(base["rounds"], row["rounds"]))
    return dict(zip((name, f"{name}_low", f"{name}_high"), found, strict=True))
