"""Records as small as can be, for the rules that their parts obey, and what is said of one."""

import statistics

import pytest
from real_records import edited

from snn.errors import RecordError
from snn.records import consistency


def summary_of(seconds, losses, members=0):
    mean = statistics.fmean(seconds) if seconds else None
    whole = {
        "runs": len(seconds),
        "mean_seconds": mean,
        "std_seconds": statistics.stdev(seconds) if len(seconds) > 1 else None,
        "mean_final_loss": None if None in losses or not losses else statistics.fmean(losses),
    }
    if seconds:
        whole["setup_seconds"] = 0.25
        whole |= {"median_seconds": statistics.median(seconds)}
        whole |= {"min_seconds": min(seconds), "max_seconds": max(seconds)}
    if members and seconds:
        whole |= {"members": members, "mean_seconds_per_member": mean / members}
    return whole


def record_of(seconds=(1.0, 3.0), losses=(2.0, 5.0), **changes):
    """A record of a round with these runs, two of the four of its protocol."""
    return {
        "cell": {
            "network": {"hidden": [4]},
            "training": {"epochs": 100},
            "device": {"backend": "cpu", "name": "Abacus"},
            "protocol": {"runs": 2 * len(seconds), "rounds": 2, "relative_error": None, "max_seconds": None},
        },
        "provenance": {"backend": "cpu", "device": "Abacus", "elapsed_seconds": 99.0},
        "status": "ok",
        "reason": None,
        "stopped": "runs",
        "runs": [{"seconds": s, "final_loss": loss} for s, loss in zip(seconds, losses, strict=True)],
        "summary": summary_of(seconds, losses),
        "warmup": {"seconds": 0.5},
        "ledger": {"mallocs": 1},
        "memory": {"least_free_bytes": 1, "total_bytes": 2},
        "explanation": None,
        **changes,
    }


def ended(status, **changes):
    """A record of a round that ended before its first run."""
    nothing = {"stopped": None, "warmup": None, "runs": [], "ledger": {}, "memory": {}}
    whole = record_of((), (), status=status, reason="so", **nothing)
    whole["cell"]["protocol"]["runs"] = 4
    return whole | changes


def launched(*members_of_runs, seconds=(1.0, 3.0)):
    """A record of launches that each train several networks, which end with these losses."""
    losses = [None if None in some else statistics.fmean(some) for some in members_of_runs]
    whole = record_of(seconds, losses)
    for run, some in zip(whole["runs"], members_of_runs, strict=True):
        run["member_mse"] = list(some)
    members = len(members_of_runs[0])
    return whole | {"members": [{}] * members, "summary": summary_of(seconds, losses, members)}


def refused(record):
    """What is said of a record; empty where it is right."""
    try:
        consistency.check(record, "it")
    except RecordError as error:
        assert str(error).startswith("it: ")
        return str(error).removeprefix("it: ")
    return ""


def changed(record, *changes):
    for way, value in changes:
        record = edited(record, tuple(way.split(".")), value)
    return record


def refusal(do, *arguments):
    """What a call says that refuses a record or its file."""
    with pytest.raises(RecordError) as refused:
        do(*arguments)
    return str(refused.value)
