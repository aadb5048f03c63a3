"""The machine's state while a cell was measured: quiet, noisy, throttled, shared, drifted, and warnings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from snn.analysis.verdicts import DRIFTED, NOISY, QUIET, SHARED, THROTTLED, UNKNOWN
from snn.analysis.watching import watched
from snn.config import neighbour
from snn.grid.neighbours import touches
from snn.profiling.memory import size

Thresholds = Mapping[str, float]
"""The values of ``config/verdicts.yaml``."""


def verdict(records: Sequence[Mapping[str, Any]], thresholds: Thresholds) -> tuple[str, str]:
    """The words that apply to the rounds of a cell, gravest first, and the figures behind them.

    Warnings from samples (``snn.analysis.watching``) follow them.

    ``quiet`` where none applies, ``unknown`` where a record holds no readings, and no word where nothing was
    measured because the cell is unsupported. Shares of CPUs are averages over the run that exceeds the
    threshold most.
    """
    if all(record.get("status") == "unsupported" for record in records):
        return "", ""
    if not all(record.get("machine") for record in records):
        return UNKNOWN, "the record holds no readings"
    notes = {
        SHARED: _by_round(records, lambda record: _shared(record, thresholds)),
        THROTTLED: _by_round(records, lambda record: _throttled(record["machine"])),
        DRIFTED: _by_round(records, lambda record: _drifted(record["machine"]["probe"], thresholds)),
        NOISY: _noisy(records, thresholds["noisy"]),
        **_watched(records, thresholds),
    }
    notes = {word: note for word, note in notes.items() if note}
    return ", ".join(notes) or QUIET, "; ".join(notes.values())


def _by_round(records: Sequence[Mapping[str, Any]], find: Callable[[Mapping[str, Any]], str]) -> str:
    """The note on each round's machine; where there are several rounds, each with its number."""
    notes = [(record["round"], find(record)) for record in records]
    if len(records) == 1:
        return notes[0][1]
    return "; ".join(f"round {number}: {note}" for number, note in notes if note)


def _shared(record: Mapping[str, Any], thresholds: Thresholds) -> str:
    machine = record["machine"]
    readings = machine["readings"]
    cpus = machine["host"]["cpus"] or 1
    notes = []
    asked = machine.get("neighbour", {})
    others = [uuid for uuid in machine.get("neighbours", []) if uuid != asked.get("device_uuid")]
    if others and (neighbour.is_settled(record["cell"]) or touches(record["cell"]["strategy"])):
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


def _throttled(machine: Mapping[str, Any]) -> str:
    causes = {cause for reading in machine["readings"] for cause in reading.get("throttled") or ()}
    return ", ".join(sorted(causes))


def _drifted(probe: Mapping[str, Mapping[str, float]], thresholds: Thresholds) -> str:
    return drift(probe["before"], probe["after"], thresholds)


def mean_costs(probes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each cost that every probe has, in microseconds; of those that found none, nothing."""
    found = [probe for probe in probes if probe]
    common = [key for key in found[0] if all(key in probe for probe in found)] if found else []
    return {key: fmean(probe[key] for probe in found) for key in common}


def drift(before: Mapping[str, float], after: Mapping[str, float], thresholds: Thresholds) -> str:
    """Which of a probe's costs, in microseconds, changed by more than the thresholds allow; empty if none.

    A change counts where it exceeds both the share ``drifted`` and ``drifted_least_us``: a call that takes
    two microseconds instead of one is no sign that the machine has drifted.
    """
    changes = {key: after[key] - cost for key, cost in before.items() if key in after}
    return ", ".join(
        f"{key.removesuffix('_us')} cost {change / before[key]:+.0%}"
        for key, change in changes.items()
        if abs(change) > max(thresholds["drifted"] * before[key], thresholds["drifted_least_us"])
    )


def _watched(records: Sequence[Mapping[str, Any]], thresholds: Thresholds) -> dict[str, str]:
    """What the samples of the rounds warn of, with the times at which it happened."""
    words = dict.fromkeys(word for record in records for word in watched(record, thresholds))

    def of_round(word: str) -> Callable[[Mapping[str, Any]], str]:
        return lambda record: watched(record, thresholds).get(word, "")

    return {word: _by_round(records, of_round(word)) for word in words}


def _noisy(records: Sequence[Mapping[str, Any]], threshold: float) -> str:
    seconds = [run["seconds"] for record in records for run in record["runs"]]
    if len(seconds) < 2:
        return ""
    variation = stdev(seconds) / fmean(seconds)
    return f"coefficient of variation of the runs {variation:.1%}" if variation > threshold else ""
