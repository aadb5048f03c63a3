"""Breakdown of the time of one training run: by part, next to what per-call costs predict, and by call.

And what accounts for the difference between two cells, in sentences: from the ledgers and time breakdowns of
both. Parts of a time add up; that one is shorter does not show what made it so.
"""

import re
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

import pandas as pd

from snn.analysis.grouping import is_empty, settings, varied
from snn.analysis.machine_state import Thresholds
from snn.analysis.speedups import over_baselines
from snn.analysis.verdicts import AGREES, DIFFERS, INCONCLUSIVE
from snn.tables.table import DEVICE, LEDGER, Rows, Table, cells_table, epochs, optional, reference, status

PART = "part."
LABELS = {
    "allocation": "device allocation and free",
    "host_allocation": "host allocation and free",
    "streams": "stream creation and destruction",
    "copy_in": "host-to-device copies",
    "copy_out": "device-to-host copies",
    "launch": "launches",
    "kernels": "waits for kernels",
    "waiting": "other waits for the device",
    "host_arithmetic": "host arithmetic",
}
"""The parts of a run's time, from those that the paper's strategies remove to those that they cannot."""


def _breakdown(rows: Rows) -> pd.DataFrame:
    """Parts of an instrumented pass with a timer around every call, and the time predicted from calls' costs.

    Predictions are divided if both are of one GPU. ``prediction`` ``agrees`` if the whole 95% interval of the
    measured speedup is within the factor ``predicts`` of the predicted one, and ``differs`` if all of it is
    beyond.
    """
    cells = rows.frame
    parts = cells[[name for name in cells if name.startswith(PART)]]
    attributed, unknown = parts.sum(axis=1, min_count=1), pd.Series(float("nan"), cells.index)
    predicted = cells.get("predicted_calls_s", unknown) + cells.get(f"{PART}host_arithmetic", unknown)
    references = reference("dataset", "network")(cells)
    gpus = cells.get("explained_on", unknown).astype(object).fillna("")
    of_reference = pd.DataFrame({"s": predicted, "gpus": gpus}).reindex(references).set_axis(cells.index)
    is_comparable = (gpus == of_reference["gpus"]) & ~gpus.str.contains(", ")
    limit, shares = rows.thresholds["parts_differ"], (attributed / cells["mean_s"]).fillna(1)
    measured = over_baselines(cells, references, rows.thresholds)
    predicted_speedup = (of_reference["s"] / predicted).where(is_comparable)
    ends = measured[["speedup_ci_low", "speedup_ci_high"]].astype(float).div(predicted_speedup, axis=0)
    return parts.rename(columns=lambda name: f"{name.removeprefix(PART)}_s").assign(
        attributed_s=attributed,
        mean_s=cells["mean_s"],
        std_s=cells["std_s"],
        predicted_s=predicted,
        speedup=measured["speedup"],
        predicted_speedup=predicted_speedup,
        prediction=[
            "" if number == i else _prediction(low, high, rows.thresholds["predicts"])
            for i, (number, (low, high)) in enumerate(zip(references, ends.to_numpy(), strict=True))
        ],
        note=[
            ""
            if 1 / limit <= share <= limit
            else f"the parts add up to {share:.3g} times the mean of the runs"
            for share in shares
        ],
    )


def _prediction(low: float, high: float, factor: float) -> str:
    """The word for the interval of a measured speedup over the predicted one; empty if there is none."""
    if pd.isna(low) or pd.isna(high):
        return ""
    if 1 / factor <= low and high <= factor:
        return AGREES
    return DIFFERS if high < 1 / factor or low > factor else INCONCLUSIVE


attribution = attribution_neurons = attribution_depth = attribution_allocation = cells_table(
    "Time breakdown of one training run, and the time predicted from per-call costs",
    "strategy dataset network",
    epochs,
    _breakdown,
    optional("ledger.", LEDGER),
    status,
    DEVICE,
)


