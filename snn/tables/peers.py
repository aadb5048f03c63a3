"""The same training in PyTorch and JAX beside the fastest strategies here: µs per step."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from snn.analysis.classification import beside_times
from snn.analysis.floors import FLOOR, fraction_of_limit, steps
from snn.analysis.grouping import settings, texts, varied
from snn.analysis.intervals import mean_interval
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, over_baselines
from snn.analysis.verdicts import BASELINE, BEST_PEER
from snn.tables.overview import options_of

TITLE = "The same training in PyTorch and JAX"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: the time per step, and the speedup over the best peer of its network.

    ``step_us`` is the mean time of a run over its steps, in microseconds, with its 95% interval; NaN for a
    data set whose size the cell does not state. ``best_peer`` is the peer of the same precision with the
    shortest mean time; ``speedup_over_best_peer`` has its interval and verdict, and is 1 for that peer
    itself. ``floor_us`` is
    the lower bound of a step on this device (``snn.analysis.roofline``), ``fraction_of_limit`` its share of
    ``step_us``; a time below the floor raises MeasurementError. ``runtime`` is a peer's package and version;
    a peer has no ``kernel``, as it uses none of ours. ``options`` are those in which rows of one strategy
    differ, where any do.
    """
    best = _best_peers(frame)
    more = varied(frame, _point(frame), ["dataset", "network"])
    table = frame[["network", "dataset", "strategy"]].join(frame[more])
    options = [", ".join(options_of(row, frame, "strategy")) for _, row in frame.iterrows()]
    if any(options):
        table["options"] = options
    table["kernel"] = frame["kernel"]
    table["runtime"] = frame["runtime"]
    table = table.join(_step_times(frame))
    table["floor_us"] = 1e6 * frame[FLOOR] if FLOOR in frame else np.nan
    table = table.assign(fraction_of_limit=fraction_of_limit(frame), runs=frame["runs"])
    ratios = over_baselines(frame, best, thresholds)
    for name in SPEEDUP:
        table[name.replace("speedup", "speedup_over_best_peer")] = ratios[name]
    timed = frame["mean_s"].notna().tolist()
    table["verdict"] = ratios["verdict"].replace(BASELINE, BEST_PEER)
    table["best_peer"] = [
        frame["strategy"][i] + (f" ({options[i]})" if options[i] else "") if i >= 0 and has_time else ""
        for i, has_time in zip(best, timed, strict=True)
    ]
    table["note"] = ratios["note"]
    table = table.assign(final_mse=frame["final_loss"], draws=frame["draws"])
    tested = beside_times(frame).drop(columns="step_us", errors="ignore")
    table = table.join(tested)
    table = table.join(outcome(frame))
    return table.assign(machine=ratios["machine"], device=frame["device"], backend=frame["backend"])


def pairs(frame: pd.DataFrame) -> list[tuple[int, int]]:
    """The numbers of the rows that are compared: the best peer, and a row over it."""
    return [(best, i) for i, best in enumerate(_best_peers(frame)) if best >= 0]


def _best_peers(frame: pd.DataFrame) -> list[int]:
    """The number of the best peer at each row's point; -1 where there is none."""
    points = texts(frame, _point(frame))
    is_peer = frame["runtime"] != ""
    return [_fastest(frame[(points == points[i]) & is_peer]) for i in frame.index]


def _point(frame: pd.DataFrame) -> list[str]:
    """The columns in which rows must be equal that are compared: what is trained, and in which precision."""
    return [*settings(frame, ("dataset", "network", "training")), "precision"]


def _fastest(peers: pd.DataFrame) -> int:
    """The number of the row with the shortest mean time; -1 where none has one."""
    times = peers["mean_s"].dropna()
    return int(times.idxmin()) if len(times) else -1


def _step_times(frame: pd.DataFrame) -> pd.DataFrame:
    """The microseconds per step of each row, with their 95% interval."""
    per_step = 1e6 / steps(frame)
    low, high = zip(*(mean_interval(rounds) for rounds in frame["rounds"]), strict=True)
    return pd.DataFrame(
        {
            "step_us": frame["mean_s"] * per_step,
            "step_ci_low_us": per_step * np.array(low),
            "step_ci_high_us": per_step * np.array(high),
        }
    )
