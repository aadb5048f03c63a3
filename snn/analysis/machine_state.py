"""The machine's state while a cell was measured, from the readings between runs and the samples meanwhile.

The thresholds are in ``config/verdicts.yaml``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf
from statistics import fmean, median, stdev
from typing import Any

from snn.analysis.verdicts import (
    DRIFTED,
    HOT,
    IDLE_DROPS,
    IRREGULAR_POWER,
    MEMORY_FULL,
    NOISY,
    QUIET,
    SHARED,
    THROTTLED,
    UNKNOWN,
)
from snn.config.cell import ANY, Cell
from snn.config.groups import touches
from snn.profiling.memory import size
from snn.records.store import run_seconds

Thresholds = Mapping[str, float]
"""The values of ``config/verdicts.yaml``."""


def verdict(records: Sequence[Mapping[str, Any]], thresholds: Thresholds) -> tuple[str, str]:
    """The words that apply to the rounds of a cell, gravest first, and the figures behind them.

    ``quiet`` where none applies, ``unknown`` where a record holds no readings, and no word where nothing was
    measured because the cell is unsupported. Shares of CPUs are averages over the run that exceeds the
    threshold most.
    """
    if all(record.get("status") == "unsupported" for record in records):
        return "", ""
    if not all(record.get("machine") for record in records):
        return UNKNOWN, "the record holds no readings"
    notes: dict[str, list[str]] = {SHARED: [], THROTTLED: [], DRIFTED: [], NOISY: []}
    for record in records:
        machine = record["machine"]
        causes = {cause for reading in machine["readings"] for cause in reading.get("throttled") or ()}
        found = {
            SHARED: _shared(record, thresholds),
            THROTTLED: ", ".join(sorted(causes)),
            DRIFTED: drift(machine["probe"]["before"], machine["probe"]["after"], thresholds),
        }
        for word, note in (found | watched(record, thresholds)).items():
            number = f"round {record['round']}: " if len(records) > 1 else ""
            notes.setdefault(word, []).extend([number + note] if note else [])
    seconds = [time for record in records for time in run_seconds(record)]
    variation = stdev(seconds) / fmean(seconds) if len(seconds) > 1 else 0.0
    if variation > thresholds["noisy"]:
        notes[NOISY] = [f"coefficient of variation of the runs {variation:.1%}"]
    words = {word: "; ".join(found) for word, found in notes.items() if found}
    return ", ".join(words) or QUIET, "; ".join(words.values())


def _shared(record: Mapping[str, Any], thresholds: Thresholds) -> str:
    machine = record["machine"]
    readings = machine["readings"]
    cpus = machine["host"]["cpus"] or 1
    notes = []
    asked = machine.get("neighbour", {})
    others = [uuid for uuid in machine.get("neighbours", []) if uuid != asked.get("device_uuid")]
    if others and (Cell(record["cell"]).neighbour != ANY or touches(record["cell"]["strategy"])):
        notes.append(f"other cells ran on {', '.join(others)}, which changes the times of this strategy")
    for key, what, known in (
        # A training on another GPU keeps one CPU busy.
        ("other_cores", "other processes used", len(others) + bool(asked)),
        ("stolen_cores", "the hypervisor took", 0),
    ):
        cores = max((reading[key] for reading in readings if reading[key] is not None), default=0.0)
        if (cores - known) / cpus > thresholds[key]:
            notes.append(f"{what} {cores:.2f} of {cpus} CPUs")
    processes = max((reading.get("other_processes") or 0 for reading in readings), default=0)
    if processes:
        notes.append(f"{processes} other processes on the GPU")
    allowed = thresholds["others_gpu_bytes"]
    before = machine["host"].get("others_gpu_bytes") or 0
    if before > allowed:
        notes.append(f"other processes held {size(before)} of GPU memory before the cell")
    # Between runs our own memory is always the same: a change is another process's. After the last run, when
    # the last reading is taken, it is not: training has freed what it held.
    used = [reading["memory_used_bytes"] for reading in readings[:-1] if reading.get("memory_used_bytes")]
    if used and max(used) - min(used) > allowed:
        notes.append(f"GPU memory of other processes changed by {size(max(used) - min(used))}")
    return ", ".join(notes)


def mean_costs(probes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each cost that every probe has, in microseconds; of those that found none, nothing."""
    found = [probe for probe in probes if probe]
    common = [key for key in found[0] if all(key in probe for probe in found)] if found else []
    return {key: fmean(probe[key] for probe in found) for key in common}