def _timeline(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per call of an instrumented pass of two steps, which slows every call a little.

    Times are in microseconds since the start, on the host's clock and, for device work, on the device's.
    ``stream`` 0 is the default stream.
    """
    tables = []
    for _, row in cells[cells["trace"].map(bool)].iterrows():
        trace = row["trace"]
        events = pd.DataFrame(trace["events"], columns=trace["columns"])
        events = events.rename(columns={"page_locked_bytes": "pinned_bytes", "site": "call_site"})
        events["call_site"] = [trace["sites"][site] for site in events["call_site"]]
        events["size"] = ["x".join(map(str, size)) for size in events["size"]]
        events["stream"] = events["stream"].astype("Int64")
        events.insert(0, "strategy", row["strategy"])
        tables.append(events.assign(device=row["device"], backend=row["backend"]))
    if not tables:
        return pd.DataFrame(columns=["strategy", "device", "backend"])
    return pd.concat(tables, ignore_index=True)


timeline = Table("Two steps of training, call by call", _timeline)


# ---- the calls of one step, each timed alone

PASSES = ("forward", "dgrad", "weights")
"""Parts of a step: forward pass and loss; gradients of layers' inputs; those of weights, and updates."""

_LOSS = ("error", "matmul_error", "softmax_cross_entropy")
"""Calls that end the forward pass: they compute the gradient of the outputs."""

_BACKWARD = {
    "weights": re.compile(r"matmul_tn|conv2d_wgrad|(fma_|clipped_)?update|sum_(squares|parts|rows)"),
    "dgrad": re.compile(r"matmul(_nt)?(_mask)?$|mask$|conv2d_dgrad|max_pool2d_gradient|keep_first"),
}
_NOT_LAUNCHED = re.compile(r"copy_(in|out)$|event_")


def step_calls(row: Mapping[str, Any]) -> list[tuple[str, str, str, float]]:
    """Each call of one traced step: pass, name, size, and µs on the device, the median over rounds.

    A call was timed alone, between two events, which add to it. Empty unless a step consists of launches,
    copies and events alone, and each launch is known to belong to one pass.
    """
    trace = row["trace"] or {"events": [], "steps": 1}
    step = [(name, tuple(size)) for name, size, *_ in trace["events"]][
        : len(trace["events"]) // trace["steps"]
    ]
    step = [call for call in step if not _NOT_LAUNCHED.match(call[0])]
    losses = [i for i, (name, _) in enumerate(step) if name in _LOSS]
    if not losses:
        return []
    timed: dict[Any, list[float]] = {}
    for call in row["calls"]:
        timed.setdefault((call["call"], tuple(call["size"])), []).append(call["device_us"])
    found = []
    for i, (name, size) in enumerate(step):
        passes = [one for one, names in _BACKWARD.items() if names.match(name)]
        if i > losses[0] and not passes:
            return []
        of = passes[0] if i > losses[0] else "forward"
        found.append((of, name, "x".join(map(_number, size)), median(timed[name, size])))
    return found


def _number(value: float) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _calls(cells: pd.DataFrame, paper: Mapping[str, Any], thresholds: Thresholds) -> pd.DataFrame:
    """One row per call and size, in the order of a step."""
    shown = ["strategy", "dataset", "network", "kernel", "precision"]
    shown += varied(cells, settings(cells, ("kernel", "training")), shown)
    rows: list[tuple[Any, ...]] = []
    for cell in cells.to_dict("records"):
        calls = step_calls(cell)
        in_all = sum(us for *_, us in calls)
        for (*names, us), count in Counter(calls).items():
            measured = (count, us, count * us / in_all if in_all else None)
            rows.append((*(cell[key] for key in shown), *names, *measured, cell["device"], cell["backend"]))
    columns = [*shown, "pass", "call", "size", "calls", "device_us", "share", "device", "backend"]
    return pd.DataFrame(rows, columns=columns)


kernel_calls = cnn_calls = cnn_block_calls = Table("The calls of one step, each timed alone", _calls)


# ---- what accounts for the difference between two cells

_COUNTS = {
    "mallocs": "device allocations",
    "pool_allocs": "pool allocations",
    "managed_allocs": "managed allocations",
    "host_allocs": "pinned allocations",
    "pageable_allocs": "pageable allocations",
    "h2d_copies": "host-to-device copies",
    "d2h_copies": "device-to-host copies",
    "streams_created": "stream creations",
    "launches": "launches",
    "graph_launches": "graph launches",
    "synchronizations": "synchronizations",
}
_MOST = 3
_MIN_SHARE = 0.05
"""Changes below this share of the difference between the times, or of the largest change, are left out."""
_TOO_MUCH = 1.25
"""Times by which passes must differ more than runs for a reason to mention it."""


def reason(winner: pd.Series, reference: pd.Series | None) -> str:
    """Text of what the winner does less or more often than the reference, and which parts' times differ.

    Counts are exact, per training run. Seconds are from instrumented passes: they add up to the difference
    only approximately, and are left out if the winner's passes took longer.
    """
    if reference is None:
        return "There is no reference to compare it with."
    if winner["cell"] == reference["cell"]:
        the = "the " if winner["strategy"] == "reference" else ""
        return f"No other strategy is faster than {the}{winner['strategy']}."
    sentences = []
    if winner["kernel"] not in ("", reference["kernel"]):
        sentences.append(f"It uses the kernel {winner['kernel']} instead of {reference['kernel']}.")
    changes = _changes(winner, reference, {f"ledger.{key}": name for key, name in _COUNTS.items()})
    least = _MIN_SHARE * max(map(abs, changes.values()), default=0)
    if said := _largest(changes, least, "{:,} fewer {}", "{:,} more {}"):
        sentences.append(f"Per training it makes {said}.")
    changes = _changes(winner, reference, {PART + part: name for part, name in LABELS.items()})
    difference, by_passes = abs(reference["mean_s"] - winner["mean_s"]), sum(changes.values())
    said = _largest(changes, _MIN_SHARE * difference, "{:.2g} s less on {}", "{:.2g} s more on {}")
    if said and by_passes > 0:
        is_more = by_passes > _TOO_MUCH * difference
        passes = ", by instrumented passes, which differ by more than the runs" if is_more else ""
        sentences.append(f"It spends about {said}{passes}.")
    return " ".join(sentences) or "Neither the ledgers nor the time breakdowns account for the difference."


def _changes(winner: pd.Series, reference: pd.Series, names: Mapping[str, str]) -> dict[str, float]:
    """The reference's excess over the winner by name, for keys that both records have."""
    known = [key for key in names if not any(is_empty(row.get(key)) for row in (winner, reference))]
    return {names[key]: reference[key] - winner[key] for key in known}


def _largest(changes: Mapping[str, float], least: float, less: str, more: str) -> str:
    """The largest changes of both signs: ``1,488 fewer device allocations, but 100 more graph launches``."""
    parts = []
    for sign, text in ((1, less), (-1, more)):
        sizes = [(sign * change, name) for name, change in changes.items() if sign * change > least]
        *others, last = [text.format(*one) for one in sorted(sizes, key=lambda one: -one[0])[:_MOST]] or [""]
        parts.append(" and ".join(filter(None, [", ".join(others), last])))
    return ", but ".join(filter(None, parts))
