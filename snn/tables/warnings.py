"""What the samples of every record show: the most and the usual of each quantity, and what they warn of."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import pandas as pd

from snn.analysis.watching import Thresholds, watched
from snn.models.network import network_label

TITLE = "Memory, heat, utilisation and power over time, with warnings"
_EXTREMES: Mapping[str, tuple[str, Callable[[list[float]], float]]] = {
    "temperature_c": ("max_temperature_c", max),
    "utilisation": ("median_utilisation", median),
    "power_w": ("median_power_w", median),
    "sm_mhz": ("min_sm_mhz", min),
}


def build(records: Mapping[str, Mapping[str, Any]], thresholds: Thresholds) -> pd.DataFrame:
    """One row per record, in the order given.

    ``warnings`` has the words, ``note`` when it was and how much, in seconds since the round began. Extremes
    are of all samples, medians of those within the timed runs. ``sampling`` is the share of one CPU that
    sampling took. A record from before there were samples has none of this.
    """
    return pd.DataFrame([_row(path, record, thresholds) for path, record in records.items()])


def _row(path: str, record: Mapping[str, Any], thresholds: Thresholds) -> dict[str, Any]:
    cell, found = record["cell"], watched(record, thresholds)
    return {
        "strategy": cell["strategy"]["name"],
        "dataset": cell["dataset"]["name"],
        "network": network_label(cell["network"]),
        "round": record["round"],
        "warnings": ", ".join(found),
        "note": "; ".join(found.values()),
        **_figures(record["machine"].get("samples"), record["provenance"]["elapsed_seconds"]),
        "device": cell["device"]["name"],
        "backend": cell["device"]["backend"],
        "record": path,
    }


def _figures(samples: Mapping[str, Any] | None, elapsed: float) -> dict[str, float | None]:
    names = [name for name, _ in _EXTREMES.values()]
    figures: dict[str, float | None] = dict.fromkeys(("samples", "max_memory_fraction", *names, "sampling"))
    if samples is None:
        return figures
    columns, memory = samples["columns"], samples["limits"].get("memory_bytes")
    used = [value for value in columns.get("memory_used_bytes", ()) if value is not None]
    figures["samples"] = samples["taken"]
    figures["max_memory_fraction"] = max(used) / memory if used and memory else None
    for key, (name, of) in _EXTREMES.items():
        rows = zip(columns.get(key, ()), columns["timed"], strict=False)
        values = [value for value, timed in rows if value is not None and (timed or of is not median)]
        figures[name] = of(values) if values else None
    figures["sampling"] = samples["cpu_seconds"] / elapsed if elapsed > 0 else None
    return figures
