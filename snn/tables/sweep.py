"""The tidy table of any sweep: what varied, how long it took, what was done."""

from collections.abc import Sequence

import pandas as pd

from snn.tables.ratio import against_reference
from snn.verdict import Thresholds

MEASURED = ["mean_s", "std_s", "runs", "stopped", "final_mse", "status", "machine", "machine_why"]
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

    Where the sweep has the reference at every point, ``speedup`` says how many times faster than it, with
    its interval.
    """
    names = ["strategy", "dataset", "network", "kernel"]
    varied = [axis for axis in axes if axis in frame and axis not in (*names, "network.hidden")]
    table = frame[[*names, *varied, *MEASURED]].copy()
    points = [key for key in (*names[1:], *varied) if not key.startswith("strategy.")]
    reference = frame[frame["strategy"] == "reference"]
    if len(reference) and not reference.duplicated(points).any():
        known = pd.MultiIndex.from_frame(reference[points])
        if pd.MultiIndex.from_frame(frame[points]).isin(known).all():
            ratios = against_reference(frame, points, verdicts)
            at = table.columns.get_loc("runs")
            for i, name in enumerate(("speedup", "speedup_low", "speedup_high", "comparison", "why")):
                table.insert(at + i, name, ratios[name])
            table["machine"] = ratios["machine"]
    for name in LEDGER:
        table[name] = frame.get(f"ledger.{name}")
    return table.assign(device=frame["device"], backend=frame["backend"])
