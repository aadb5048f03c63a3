"""CPU and GPU of one machine: speedups over one CPU core and over the fastest CPU baseline.

The only table that divides times of two devices by each other: a CPU's by those of the GPU in the same host.
"""

import pandas as pd

from snn.analysis.grouping import first_at, settings, texts
from snn.analysis.intervals import holm, with_best
from snn.analysis.speedups import EVIDENCE, SPEEDUP, over_baselines
from snn.analysis.verdicts import BASELINE, REFERENCE
from snn.tables.sweep import full_name, with_options
from snn.tables.table import DEVICE, Pairs, Rows, cells_table, further, scores, status

_SEQUENTIAL = "sequential"


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
        _SEQUENTIAL: first_at(points, timed.index[timed["strategy"] == "sequential"]),
        "fastest_cpu": first_at(points, timed.sort_values("mean_s", kind="stable").index),
    }


def _speedups(rows: Rows) -> pd.DataFrame:
    """Both speedups with their intervals and verdicts; the verdict over the baseline itself is empty."""
    cells = rows.frame
    baselines = _baselines(cells)
    found = {
        name: over_baselines(
            cells, numbers, rows.thresholds, holm if name == _SEQUENTIAL else with_best, across_devices=True
        )
        for name, numbers in baselines.items()
    }
    columns = [*SPEEDUP, *EVIDENCE]
    ratios = [
        over[columns].set_axis([_over(column, name) for column in columns], axis=1)
        for name, over in found.items()
    ]
    words = {
        f"verdict_over_{name}": over["verdict"].replace([REFERENCE, BASELINE], "")
        for name, over in found.items()
    }
    notes = zip(*(over["note"] for over in found.values()), strict=True)
    return pd.concat(ratios, axis=1).assign(
        **words,
        fastest_cpu=[full_name(cells.iloc[n]) if n >= 0 else "" for n in baselines["fastest_cpu"]],
        note=["; ".join(filter(None, dict.fromkeys(both))) for both in notes],
    )


def _over(column: str, baseline: str) -> str:
    """``speedup_over_sequential_ci_low``, ``p_adjusted_over_sequential``."""
    if column in EVIDENCE:
        return f"{column}_over_{baseline}"
    return column.replace("speedup", f"speedup_over_{baseline}")


cpu = cnn_cpu = cnn_pytorch_cpu = cells_table(
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
