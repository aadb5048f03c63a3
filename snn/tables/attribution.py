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


_references = reference("dataset", "network")


def _parts(rows: Rows) -> pd.DataFrame:
    """Seconds of each part, of a separate instrumented pass with a timer around every call, and their sum."""
    parts = rows.frame[[name for name in rows.frame if name.startswith(PART)]]
    table = parts.rename(columns={name: name.removeprefix(PART) + "_s" for name in parts})
    return table.assign(attributed_s=parts.sum(axis=1, min_count=1))


def _predicted(rows: Rows) -> pd.Series:
    """The host arithmetic plus the ledger's calls at their costs, which are measured without any training."""
    unknown = pd.Series(float("nan"), rows.frame.index)
    calls, arithmetic = (
        rows.frame.get(name, unknown) for name in ("predicted_calls_s", f"{PART}host_arithmetic")
    )
    return (calls + arithmetic).rename("predicted_s")


def _predicted_speedup(rows: Rows) -> pd.DataFrame:
    """The reference's predicted time over the row's, if both are of one GPU; and a note on the parts' sum."""
    cells, predicted = rows.frame, _predicted(rows)
    trained = cells["dataset"] + " " + cells["network"]
    is_reference = cells["strategy"] == "reference"

    def of_reference(values: pd.Series) -> pd.Series:
        return trained.map(values[is_reference].set_axis(trained[is_reference]))

    gpus = cells.get("explained_on", pd.Series(float("nan"), cells.index)).astype(object).fillna("")
    ratios = of_reference(predicted) / predicted
    share = _parts(rows)["attributed_s"] / cells["mean_s"]
    limit = rows.thresholds["parts_differ"]
    notes = [
        "" if 1 / limit <= each <= limit else f"the parts add up to {each:.3g} times the mean of the runs"
        for each in share.fillna(1)
    ]
    comparable = (gpus == of_reference(gpus)) & ~gpus.str.contains(", ")
    return pd.DataFrame({"predicted_speedup": ratios.where(comparable), "note": notes})


attribution = attribution_neurons = attribution_depth = cells_table(
    "Time breakdown of one training, and the time predicted from per-call costs",
    "strategy dataset network",
    _parts,
    "mean_s std_s",
    _predicted,
    lambda rows: over_baselines(rows.frame, _references(rows.frame), rows.thresholds)["speedup"],
    _predicted_speedup,
    optional("ledger.", *LEDGER),
    status,
    DEVICE,
)


def _timeline(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per call of an instrumented pass of two steps, which slows every call a little.

    Microseconds since the start are on the host's clock, and on the device's where it has device work.
    ``stream`` 0 is the default stream.
    """
    tables = [pd.DataFrame(columns=["strategy", "device", "backend"])]
    for _, row in cells.iterrows():
        trace = row["trace"]
        if trace:
            events = pd.DataFrame(trace["events"], columns=trace["columns"])
            events = events.rename(columns={"page_locked_bytes": "pinned_bytes", "site": "call_site"})
            events["call_site"] = [trace["sites"][site] for site in events["call_site"]]
            events["size"] = ["x".join(map(str, size)) for size in events["size"]]
            events["stream"] = events["stream"].astype("Int64")
            events.insert(0, "strategy", row["strategy"])
            tables.append(events.assign(device=row["device"], backend=row["backend"]))
    return pd.concat(tables[1:], ignore_index=True) if tables[1:] else tables[0]


timeline = Table("Two steps of training, call by call", _timeline)
