"""One line about a cell's job, for the end of a command: status, time and loss.

Does not import pandas, which would slow the start of a cell.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from statistics import fmean
from typing import Any

from snn.analysis.intervals import mean_interval
from snn.analysis.machine_state import Thresholds, verdict
from snn.analysis.verdicts import ended
from snn.config.cell import Cell
from snn.errors import one_line
from snn.strategies.factory import of_record, uses_kernel

_UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def line(record: Mapping[str, Any], thresholds: Thresholds) -> str:
    """A record in one line: ``small 256: combined with naive: ok, machine quiet, 12.3 ms per run (95% CI 12.1
    to 12.6 ms, 10 runs), final loss 41.2``. It ends with the reason of every status but ``ok``.

    The interval covers this job's runs only; another round may differ by more.
    """
    cell, summary = Cell(record["cell"]), record["summary"]
    state, _ = verdict([record], thresholds)
    status, reason = ended(record, thresholds)
    parts = [status, f"machine {state}" if state else ""]
    if record["runs"]:
        loss = summary["mean_final_loss"]
        parts.append(_time([run["seconds"] for run in record["runs"]]))
        members = summary.get("members", 0)
        parts.append(f"{members} network{'s' * (members > 1)} in each" if members else "")
        parts.append("final loss not finite" if loss is None else f"final loss {loss:.6g}")
        parts.append(_validated(record["runs"]))
        if "mean_test_accuracy" in summary:
            parts.append(f"test accuracy {summary['mean_test_accuracy']:.2%}")
        if summary.get("mean_test_r2") is not None:
            parts.append(f"R² on test rows {summary['mean_test_r2']:.4g}")
        for number, member in enumerate(record.get("members", []), 1):
            if number == record.get("best_member"):
                score = f" with score {member['score']:.4g}" if "score" in member else ""
                parts.append(f"member {number} is the best{score}")
    else:
        parts.append("no time")
    precision = "" if cell.precision == "fp32" else f" in {cell.precision}"
    kernel = kernel_used(record)
    what = f"{cell.strategy}{kernel and f' with {kernel}'}{precision}"
    because = f": {one_line(reason)}" if reason else ""
    return f"{cell.dataset} {cell.network}: {what}: {', '.join(filter(None, parts))}{because}"


def _validated(runs: Sequence[Mapping[str, Any]]) -> str:
    """Means over the runs: the last and the best validation loss, the epoch of the best, and the epochs.

    Empty if no row was held out.
    """
    if "validation_loss" not in runs[0]:
        return ""
    if None in [epoch["validation_loss"] for run in runs for epoch in run["epochs"]]:
        return "validation loss not finite"
    best = fmean(run["epochs"][run["best_epoch"] - 1]["validation_loss"] for run in runs)
    after = (
        f"{fmean(run['best_epoch'] for run in runs):.4g} of {fmean(len(run['epochs']) for run in runs):.4g}"
    )
    last = fmean(run["epochs"][-1]["validation_loss"] for run in runs)
    return f"validation loss {last:.6g}, at best {best:.6g} after {after} epochs"


def kernel_used(record: Mapping[str, Any]) -> str:
    """The file in ``kernels/`` of the kernel that did the arithmetic; empty for CPU baselines and peers.

    A strategy that trains in one launch has its own kernel. Otherwise, and if ``graph`` or NumPy trains
    instead, the kernel is the choice of ``config/kernel``.
    """
    if not uses_kernel(of_record(record)):
        return ""
    launch = record.get("launch")
    return str(launch["kernel"] if launch else record["cell"]["kernel"]["name"])


def _time(seconds: list[float]) -> str:
    """The mean time of the runs with its interval, in the largest unit in which it is at least 1."""
    mean = sum(seconds) / len(seconds)
    low, high = mean_interval([seconds])
    unit, factor = next((one for one in _UNITS if mean * one[1] >= 1), _UNITS[-1])
    if isnan(low):
        return f"{mean * factor:.4g} {unit} in one run, which has no interval"
    interval = f"{low * factor:.4g} to {high * factor:.4g} {unit}"
    return f"{mean * factor:.4g} {unit} per run (95% CI {interval}, {len(seconds)} runs)"
