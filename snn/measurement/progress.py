"""Progress messages: the runs of this job and, within a workflow, the other jobs of its plan."""

import json
import math
import sys
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from snn.backends.ops import OPS
from snn.measurement.protocol import Round, of_round
from snn.measurement.runs import Run
from snn.models.network import build
from snn.models.training_step import training_step

PLAN = Path(".snakemake/snn-plan.json")
_FIXED_WORK = 5e6  # multiply-adds that take about as long as a product's fixed cost
_QUIET_SECONDS = 2.0


def work(cell: Mapping[str, Any], rows: int, features: int) -> float:
    """The approximate work of one run in multiply-adds, to estimate one cell's time from another's."""
    batch, inputs = cell["training"]["batch_size"], cell["dataset"].get("shape", [features])
    step = _step_work(json.dumps(cell["network"], sort_keys=True), tuple(inputs), batch)
    return cell["training"]["epochs"] * math.ceil(rows / batch) * step


@cache
def _step_work(network: str, inputs: tuple[int, ...], batch: int) -> float:
    """The work of one step; ``network`` is a cell's section as JSON, which most jobs of a workflow share."""
    step = training_step(build(json.loads(network), inputs), batch, rate=0.0)
    products = [math.prod(numbers) for op, _, numbers, _ in step.launches if OPS[op].is_product]
    return sum(products) + len(products) * _FIXED_WORK


def round_seconds(rules: Round, run_seconds: float) -> float:
    """The expected seconds of a round's runs if each takes ``run_seconds``, within its time limit."""
    runs = rules.runs
    if rules.max_seconds is not None:
        fitting = max(rules.min_runs, math.floor(rules.max_seconds / run_seconds))
        runs = min(runs, fitting)
    return runs * run_seconds


def write_plan(jobs: Mapping[str, tuple[Mapping[str, Any], int]]) -> None:
    """Write the workflow's plan for its jobs: the cell and round of each record that will be made."""
    PLAN.parent.mkdir(exist_ok=True)
    PLAN.write_text(json.dumps({"started": time.time(), "jobs": jobs}), encoding="utf-8")


class Printer:
    """Prints a line to standard error, at most every two seconds, and one at the end of the job."""

    def __init__(
        self, cell: Mapping[str, Any], number: int, rows: int, features: int, output: str | None
    ) -> None:
        self._cell, self._output = cell, output
        self._number, self._rules = number, of_round(cell["protocol"], number)
        self._rows, self._features = rows, features
        self._last = time.monotonic()
        self._plan = _read_plan(output)

    def __call__(self, runs: list[Run]) -> None:
        mean = sum(run.seconds for run in runs) / len(runs)
        left = round_seconds(self._rules, mean) - mean * len(runs)
        if left > 0 and time.monotonic() - self._last < _QUIET_SECONDS:
            return
        self._last = time.monotonic()
        name = f"{self._cell['dataset']['name']} {self._cell['strategy']['name']}, round {self._number}"
        parts = [f"{name}: run {len(runs)} of {self._rules.runs}", f"{mean:.3g} s per run"]
        if self._plan:
            others = self._unfinished_others()
            total = len(self._plan["jobs"])
            parts.insert(0, f"job {total - len(others)} of {total}")
            left += sum(self._guess(cell, number, mean) for cell, number in others)
        parts.append(f"about {_duration(left)} left")
        print(", ".join(parts), file=sys.stderr, flush=True)

    def _guess(self, other: Mapping[str, Any], number: int, run_seconds: float) -> float:
        """Estimated seconds of another job, in proportion to its work; a CSV file counts as large as ours."""
        mine = work(self._cell, self._rows, self._features)
        data = other["dataset"]
        theirs = work(other, data.get("rows", self._rows), data.get("features", self._features))
        return round_seconds(of_round(other["protocol"], number), run_seconds * theirs / mine)

    def _unfinished_others(self) -> list[tuple[dict[str, Any], int]]:
        assert self._plan is not None
        started = self._plan["started"]
        return [
            job
            for path, job in self._plan["jobs"].items()
            if path != self._output and not _made_since(Path(path), started)
        ]


def _read_plan(output: str | None) -> dict[str, Any] | None:
    """The workflow's plan, if this job is in it."""
    try:
        plan = json.loads(PLAN.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return plan if output in plan["jobs"] else None


def _made_since(path: Path, moment: float) -> bool:
    try:
        return path.stat().st_mtime >= moment
    except OSError:
        return False


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min"
