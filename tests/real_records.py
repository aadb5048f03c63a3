"""Records as cells leave them, measured on the CPU in a moment; edits of them; the rules that they obey."""

import json
import math
import statistics
from functools import cache
from itertools import pairwise

import pytest

from snn.config.compose import composed
from snn.errors import RecordError
from snn.measurement import cell
from snn.records.store import sealed

QUICK = ("device=cpu", "dataset=small", "training.epochs=2", "protocol.runs=2", "protocol.min_runs=1")
QUICK += ("protocol.warmup_seconds=0", "protocol.max_warmup_seconds=0")


def quick(*settings):
    """The settings of a cell that takes a few milliseconds, with these in place of their own."""
    given = dict(setting.split("=", 1) for setting in (*QUICK, *settings))
    return [f"{key}={value}" for key, value in given.items()]


def measured(*settings):
    """The record of such a cell, as JSON holds it."""
    return json.loads(json.dumps(cell.run(composed(quick(*settings)))))


@cache
def reference():
    """The record of the reference on ``small``. Do not change it: make another with ``edited``."""
    return measured("strategy=reference", "network.hidden=[8]")


def leaves(value, way=()):
    """The ways to all values in a record that are no objects or lists of further ones, and to empty ones."""
    if not isinstance(value, (dict, list)) or not value:
        yield way
        return
    for key in value if isinstance(value, dict) else range(len(value)):
        yield from leaves(value[key], (*way, key))


def at(record, way):
    """The value that stands there."""
    for key in way:
        record = record[key]
    return record


def edited(record, way, value):
    """The record with another value there, as someone would edit the file; nothing that it shares changes."""
    if not way:
        return value
    copied = record.copy()
    copied[way[0]] = edited(record[way[0]], way[1:], value) if len(way) > 1 else value
    return copied


def without(record, way):
    """The record without what stands there."""
    container = at(record, way[:-1]).copy()
    del container[way[-1]]
    return edited(record, way[:-1], container)


def forged(record, *changes):
    """The record with these values at these ways, under a digest that fits."""
    for way, value in changes:
        record = edited(record, way, value)
    return sealed(record)


def old(record):
    """The record as the program before wrote it, of version 3: without a digest."""
    return without(record, ("digest",)) | {"schema_version": 3}


def refusal(do, *arguments):
    """What a call says that refuses a record or its file."""
    with pytest.raises(RecordError) as refused:
        do(*arguments)
    return str(refused.value)


# ---- what the numbers of a record say of each other: readers rely on its digest instead

SUMMARISED = ("validation_loss", "test_accuracy", "test_mse", "test_rmse", "test_r2")


def is_near(found, value, scale=0.0):
    """Whether two numbers are equal but for rounding in sums of numbers of this scale; or both None."""
    if found is None or value is None:
        return found is value
    return math.isclose(found, value, rel_tol=1e-9, abs_tol=1e-9 * scale)


def mean(values):
    """Their mean; None of none, where one of them is None, and where no float holds it."""
    if not values or None in values:
        return None
    found = math.fsum(values) / len(values)
    return found if math.isfinite(found) else None


def summary_of(record):
    """The summary that follows from the runs, by the standard library; without the seconds of the setup."""
    runs, members = record["runs"], len(record.get("members", ()))
    seconds = [run["seconds"] for run in runs]
    whole = {
        "runs": len(runs),
        "mean_seconds": mean(seconds),
        "std_seconds": statistics.stdev(seconds) if len(seconds) > 1 else None,
        "mean_final_loss": mean([run["final_loss"] for run in runs]),
    }
    if runs:
        whole |= {"median_seconds": statistics.median(seconds)}
        whole |= {"min_seconds": min(seconds), "max_seconds": max(seconds)}
        of_test_rows = [key for key in SUMMARISED if key in runs[0]]
        whole |= {f"mean_{key}": mean([run.get(key) for run in runs]) for key in of_test_rows}
    if members and runs:
        whole |= {"members": members, "mean_seconds_per_member": mean(seconds) / members}
    return whole


