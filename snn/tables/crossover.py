"""From which width or batch size on a GPU trains faster than the CPU of its host."""

import re
from collections.abc import Mapping, Sequence
from math import exp, inf, log, nan, sqrt
from statistics import fmean, stdev
from typing import NamedTuple

import pandas as pd

from snn.analysis.intervals import Rounds
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import SPEEDUP, common_rounds, over_baselines
from snn.analysis.verdicts import FASTER, OK, SAME, SLOWER
from snn.measurement.student import student_quantile
from snn.tables.overview import ON_HOST, names
from snn.tables.recommendation import Ratio

AXES = {"width": "hidden width", "batch": "batch size"}


class Crossing(NamedTuple):
    """The number from which on the GPU is faster, with its 95% interval; 0 if it is faster at all numbers
    that were measured, infinite if it is not at the largest."""

    value: float
    low: float = nan
    high: float = nan


def build(cells: pd.DataFrame, axis: str, thresholds: Thresholds) -> pd.DataFrame:
    """One row per number that has a time on both devices: the fastest strategy of each, and the CPU's time
    over the GPU's with its interval and verdict; ``rounds`` are the seconds of both by round."""
    cells = cells[(cells["status"] == OK) & cells["mean_s"].notna()].reset_index(drop=True)
    cells = cells.assign(number=[_number(row, axis) for row in cells.to_dict("records")])
    cells["name"] = [name.replace(f"{ON_HOST}, ", "").replace(f" ({ON_HOST})", "") for name in names(cells)]
    best = cells.sort_values("mean_s", kind="stable").drop_duplicates(["number", "on_host"])
    both = best[best["number"].map(best["number"].value_counts()) == 2].sort_values(["number", "on_host"])
    both = both.reset_index(drop=True)  # of each number the GPU's row, then the CPU's
    baselines = [i + 1 if i % 2 == 0 else -1 for i in range(len(both))]
    ratios = over_baselines(both, baselines, thresholds, across_devices=True)
    gpu, cpu = both[::2].reset_index(drop=True), both[1::2].reset_index(drop=True)
    pairs = zip(cpu.to_dict("records"), gpu.to_dict("records"), strict=True)
    return gpu[["number"]].assign(
        epochs=gpu["training.epochs"],
        gpu_strategy=gpu["name"],
        gpu_s=gpu["mean_s"],
        cpu_strategy=cpu["name"],
        cpu_s=cpu["mean_s"],
        **ratios.iloc[::2].reset_index(drop=True)[[*SPEEDUP, "verdict"]],
        rounds=[common_rounds(*pair) for pair in pairs],
        device=gpu["device"],
        host=cpu["device"],
    )


def _number(row: Mapping[str, object], axis: str) -> int:
    """The first width of a row's network, or its batch size."""
    if axis == "batch":
        return int(str(row["training.batch_size"]))
    found = re.search(r"\d+", str(row["network"]))
    return int(found[0]) if found else 0


def crossing(numbers: Sequence[int], rounds: Sequence[tuple[Rounds, Rounds]]) -> Crossing:
    """Where the ratio of both times is 1, by the line through the logarithms at the last number at which the
    CPU is as fast or faster and the next one; the interval is Student's over rounds."""
    logs = [
        [log(fmean(cpu) / fmean(gpu)) for cpu, gpu in zip(*both, strict=True) if len(cpu) and len(gpu)]
        for both in rounds
    ]
    last = max((i for i, of in enumerate(logs) if fmean(of) <= 0), default=-1)
    if last < 0 or last == len(logs) - 1:
        return Crossing(0 if last < 0 else inf)
    start, step = log(numbers[last]), log(numbers[last + 1] / numbers[last])
    below, above = logs[last], logs[last + 1]

    def at(before: float, after: float) -> float:
        return start - step * before / (after - before)

    value = at(fmean(below), fmean(above))
    found = [at(a, b) for a, b in zip(below, above, strict=False) if a < b]
    if len(found) < 2 or len(found) < min(len(below), len(above)):
        return Crossing(exp(value))
    margin = student_quantile(len(found) - 1) * stdev(found) / sqrt(len(found))
    return Crossing(exp(value), exp(value - margin), exp(value + margin))


def shown(table: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The table without the seconds of rounds, and its first column named for its numbers."""
    return table.drop(columns="rounds").rename(columns={"number": AXES[axis].replace(" ", "_")})


def text(table: pd.DataFrame, axis: str) -> str:
    """The table as lines of text."""
    ratios = [Ratio.read(row, "speedup") for row in table.to_dict("records")]
    columns = {
        AXES[axis]: table["number"],
        "epochs": table["epochs"],
        "on the GPU": table["gpu_strategy"],
        "time": [f"{seconds:.3g} s" for seconds in table["gpu_s"]],
        "on the CPU": table["cpu_strategy"],
        "time ": [f"{seconds:.3g} s" for seconds in table["cpu_s"]],
        "CPU / GPU": list(map(str, ratios)),
        "the GPU is": table["verdict"],
    }
    return pd.DataFrame(columns).to_string(index=False)


def sentence(table: pd.DataFrame, axis: str) -> str:
    """From which number on the GPU wins, with an interval, and by how much at both ends."""
    word = AXES[axis]
    if table.empty:
        return f"No {word} has a time on both the GPU and the CPU, so there is nothing to compare."
    found = crossing(list(table["number"]), list(table["rounds"]))
    first, last = table.iloc[0], table.iloc[-1]
    ends = ". ".join(_end(row, word) for row in ([first] if len(table) == 1 else [first, last]))
    if found.value == 0:
        doubt = "" if (table["verdict"] == FASTER).all() else ", though not significantly at all of them"
        said = (
            f"The GPU trains faster than the CPU at every {word} from {first['number']} to "
            f"{last['number']}{doubt}"
        )
    elif found.value == inf:
        said = f"The CPU trains as fast as the GPU or faster up to a {word} of {last['number']}"
    else:
        interval = "" if found.low != found.low else f" (95% CI {found.low:.0f} to {found.high:.0f})"
        said = f"The GPU trains faster than the CPU from a {word} of about {found.value:.0f} on{interval}"
    return f"{said}. {ends}."


def _end(row: pd.Series, word: str) -> str:
    """``At a hidden width of 16, blas on the CPU is 3.1 times as fast (95% CI 2.9 to 3.3)``."""
    if row["verdict"] == SAME:
        return f"At a {word} of {row['number']}, both are equally fast"
    ratio, low, high = (row[name] for name in SPEEDUP)
    winner, place = (row["gpu_strategy"], "GPU") if ratio >= 1 else (row["cpu_strategy"], "CPU")
    if ratio < 1:
        ratio, low, high = 1 / ratio, 1 / high, 1 / low
    doubt = "" if row["verdict"] in (FASTER, SLOWER) else ", not significant"
    return (
        f"At a {word} of {row['number']}, {winner} on the {place} is {ratio:.3g} times as fast "
        f"(95% CI {low:.3g} to {high:.3g}{doubt})"
    )
