"""The same training by PyTorch and JAX beside the project's fastest: microseconds a step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.bootstrap import mean_interval
from snn.analysis.floors import FLOOR, fraction_of_limit, steps
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import against
from snn.analysis.status import outcome

TITLE = "The same training by other systems"

_RATIO = ("speedup", "speedup_low", "speedup_high")


def build(frame: pd.DataFrame, paper: Mapping[str, Any], verdicts: Thresholds) -> pd.DataFrame:
    """One row a cell: the time of a step, and how many times faster than the best peer of its network.

    ``step_us`` is the mean time of a run over its steps, in microseconds, with its 95% interval; it is empty
    for a data set whose rows the cell does not state. ``over_best_peer`` is the time of ``best_peer``, the
    peer with the shortest mean, over the row's, with its interval and word; of that peer itself it is 1.
    ``floor_us`` is what a step takes at least on this device (``snn.analysis.roofline``),
    ``fraction_of_limit`` how much of ``step_us`` that is; a time below it is refused (MeasurementError).
    ``runtime`` names a peer's package and version; such a row has no ``kernel``, as it uses none of these.
    """
    point = settings(frame, ("dataset", "network", "training"))
    points = texts(frame, point)
    is_peer = frame["runtime"] != ""
    best = [_best(frame[(points == points[i]) & is_peer]) for i in frame.index]
    more = varied(frame, point, ["dataset", "network"])
    table = frame[["network", "dataset", "strategy"]].join(frame[more])
    table["kernel"] = frame["kernel"].where(~is_peer, "")
    table["runtime"] = frame["runtime"]
    table = table.join(_steps(frame))
    table["floor_us"] = 1e6 * frame[FLOOR] if FLOOR in frame else np.nan
    table = table.assign(fraction_of_limit=fraction_of_limit(frame), runs=frame["runs"])
    ratios = against(frame, best, verdicts)
    for name in _RATIO:
        table[name.replace("speedup", "over_best_peer")] = ratios[name]
    timed = frame["mean_s"].notna().tolist()
    table["comparison"] = ratios["comparison"].replace("base", "best peer")
    table["best_peer"] = [
        frame["strategy"][i] if i >= 0 and has_time else "" for i, has_time in zip(best, timed, strict=True)
    ]
    table["why"] = ratios["why"]
    table["final_mse"] = frame["final_mse"]
    table = table.join(outcome(frame))
    return table.assign(machine=ratios["machine"], device=frame["device"], backend=frame["backend"])


def _best(peers: pd.DataFrame) -> int:
    """The number of the row with the shortest mean time; -1 where none has one."""
    times = peers["mean_s"].dropna()
    return int(times.idxmin()) if len(times) else -1


def _steps(frame: pd.DataFrame) -> pd.DataFrame:
    """Microseconds of a step of each row, with their 95% interval."""
    per_step = 1e6 / steps(frame)
    low, high = zip(*(mean_interval(rounds) for rounds in frame["rounds"]), strict=True)
    return pd.DataFrame(
        {
            "step_us": frame["mean_s"] * per_step,
            "step_low_us": per_step * np.array(low),
            "step_high_us": per_step * np.array(high),
        }
    )
