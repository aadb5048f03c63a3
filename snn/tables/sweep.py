"""The tidy table of any sweep: what varied, how long it took, what was done."""

from collections.abc import Sequence

import pandas as pd

from snn.analysis.baseline import bases
from snn.analysis.floors import fraction_of_limit
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import against
from snn.analysis.status import outcome

TITLE = "Sweep {}"
"""With the name of the sweep."""

MEASURED = ["mean_s", "std_s", "runs", "stopped", "final_mse"]
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


def build(frame: pd.DataFrame, axes: Sequence[str], verdicts: Thresholds) -> pd.DataFrame:
    """One row a cell: strategy, dataset, network and kernel, the axes of the sweep, its times and counts.

    ``speedup`` says how many times faster it is than what ``over`` names, with its interval; the columns are
    left out where the sweep has nothing to hold its rows against. Where a launch trains several ``members``,
    it takes ``launch_s``, of which ``mean_s`` is one member's share. ``fraction_of_limit`` says how near its
    time is to its floor (``snn.analysis.roofline``), left out where there is none; a shorter time is refused.
    """
    names = ["strategy", "dataset", "network", "kernel"]
    varied = [axis for axis in axes if axis in frame and axis not in (*names, "network.hidden")]
    several = ["members", "launch_s"] if (frame["members"] > 1).any() else []
    table = (
        frame[[*names, *varied, *several, *MEASURED]]
        .join(outcome(frame))
        .join(frame[["machine", "machine_why"]])
    )
    found, over = bases(frame, axes)
    if any(base >= 0 for base in found):
        ratios = against(frame, found, verdicts)
        ratios["over"] = pd.Series(over, frame.index).where(frame["mean_s"].notna(), "")
        at = table.columns.get_loc("runs")
        for i, name in enumerate(("speedup", "speedup_low", "speedup_high", "comparison", "over", "why")):
            table.insert(at + i, name, ratios[name])
        table["machine"] = ratios["machine"]
    fraction = fraction_of_limit(frame)
    if fraction.notna().any():
        table.insert(table.columns.get_loc("std_s") + 1, "fraction_of_limit", fraction)
    for name in LEDGER:
        table[name] = frame.get(f"ledger.{name}")
    return table.assign(device=frame["device"], backend=frame["backend"])