def drift(before: Mapping[str, float], after: Mapping[str, float], thresholds: Thresholds) -> str:
    """Which of a probe's costs, in microseconds, changed by more than the thresholds allow; empty if none.

    A change counts if it exceeds both the factor ``drifted``, up or down, and ``drifted_least_us``: a call
    that takes two microseconds instead of one is no sign that the machine has drifted.
    """
    pairs = {key: sorted((cost, after[key])) for key, cost in before.items() if key in after}
    return ", ".join(
        f"{key.removesuffix('_us')} cost {after[key] / before[key] - 1:+.0%}"
        for key, (low, high) in pairs.items()
        if high > thresholds["drifted"] * low and high - low > thresholds["drifted_least_us"]
    )


# ---- samples

_ENOUGH = 5
"""Samples of timed runs from which a median says what is usual."""

_SHOWN = 3
"""Warnings of a kind that a note has one by one."""


def watched(record: Mapping[str, Any], thresholds: Thresholds) -> dict[str, str]:
    """By word, what the samples of a record warn of and when: ``93% of the memory in use from 12 to 15 s``.

    Memory and heat count at any time. Utilisation and power count during the timed runs alone, because
    between them a device rests for good reasons, and only if they last and there are enough samples. Times
    are seconds since the start of the round. Empty for a record from before there were samples.
    """
    samples, found = record["machine"].get("samples"), {}
    if not samples:
        return {}
    for word, values, is_timed, low, high, text in _kinds(samples, thresholds):
        pairs = zip(values, samples["columns"]["timed"], strict=True)
        excess = [
            -inf if value is None or (is_timed and not now) else max(low - value, value - high)
            for value, now in pairs
        ]
        notes = []
        for is_beyond, stretch in groupby(range(len(excess)), [one > 0 for one in excess].__getitem__):
            rows = list(stretch)
            start, end = _span(samples, rows, is_timed)
            if is_beyond and (not is_timed or end - start >= thresholds["lasting_s"]):
                first, last = f"{start:.0f}", f"{end:.0f}"
                when = f"at {first} s" if first == last else f"from {first} to {last} s"
                notes.append(f"{text.format(values[max(rows, key=excess.__getitem__)])} {when}")
        more = [f"and {len(notes) - _SHOWN} more times"] if len(notes) > _SHOWN else []
        found[word] = ", ".join([*notes[:_SHOWN], *more])
    return {word: note for word, note in found.items() if note}


_Kind = tuple[str, list[float | None], bool, float, float, str]


def _kinds(samples: Mapping[str, Any], thresholds: Thresholds) -> Iterator[_Kind]:
    """Each word with its values, whether only timed runs count, their range, and the text of one."""
    columns, limits = samples["columns"], samples["limits"]
    used, hot, busy, power = (
        columns.get(key) or [None] * len(columns["t_s"])
        for key in ("memory_used_bytes", "temperature_c", "utilisation", "power_w")
    )
    if capacity := limits.get("memory_bytes"):
        shares = [None if nbytes is None else nbytes / capacity for nbytes in used]
        yield MEMORY_FULL, shares, False, -inf, thresholds["memory_full"], "{:.0%} of the memory in use"
    # Near where the device slows down, or if that is unknown, above a fixed temperature.
    if slows := limits.get("temperature_c"):
        most = slows - thresholds["hot_margin_c"]
        yield HOT, hot, False, -inf, most, f"{{:.0f}} C, it slows down at {slows:.0f} C,"
    else:
        yield HOT, hot, False, -inf, thresholds["hot_c"], "{:.0f} C"
    if (usually := usual(samples, "utilisation")) and usually >= thresholds["least_busy"]:
        least = (1 - thresholds["idle_drop"]) * usually
        yield IDLE_DROPS, busy, True, least, inf, f"{{:.0f}}% busy, usually {usually:.0f}%,"
    if watts := usual(samples, "power_w"):
        apart = thresholds["irregular_power"] * watts
        text = f"{{:.0f}} W, usually {watts:.0f} W,"
        yield IRREGULAR_POWER, power, True, watts - apart, watts + apart, text


def usual(samples: Mapping[str, Any], key: str) -> float:
    """The median of a column over the timed runs; 0 where there are too few samples."""
    columns = samples["columns"]
    pairs = zip(columns.get(key, ()), columns["timed"], strict=False)
    values = [value for value, timed in pairs if timed and value is not None]
    return median(values) if len(values) >= _ENOUGH else 0.0


def _span(samples: Mapping[str, Any], rows: Sequence[int], is_timed: bool) -> tuple[float, float]:
    """The time that these rows are of, to the row after them.

    What they hold is of moments, but a sample's utilisation and power are those since the sample before it.
    """
    times, per_row = samples["columns"]["t_s"], samples["samples_per_row"] if is_timed else inf

    def start(row: int) -> float:
        """When the sample before a row's first one was taken."""
        return times[row] - (times[row] - times[row - 1]) / per_row if row else times[0]

    after = rows[-1] + 1
    return start(rows[0]), start(after) if after < len(times) else times[-1]
