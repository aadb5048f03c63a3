"""What a record's readings say of the machine, in a word: quiet, noisy, throttled, shared or drifted."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from snn.profiling.memory import size

Thresholds = Mapping[str, float]


def verdict(records: Sequence[Mapping[str, Any]], thresholds: Thresholds) -> tuple[str, str]:
    """The words that hold for a cell's rounds, gravest first, and the figures behind them.

    ``quiet`` where none does, ``unknown`` where a record holds no readings, and no word where nothing was
    measured because it is unsupported. The thresholds are those of ``config/verdicts.yaml``; shares of
    processors are averages over the longest run that exceeds them.
    """
    if all(record.get("status") == "unsupported" for record in records):
        return "", ""
    machines = [record.get("machine") for record in records]
    if not all(machines):
        return "unknown", "the record holds no readings"
    found = {
        "shared": _by_round(records, lambda machine: _shared(machine, thresholds)),
        "throttled": _by_round(records, _throttled),
        "drifted": _by_round(records, lambda machine: _drifted(machine["probe"], thresholds)),
        "noisy": _noisy(records, thresholds["noisy"]),
    }
    named = {word: why for word, why in found.items() if why}
    if not named:
        return "quiet", ""
    return ", ".join(named), "; ".join(named.values())


def _by_round(records: Sequence[Mapping[str, Any]], find: Callable[[Mapping[str, Any]], str]) -> str:
    """What is found in each round; of several, with the round's number before it."""
    found = [(record["round"], find(record["machine"])) for record in records]
    if len(records) == 1:
        return found[0][1]
    return "; ".join(f"round {number}: {why}" for number, why in found if why)


def _shared(machine: Mapping[str, Any], thresholds: Thresholds) -> str:
    cpus = machine["host"]["cpus"] or 1
    reasons = []
    for key, what in (("other_cores", "other processes used"), ("stolen_cores", "the hypervisor took")):
        most = max((one[key] for one in machine["readings"] if one[key] is not None), default=0.0)
        if most / cpus > thresholds[key]:
            reasons.append(f"{what} {most:.2f} of {cpus} processors")
    processes = max((one.get("other_processes") or 0 for one in machine["readings"]), default=0)
    if processes:
        reasons.append(f"{processes} other processes on the GPU")
    least = thresholds["others_gpu_bytes"]
    before = machine["host"].get("others_gpu_bytes") or 0
    if before > least:
        reasons.append(f"others held {size(before)} of the GPU before")
    # Between runs our own memory is always the same: what comes or goes is another's.
    used = [one["memory_used_bytes"] for one in machine["readings"] if one.get("memory_used_bytes")]
    if used and max(used) - min(used) > least:
        reasons.append(f"others took or gave back {size(max(used) - min(used))} of the GPU meanwhile")
    return ", ".join(reasons)


def _throttled(machine: Mapping[str, Any]) -> str:
    names = {name for one in machine["readings"] for name in one.get("throttled") or ()}
    return ", ".join(sorted(names))


def _drifted(probe: Mapping[str, Mapping[str, float]], thresholds: Thresholds) -> str:
    return drift(probe["before"], probe["after"], thresholds)


def drift(before: Mapping[str, float], after: Mapping[str, float], thresholds: Thresholds) -> str:
    """Which of a probe's costs, in microseconds, changed by more than the thresholds allow; empty if none.

    A change counts where it exceeds the share ``drifted`` and also ``drifted_least_us``: a call of one
    microsecond that takes two is not a machine that has drifted.
    """
    changes = {key: after[key] - cost for key, cost in before.items() if key in after}
    return ", ".join(
        f"{key.removesuffix('_us')} cost {change / before[key]:+.0%}"
        for key, change in changes.items()
        if abs(change) > max(thresholds["drifted"] * before[key], thresholds["drifted_least_us"])
    )


def _noisy(records: Sequence[Mapping[str, Any]], most: float) -> str:
    seconds = [run["seconds"] for record in records for run in record["runs"]]
    if len(seconds) < 2:
        return ""
    spread = stdev(seconds) / fmean(seconds)
    return f"runs spread by {spread:.1%}" if spread > most else ""
