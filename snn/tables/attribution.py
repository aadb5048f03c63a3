"""Where the time of one training run goes: by part, beside what per-call costs predict, and by call."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import over_baselines
from snn.tables.table import DEVICE, LEDGER, Rows, Table, cells_table, optional, reference, status

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


def _breakdown(rows: Rows) -> pd.DataFrame:
    """Parts of an instrumented pass with a timer around every call, and the time predicted from calls' costs.

    ``predicted_s`` is the host arithmetic plus the ledger's calls at their costs, which are measured without
    any training; ``predicted_speedup`` the reference's over the row's, if both are of one GPU.
    """
    cells = rows.frame
    parts = cells[[name for name in cells if name.startswith(PART)]]
    attributed, unknown = parts.sum(axis=1, min_count=1), pd.Series(float("nan"), cells.index)
    predicted = cells.get("predicted_calls_s", unknown) + cells.get(f"{PART}host_arithmetic", unknown)
    references = reference("dataset", "network")(cells)
    gpus = cells.get("explained_on", unknown).astype(object).fillna("")
    of_reference = pd.DataFrame({"s": predicted, "gpus": gpus}).reindex(references).set_axis(cells.index)
    is_comparable = (gpus == of_reference["gpus"]) & ~gpus.str.contains(", ")
    limit, shares = rows.thresholds["parts_differ"], (attributed / cells["mean_s"]).fillna(1)
    return parts.rename(columns=lambda name: f"{name.removeprefix(PART)}_s").assign(
        attributed_s=attributed,
        mean_s=cells["mean_s"],
        std_s=cells["std_s"],
        predicted_s=predicted,
        speedup=over_baselines(cells, references, rows.thresholds)["speedup"],
        predicted_speedup=(of_reference["s"] / predicted).where(is_comparable),
        note=[
            ""
            if 1 / limit <= share <= limit
            else f"the parts add up to {share:.3g} times the mean of the runs"
            for share in shares
        ],
    )


attribution = attribution_neurons = attribution_depth = cells_table(
    "Time breakdown of one training, and the time predicted from per-call costs",
    "strategy dataset network",
    _breakdown,
    optional("ledger.", LEDGER),
    status,
    DEVICE,
)


def _timeline(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per call of an instrumented pass of two steps, which slows every call a little.

    Microseconds since the start are on the host's clock, and on the device's where it has device work.
    ``stream`` 0 is the default stream.
    """
    tables = []
    for _, row in cells[cells["trace"].map(bool)].iterrows():
        trace = row["trace"]
        events = pd.DataFrame(trace["events"], columns=trace["columns"])
        events = events.rename(columns={"page_locked_bytes": "pinned_bytes", "site": "call_site"})
        events["call_site"] = [trace["sites"][site] for site in events["call_site"]]
        events["size"] = ["x".join(map(str, size)) for size in events["size"]]
        events["stream"] = events["stream"].astype("Int64")
        events.insert(0, "strategy", row["strategy"])
        tables.append(events.assign(device=row["device"], backend=row["backend"]))
    if not tables:
        return pd.DataFrame(columns=["strategy", "device", "backend"])
    return pd.concat(tables, ignore_index=True)


timeline = Table("Two steps of training, call by call", _timeline)
