"""CPU and GPU of one machine: speedups over one CPU core and over the fastest CPU baseline.

The only table that divides times of two devices by each other: a CPU's by those of the GPU in the same host.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.classification import beside_times
from snn.analysis.comparability import common_rounds
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.intervals import Ratio, ratio, ratio_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import warning
from snn.tables.overview import options_of

_NONE = (np.nan, np.nan, np.nan)
_ITSELF = ratio([[1.0], [1.0]], [[1.0], [1.0]])

TITLE = "CPU and GPU of the same machine"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell, with the device it was measured on, and two speedups with their 95% intervals.

    ``speedup_over_sequential`` is over the baseline ``sequential``, which runs on one CPU core;
    ``speedup_over_fastest_cpu`` over the fastest CPU baseline, which ``fastest_cpu`` names. Each has a
    verdict, which is empty for the baseline itself. ``ran_on`` is ``host`` for CPU baselines, otherwise
    ``device``; ``note`` warns of wide intervals. ``frame`` has been checked to be of one machine.
    """
    point = settings(frame, ("dataset", "network", "training"))
    points = texts(frame, point)
    names = pd.Series([_name(row, frame) for _, row in frame.iterrows()], index=frame.index)
    more = varied(frame, point, ["dataset", "network"])
    precision = ["precision"] if frame["precision"].nunique() > 1 else []
    rows = [_speedups(i, frame[points == points[i]], names, thresholds) for i in frame.index]
    return pd.DataFrame(
        {
            "strategy": frame["strategy"],
            "options": [name.partition(" (")[2].rstrip(")") for name in names],
            **{key: frame[key] for key in ("dataset", "network", "kernel", *precision, *more)},
            "ran_on": frame["on_host"].map({True: "host", False: "device"}),
            **{key: frame[key] for key in ("mean_s", "std_s")},
            **beside_times(frame),
            "runs": frame["runs"],
        }
    ).join([pd.DataFrame(rows, index=frame.index), outcome(frame), frame[["machine", "device", "backend"]]])


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: a baseline, and a row over it."""
    points = texts(frame, settings(frame, ("dataset", "network", "training")))
    found = []
    for i in frame.index:
        sequential, fastest = _host_baselines(frame[points == points[i]])
        found += [(int(rows.index[0]), int(i)) for rows in (sequential, fastest) if len(rows)]
    return list(dict.fromkeys(found))


def _host_baselines(point: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of ``sequential``, and all of the host by their mean time; the first of each is a baseline."""
    host = point[point["on_host"] & point["mean_s"].notna()]
    return host[host["strategy"] == "sequential"], host.sort_values("mean_s", kind="stable")


def _name(row: pd.Series, frame: pd.DataFrame) -> str:
    """The strategy's name with its options, if rows differ in them; of threads always how many."""
    options = options_of(row, frame, "strategy")
    threads = row.get("strategy.threads")
    if not options and pd.notna(threads):
        options = [f"threads {threads:.0f}"]
    return f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"]


def _speedups(i: Any, point: pd.DataFrame, names: pd.Series, thresholds: Thresholds) -> dict[str, Any]:
    sequential, fastest = _host_baselines(point)
    found = {
        "speedup_over_sequential": _ratio(sequential, i, point),
        "speedup_over_fastest_cpu": _ratio(fastest, i, point),
    }
    columns = {
        f"{name}{end}": value
        for name, values in found.items()
        for end, value in zip(("", "_ci_low", "_ci_high"), values or _NONE, strict=False)
    }
    words = {
        name.replace("speedup", "verdict"): ratio_verdict(values, thresholds["same"], thresholds["one_round"])
        for name, values in found.items()
        if values and values is not _ITSELF
    }
    notes = dict.fromkeys(warning(values, thresholds) for values in found.values() if values)
    return {
        **columns,
        **dict.fromkeys((f"verdict_over_{name}" for name in ("sequential", "fastest_cpu")), ""),
        **words,
        "fastest_cpu": names[fastest.index[0]] if len(fastest) else "",
        "note": "; ".join(filter(None, notes)),
    }


def _ratio(baselines: pd.DataFrame, i: Any, point: pd.DataFrame) -> Ratio | None:
    """The row's speedup over the first baseline; None where a side has no time."""
    if baselines.empty or pd.isna(point.loc[i, "mean_s"]):
        return None
    if baselines.index[0] == i:
        return _ITSELF
    return ratio(*common_rounds(baselines.iloc[0], point.loc[i]))
