"""CPU and GPU of one machine: speedups over one CPU core and over the fastest CPU baseline.

The only table that divides times of two devices by each other: a CPU's by those of the GPU in the same host.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn.analysis.grouping import settings, texts, varied
from snn.analysis.intervals import Ratio, ratio, ratio_verdict
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import common_rounds, warning
from snn.tables.overview import options_of
from snn.tables.table import DEVICE, Pairs, Rows, Table, assemble, scores, status

_BASELINES = ("sequential", "fastest_cpu")


def _build(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per cell, with the device it was measured on, and its speedups over both baselines.

    The verdict over the baseline itself is empty. ``cells`` have been checked to be of one machine.
    """
    names = [_name(row, cells) for _, row in cells.iterrows()]
    more = varied(cells, settings(cells, ("dataset", "network", "training")), ["dataset", "network"])
    precision = ["precision"] if cells["precision"].nunique() > 1 else []
    columns = [_speedups(cells, names, i, numbers, thresholds) for i, numbers in enumerate(_baselines(cells))]
    return assemble(
        Rows(
            cells.assign(
                options=[name.partition(" (")[2].rstrip(")") for name in names],
                ran_on=cells["on_host"].map({True: "host", False: "device"}),
            ),
            paper,
            thresholds,
        ),
        " ".join(["strategy options dataset network kernel", *precision, *more, "ran_on mean_s std_s"]),
        scores,
        "runs",
        lambda rows: pd.DataFrame(columns, rows.frame.index),
        status,
        DEVICE,
    )


def _pairs(cells: pd.DataFrame) -> Pairs:
    pairs = [(number, i) for i, numbers in enumerate(_baselines(cells)) for number in numbers if number >= 0]
    return list(dict.fromkeys(pairs))


def _baselines(cells: pd.DataFrame) -> list[tuple[int, int]]:
    """At each row's point, the numbers of ``sequential`` and of the fastest row of the host; or -1."""
    points = texts(cells, settings(cells, ("dataset", "network", "training")))
    host = cells[cells["on_host"] & cells["mean_s"].notna()]
    found = []
    for point in points:
        there = host[points[host.index] == point]
        sequential = there[there["strategy"] == "sequential"]
        fastest = there.sort_values("mean_s", kind="stable")
        numbers = [int(rows.index[0]) if len(rows) else -1 for rows in (sequential, fastest)]
        found.append((numbers[0], numbers[1]))
    return found


def _name(row: pd.Series, cells: pd.DataFrame) -> str:
    """The strategy's name with its options, if rows differ in them; of threads always how many."""
    options = options_of(row, cells, "strategy")
    threads = row.get("strategy.threads")
    if not options and pd.notna(threads):
        options = [f"threads {threads:.0f}"]
    return f"{row['strategy']} ({', '.join(options)})" if options else row["strategy"]


def _speedups(
    cells: pd.DataFrame, names: list[str], i: int, numbers: tuple[int, int], thresholds: Thresholds
) -> dict[str, Any]:
    ratios: dict[str, float] = {}
    words: dict[str, str] = {}
    notes: dict[str, None] = {}
    for name, number in zip(_BASELINES, numbers, strict=True):
        found = None
        if number == i:
            found = ratio([[1.0], [1.0]], [[1.0], [1.0]])
        elif number >= 0 and not pd.isna(cells["mean_s"].iloc[i]):
            found = ratio(*common_rounds(cells.iloc[number], cells.iloc[i]))
        for field, end in (("value", ""), ("low", "_ci_low"), ("high", "_ci_high")):
            ratios[f"speedup_over_{name}{end}"] = getattr(found, field) if found else float("nan")
        words[f"verdict_over_{name}"] = _word(found, thresholds) if found and number != i else ""
        notes[warning(found, thresholds) if found else ""] = None
    fastest = numbers[1]
    return {
        **ratios,
        **words,
        "fastest_cpu": names[fastest] if fastest >= 0 else "",
        "note": "; ".join(filter(None, notes)),
    }


def _word(found: Ratio, thresholds: Thresholds) -> str:
    return ratio_verdict(found, thresholds["same"], thresholds["one_round"])


cpu = cnn_cpu = Table("CPU and GPU of the same machine", _build, _pairs)
