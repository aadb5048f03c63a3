"""Time breakdown of one training run by strategy, data set and network, and the time predicted from per-call
costs.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.outcome import outcome
from snn.analysis.speedups import over_reference
from snn.tables.sweep import LEDGER

PART = "part."
LABELS = {
    "allocation": "device allocation and free",
    "host_allocation": "host allocation and free",
    "streams": "stream creation and destruction",
    "copy_in": "host-to-device copies",
    "copy_out": "device-to-host copies",
    "launch": "launches",
    "kernels": "waits for kernels",
    "waiting": "other waits for the device",
    "host_arithmetic": "host arithmetic",
}
"""The parts of a run's time, from those that the paper's strategies remove to those that they cannot."""

TITLE = "Time breakdown of one training, and the time predicted from per-call costs"


def build(frame: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per strategy, data set and network: seconds of one run by part, their sum, predicted, measured.

    The parts come from a separate instrumented pass with a timer around every call. ``predicted_s`` is the
    host arithmetic plus the ledger's calls at their costs, which are measured without any training.
    ``predicted_speedup`` stands beside ``speedup``, unless these passes and costs are of several GPUs.
    ``note`` says where the parts add up to another time than the runs took, beyond a threshold. The ledger's
    counts are exact; a part divided by the number of its calls is the mean cost of one call.
    """
    parts = [name for name in frame if name.startswith(PART)]
    table = frame[["strategy", "dataset", "network", *parts]].rename(
        columns={name: name.removeprefix(PART) + "_s" for name in parts}
    )
    table["attributed_s"] = frame[parts].sum(axis=1, min_count=1)
    table["mean_s"], table["std_s"] = frame["mean_s"], frame["std_s"]
    unknown = pd.Series(float("nan"), frame.index)
    arithmetic = frame.get(f"{PART}host_arithmetic", unknown)
    table["predicted_s"] = frame.get("predicted_calls_s", unknown) + arithmetic
    table["speedup"] = over_reference(frame, ["dataset", "network"], thresholds)["speedup"]
    trained = frame["dataset"] + " " + frame["network"]
    is_reference = frame["strategy"] == "reference"
    reference = table["predicted_s"][is_reference].set_axis(trained[is_reference])
    gpus = frame.get("explained_on", unknown).astype(object).fillna("")
    same_gpu = gpus == trained.map(gpus[is_reference].set_axis(trained[is_reference]))
    ratios = trained.map(reference) / table["predicted_s"]
    table["predicted_speedup"] = ratios.where(same_gpu & ~gpus.str.contains(", "))
    share = table["attributed_s"] / table["mean_s"]
    limit = thresholds["parts_differ"]
    table["note"] = [
        "" if 1 / limit <= each <= limit else f"the parts add up to {each:.3g} times the mean of the runs"
        for each in share.fillna(1)
    ]
    for name in LEDGER:
        table[name] = frame.get(f"ledger.{name}")
    return table.join(outcome(frame)).join(frame[["machine", "device", "backend"]])