def disagreements(record):
    """The rules that a record in today's form breaks, by name."""
    runs, traits, machine = record["runs"], record.get("traits"), record["machine"]
    provenance, ran = record["provenance"], record["status"] in ("ok", "diverged")
    holds = {
        "summary": has_its_summary(record),
        "lost loss": not ran
        or any(None in (run["final_loss"], *run.get("member_mse", ())) for run in runs)
        == (record["status"] == "diverged"),
        "loss of members": all(
            run.get("final_mse", run["final_loss"]) == run["final_loss"]
            and ("member_mse" not in run or is_near(run["final_loss"], mean(run["member_mse"])))
            for run in runs
        ),
        "epochs": all(
            is_near(sum(epoch["seconds"] for epoch in run["epochs"]), run["seconds"])
            for run in runs
            if "epochs" in run
        ),
        "errors of test rows": all(len(run.keys() & set(SUMMARISED[2:])) in (0, 3) for run in runs),
        "share of runs": has_its_share(record["cell"]["protocol"], len(runs), record["stopped"]),
        "elapsed": lies_within_the_round(record),
        "passes": has_its_passes(record, ran),
        "members": not traits or not runs or traits["side_by_side"] == bool(record["members"]),
        "device": record["cell"]["device"].items()
        >= {"backend": provenance["backend"], "name": provenance["device"]}.items(),
        "neighbour": has_its_neighbour(record, ran),
        "samples": "samples" not in machine or is_in_order(machine["samples"]),
        "trace": not record["explanation"] or ends_after_it_starts(record["explanation"]["trace"]),
    }
    return [name for name, rule_holds in holds.items() if not rule_holds]


def has_its_summary(record):
    found, wanted = record["summary"], summary_of(record)
    if "mean_final_mse" in found:
        wanted["mean_final_mse"] = wanted["mean_final_loss"]
    losses = [run["final_loss"] for run in record["runs"] if run["final_loss"] is not None]
    values = [*(run["seconds"] for run in record["runs"]), *filter(None, wanted.values())]
    scales = {"mean_final_loss": losses, "mean_final_mse": losses}
    return found.keys() - {"setup_seconds"} == wanted.keys() and all(
        is_near(found[key], value, max(map(abs, scales.get(key, values)), default=0.0))
        for key, value in wanted.items()
    )


def has_its_share(protocol, count, stopped):
    least, most = protocol["runs"] // protocol["rounds"], -(-protocol["runs"] // protocol["rounds"])
    by_a_rule = stopped not in ("relative_error", "max_seconds") or protocol[stopped] is not None
    return by_a_rule and count <= most and (stopped != "runs" or count >= least)


def lies_within_the_round(record):
    setup, warmup = record["summary"].get("setup_seconds"), record["warmup"]
    if record["runs"] and (setup is None or warmup is None):
        return False
    total = sum([setup or 0.0, warmup["seconds"] if warmup else 0.0, *(r["seconds"] for r in record["runs"])])
    return total <= record["provenance"]["elapsed_seconds"] * (1 + 1e-9)


def has_its_passes(record, ran):
    ledger, memory, traits = record["ledger"], record["memory"], record.get("traits")
    if bool(ledger) != bool(memory) or (record["explanation"] and not (ledger and ran)):
        return False
    if memory and memory["least_free_bytes"] > memory["total_bytes"]:
        return False
    return not traits or not (ledger if traits["own_runtime"] else ran and not ledger)


def has_its_neighbour(record, ran):
    wanted = record["cell"]["protocol"].get("neighbour", "none")
    found, own = record["machine"].get("neighbour"), record["provenance"]["device_uuid"]
    if found is None:
        return wanted == "none" or not ran
    other = found["device_uuid"]
    return found["strategy"] == wanted and (other is None) == (own is None) and (not own or own != other)


def is_in_order(samples):
    times = samples["columns"]["t_s"]
    in_order = all(earlier <= later for earlier, later in pairwise(times))
    return in_order and len(times) <= samples["taken"] <= len(times) * samples["samples_per_row"]


def ends_after_it_starts(trace):
    start, end = (trace["columns"].index(name) for name in ("start_us", "end_us"))
    held = [trace["columns"].index(name) for name in ("device_bytes", "page_locked_bytes")]
    return all(event[start] <= event[end] and min(event[i] for i in held) >= 0 for event in trace["events"])
