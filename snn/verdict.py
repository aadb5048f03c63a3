"""What a record's readings say of the machine, in a word: quiet, noisy, throttled, shared or drifted."""

from collections.abc import Mapping, Sequence
from typing import Any

Thresholds = Mapping[str, float]


def verdict(record: Mapping[str, Any], thresholds: Thresholds) -> tuple[str, str]:
    """The words that hold for a record, gravest first, and the figures behind them.

    ``quiet`` where none does, ``unknown`` where the record holds no readings. The thresholds are those of
    ``config/verdicts.yaml``; shares of processors are averages over the longest run that exceeds them.
    """
    machine = record.get("machine")
    if not machine:
        return "unknown", "the record holds no readings"
    found = {
        "shared": _shared(machine, thresholds),
        "throttled": _throttled(machine),
        "drifted": _drifted(machine["probe"], thresholds["drifted"]),
        "noisy": _noisy(record["summary"], thresholds["noisy"]),
    }
    named = {word: why for word, why in found.items() if why}
    if not named:
        return "quiet", ""
    return ", ".join(named), "; ".join(named.values())


def pooled_verdict(records: Sequence[Mapping[str, Any]], thresholds: Thresholds) -> tuple[str, str]:
    """The verdict on a cell from its rounds: every word that holds for one, with the round it holds for."""
    found = [verdict(record, thresholds) for record in records]
    words = dict.fromkeys(word for one, _ in found for word in one.split(", "))
    if len(words) > 1:
        words.pop("quiet", None)
    whys = [
        f"round {record['round']}: {why}" if len(records) > 1 else why
        for record, (_, why) in zip(records, found, strict=True)
        if why
    ]
    return ", ".join(words), "; ".join(whys)


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
    return ", ".join(reasons)


def _throttled(machine: Mapping[str, Any]) -> str:
    names = {name for one in machine["readings"] for name in one.get("throttled") or ()}
    return ", ".join(sorted(names))


def _drifted(probe: Mapping[str, Mapping[str, float]], most: float) -> str:
    changes = {key: probe["after"][key] / cost - 1 for key, cost in probe["before"].items()}
    return ", ".join(
        f"{key.removesuffix('_us')} cost {change:+.0%}"
        for key, change in changes.items()
        if abs(change) > most
    )


def _noisy(summary: Mapping[str, Any], most: float) -> str:
    if not summary["std_seconds"]:
        return ""
    spread = summary["std_seconds"] / summary["mean_seconds"]
    return f"runs spread by {spread:.1%}" if spread > most else ""
