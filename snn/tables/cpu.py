"""CPU and GPU of one machine: speedups over one CPU core and over the fastest CPU baseline.

The only table that divides times of two devices by each other: a CPU's by those of the GPU in the same host.
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

TITLE = "CPU and GPU of the same machine"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell, with the device it was measured on, and two speedups with their 95% intervals.

    ``speedup_over_sequential`` is over the baseline ``sequential``, which runs on one CPU core;
    ``speedup_over_fastest_cpu`` over the fastest CPU baseline, which ``fastest_cpu`` names. ``ran_on`` is
    ``host`` for CPU baselines, otherwise ``device``. ``frame`` has been checked to be of one machine.
    """
    point = settings(frame, ("dataset", "network", "training"))
    points = texts(frame, point)
    names = pd.Series([_name(row, frame) for _, row in frame.iterrows()], index=frame.index)
    more = varied(frame, point, ["dataset", "network"])
    rows = [_speedups(i, frame[points == points[i]], names) for i in frame.index]
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "options": [name.partition(" (")[2].rstrip(")") for name in names],
            **{key: frame[key] for key in ("dataset", "network", "kernel", *more)},
            "ran_on": frame["on_host"].map({True: "host", False: "device"}),
            **{key: frame[key] for key in ("mean_s", "std_s", "runs")},
        }
    ).join([pd.DataFrame(rows, index=frame.index), outcome(frame), frame[["machine", "device", "backend"]]])


def _name(row: pd.Series, frame: pd.DataFrame) -> str:
    options = options_of(row, frame, "strategy")
    return f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"]


def _speedups(i: Any, point: pd.DataFrame, names: pd.Series) -> dict[str, Any]:
    host = point[point["on_host"] & point["mean_s"].notna()]
    sequential = host[host["strategy"] == "sequential"]
    fastest = host.sort_values("mean_s", kind="stable")
    return {
        **_speedup("speedup_over_sequential", sequential, i, point),
        **_speedup("speedup_over_fastest_cpu", fastest, i, point),
        "fastest_cpu": names[fastest.index[0]] if len(fastest) else "",
    }


def _speedup(name: str, baselines: pd.DataFrame, i: Any, point: pd.DataFrame) -> dict[str, float]:
    """The row's speedup over the first baseline, with its interval; NaN where a side has no time."""
    row = point.loc[i]
    if baselines.empty or pd.isna(row["mean_s"]):
        values = (np.nan, np.nan, np.nan)
    elif baselines.index[0] == i:
        values = (1.0, 1.0, 1.0)
    else:
        baseline = baselines.iloc[0]
        interval = ratio_interval(baseline["rounds"], row["rounds"])
        values = (baseline["mean_s"] / row["mean_s"], *interval)
    return dict(zip((name, f"{name}_ci_low", f"{name}_ci_high"), values, strict=True))
