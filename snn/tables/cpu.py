"""CPU and GPU of one machine: speedups over one CPU core and over the fastest CPU baseline.

The only table that divides times of two devices by each other: a CPU's by those of the GPU in the same host.
"""

from math import nan

import pandas as pd

from snn.analysis.grouping import first_at, settings, texts
from snn.analysis.intervals import Ratio, ratio, ratio_verdict
from snn.analysis.speedups import common_rounds, left_out, warning
from snn.tables.sweep import full_name, with_options
from snn.tables.table import DEVICE, Pairs, Rows, cells_table, further, scores, status

_ITSELF = Ratio(1.0, 1.0, 1.0, 2, 0.0)


def _rows(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of one machine, with the device that each was measured on; of threads always how many."""
    rows = with_options(cells).assign(ran_on=cells["on_host"].map({True: "host", False: "device"}))
    if "strategy.threads" in cells:
        threads = cells["strategy.threads"].map("threads {:.0f}".format, na_action="ignore").fillna("")
        rows["options"] = rows["options"].where(rows["options"] != "", threads)
    return rows


def _trained(cells: pd.DataFrame) -> list[str]:
    return settings(cells, ("dataset", "network", "training"))


def _pairs(cells: pd.DataFrame) -> Pairs:
    both = zip(*_baselines(cells).values(), strict=True)
    return [(n, i) for i, numbers in enumerate(both) for n in dict.fromkeys(numbers) if n >= 0]


def _baselines(cells: pd.DataFrame) -> dict[str, list[int]]:
    """At each row's point, the number of ``sequential`` and that of the fastest row of the host; or -1."""
    points = texts(cells, _trained(cells))
    timed = cells[cells["on_host"] & cells["mean_s"].notna()]
    return {
        "sequential": first_at(points, timed.index[timed["strategy"] == "sequential"]),
        "fastest_cpu": first_at(points, timed.sort_values("mean_s", kind="stable").index),
    }


def _speedups(rows: Rows) -> pd.DataFrame:
    """Both speedups with their intervals and verdicts; the verdict over the baseline itself is empty."""
    cells, limits = rows.frame, rows.thresholds
    baselines = _baselines(cells)
    found = {name: [_ratio(cells, n, i) for i, n in enumerate(of)] for name, of in baselines.items()}
    table = pd.DataFrame(index=cells.index)
    for name, ratios in found.items():
        for field, end in (("value", ""), ("low", "_ci_low"), ("high", "_ci_high")):
            table[f"speedup_over_{name}{end}"] = [getattr(one, field, nan) for one in ratios]
    for name, ratios in found.items():
        table[f"verdict_over_{name}"] = [
            ratio_verdict(one, limits["same"], limits["one_round"]) if one and one is not _ITSELF else ""
            for one in ratios
        ]
    table["fastest_cpu"] = [full_name(cells.iloc[n]) if n >= 0 else "" for n in baselines["fastest_cpu"]]
    notes: list[dict[str, None]] = [{} for _ in table.index]
    for name, ratios in found.items():
        for i, (number, one) in enumerate(zip(baselines[name], ratios, strict=True)):
            if one:
                lost = left_out(cells.iloc[number], cells.iloc[i])
                said = lost and f"over {name}, {lost}", warning(one, limits)
                notes[i] |= dict.fromkeys(filter(None, said))
    return table.assign(note=list(map("; ".join, notes)))


def _ratio(cells: pd.DataFrame, number: int, i: int) -> Ratio | None:
    if number < 0 or pd.isna(cells["mean_s"].iloc[i]):
        return None
    return _ITSELF if number == i else ratio(*common_rounds(cells.iloc[number], cells.iloc[i]))


cpu = cnn_cpu = cells_table(
    "CPU and GPU of the same machine",
    "strategy options dataset network kernel",
    lambda rows: rows.frame[["precision"] if rows.frame["precision"].nunique() > 1 else []],
    further(_trained, "dataset", "network"),
    "ran_on mean_s std_s",
    scores,
    "runs",
    _speedups,
    status,
    DEVICE,
    rows=_rows,
    pairs=_pairs,
)
