"""The table of any sweep: its axes, times, speedups over a baseline, and the counts of its ledgers."""

from collections.abc import Sequence

import pandas as pd

from snn.analysis.baseline import baselines
from snn.analysis.classification import beside_times
from snn.analysis.floors import fraction_of_limit
from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import SPEEDUP, over_baselines

TITLE = "Sweep {}"
"""With the name of the sweep."""

NAMES = ("strategy", "dataset", "network", "kernel")
SHOWN_BY_NETWORK = ("network.hidden", "network.layers")
"""Axes whose values the column ``network`` shows."""

MEASURED = ("mean_s", "std_s", "runs", "stopped_by", "final_loss", "draws")
LEDGER = [
    "mallocs",
    "host_allocs",
    "h2d_copies",
    "h2d_bytes",
    "d2h_copies",
    "d2h_bytes",
    "launches",
    "synchronizations",
]


def build(frame: pd.DataFrame, axes: Sequence[str], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell: strategy, dataset, network and kernel, the axes of the sweep, its times and counts.

    ``speedup`` is over the row that ``baseline`` names, with its 95% interval and verdict; these columns are
    left out where no row of the sweep is the baseline of another. Where one launch trains several
    ``members``, it takes ``launch_s``, of which ``mean_s`` is one member's share. ``final_mse`` is the mean
    over the ``draws`` of initial weights, so rows of other draws have another one. Classifications have
    ``step_us`` and what was tested. ``fraction_of_limit`` is the floor of a step (``snn.analysis.roofline``)
    over its time, left out where there is no floor.
    """
    varied = [axis for axis in axes if axis in frame and axis not in (*NAMES, *SHOWN_BY_NETWORK)]
    several = ["members", "launch_s"] if (frame["members"] > 1).any() else []
    table = (
        frame[[*NAMES, *varied, *several, *MEASURED]]
        .rename(columns={"final_loss": "final_mse"})
        .join(outcome(frame))
        .join(frame[["machine", "machine_note"]])
    )
    numbers, names = baselines(frame, axes)
    if any(number >= 0 for number in numbers):
        ratios = over_baselines(frame, numbers, thresholds)
        ratios["baseline"] = pd.Series(names, frame.index).where(frame["mean_s"].notna(), "")
        at = table.columns.get_loc("runs")
        for i, name in enumerate((*SPEEDUP, "verdict", "baseline", "note")):
            table.insert(at + i, name, ratios[name])
        table["machine"] = ratios["machine"]
    for name, values in reversed(list(beside_times(frame).items())):
        table.insert(table.columns.get_loc("std_s") + 1, name, values)
    fraction = fraction_of_limit(frame)
    if fraction.notna().any():
        table.insert(table.columns.get_loc("std_s") + 1, "fraction_of_limit", fraction)
    for name in LEDGER:
        table[name] = frame.get(f"ledger.{name}")
    return table.assign(device=frame["device"], backend=frame["backend"])
