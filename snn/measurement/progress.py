"""Progress messages: the runs of this job and, within a workflow, the other jobs of its plan."""

import hashlib
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from snn.backends.ops import OPS
from snn.files.outputs import say
from snn.hardware.sampling import Sample
from snn.measurement.protocol import Round, of_round
from snn.measurement.runs import Run
from snn.models.network import build
from snn.models.training_step import training_step
from snn.profiling.memory import size

PLAN = Path(".snakemake/snn-plan.json")
DONE = Path(".snakemake/snn-done.txt")
_FIXED_WORK = 5e6  # multiply-adds that take about as long as a product's fixed cost
_QUIET_SECONDS = 2.0
_LIVE_SECONDS = 10.0
_SHOWN = (
    *(("utilisation", "{:.0f}% busy"), ("temperature_c", "{:.0f} C"), ("power_w", "{:.0f} W")),
    *(("sm_mhz", "{:.0f} MHz"), ("load", "load {:.1f}"), ("throttled", "{}")),
)
"""Values of a sample that a line shows, with their units."""


def work(cell: Mapping[str, Any], rows: int, features: int) -> float:
    """The approximate work of one run in multiply-adds, to estimate one cell's time from another's."""
    batch, inputs = cell["training"]["batch_size"], cell["dataset"].get("shape") or [features]
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


def write_plan(jobs: Iterable[tuple[Mapping[str, Any], int]]) -> None:
    """Write the workflow's plan for its jobs, each a cell and a round of it, of which none is done. Jobs of
    one kind, which take as long, are only counted: each job reads the plan, between its timed runs."""
    kinds: dict[str, dict[str, Any]] = {}
    for cell, number in jobs:
        kind = _kind(cell, number)
        kinds.setdefault(_name(kind), kind | {"jobs": 0})["jobs"] += 1
    PLAN.parent.mkdir(exist_ok=True)
    DONE.write_text("", encoding="utf-8")
    PLAN.write_text(json.dumps(kinds), encoding="utf-8")


def note_done(cell: Mapping[str, Any], number: int, output: Path) -> None:
    """Note that the record of a job is written, if the workflow's plan has it; other jobs count it."""
    name = _name(_kind(cell, number))
    if name in _plan_of(str(output)):
        with suppress(OSError), DONE.open("a", encoding="utf-8") as file:
            file.write(f"{name}\n")


def _kind(cell: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Everything that determines the work of a job."""
    data = {key: cell["dataset"].get(key) for key in ("rows", "features", "shape")}
    network = {key: value for key, value in cell["network"].items() if key != "seed"}
    work = {"training": cell["training"], "protocol": cell["protocol"]}
    return {"cell": {"dataset": data, "network": network, **work}, "round": number}


def _name(kind: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:16]


def _plan_of(output: str | None) -> dict[str, dict[str, Any]]:
    """The kinds of jobs of the workflow's plan by name; none for a record that is not a workflow's."""
    if output is None or "results/cells/" not in output:
        return {}
    try:
        plan: dict[str, dict[str, Any]] = json.loads(PLAN.read_text(encoding="utf-8"))
        return plan
    except (OSError, ValueError):
        return {}


def made_since_start(path: Path) -> bool:
    """Whether a file was written since the current workflow began, and wrote its plan."""
    try:
        return path.stat().st_mtime_ns >= PLAN.stat().st_mtime_ns
    except OSError:
        return False


class Printer:
    """Prints a line to standard error, at most every two seconds, and one at the end of the job. During a
    long run it prints the epochs done, if that is a terminal, and every ten seconds the machine's state."""

    def __init__(
        self, cell: Mapping[str, Any], number: int, rows: int, features: int, output: str | None
    ) -> None:
        self._cell, self._output = cell, output
        self._number, self._rules = number, of_round(cell["protocol"], number)
        self._rows, self._features = rows, features
        self._last = self._last_of_run = time.monotonic()
        self._runs = 0
        self._name = f"{cell['dataset']['name']} {cell['strategy']['name']}, round {number}"
        self._own = _name(_kind(cell, number))
        plan = _plan_of(output)
        self._plan = plan if self._own in plan else {}

    def __call__(self, runs: list[Run]) -> None:
        self._runs = len(runs)
        mean = sum(run.seconds for run in runs) / len(runs)
        left = round_seconds(self._rules, mean) - mean * len(runs)
        if left > 0 and time.monotonic() - self._last < _QUIET_SECONDS:
            return
        self._last = time.monotonic()
        parts = [f"{self._name}: run {len(runs)} of {self._rules.runs}", f"{mean:.3g} s per run"]
        if self._plan:
            others = Counter({name: kind["jobs"] for name, kind in self._plan.items()})
            total = others.total()
            others[self._own] -= 1
            with suppress(OSError):
                others.subtract(DONE.read_text(encoding="utf-8").split())
            others = +others  # of each kind, the jobs that have no record yet
            parts.insert(0, f"job {total - others.total()} of {total}")
            left += sum(count * self._guess(self._plan[name], mean) for name, count in others.items())
        parts.append(f"about {_duration(left)} left")
        say(", ".join(parts), sys.stderr)

    def of_run(self, done: float, epochs: int, seconds: float) -> None:
        """Print on a terminal how far a run of more than two seconds is, at most every two seconds."""
        now = time.monotonic()
        since = now - max(self._last, self._last_of_run)
        if min(seconds, since) < _QUIET_SECONDS or sys.stderr is None or not sys.stderr.isatty():
            return
        self._last_of_run = now
        run = f"{self._name}: run {self._runs + 1} of {self._rules.runs}"
        left = _duration(seconds * (epochs - done) / done)
        so_far = f"{math.floor(done)} of {epochs} epochs ({done / epochs:.0%})"
        say(f"{run}, {so_far}, about {left} left of it", sys.stderr)

    def live(self, sample: Sample, limits: Mapping[str, Any]) -> None:
        """Print a sample of the machine, unless a line was printed within the last ten seconds."""
        if time.monotonic() - self._last >= _LIVE_SECONDS:
            self._last = time.monotonic()
            used, capacity = sample.get("memory_used_bytes"), limits.get("memory_bytes")
            parts = [f"{self._name}: {sample['t_s']:.0f} s"]
            if used is not None:
                share = f" ({used / capacity:.0%})" if capacity else ""
                parts.append(f"{size(used)} of memory used{share}")
            shown = (form.format(sample[key]) for key, form in _SHOWN if sample.get(key) not in (None, ""))
            say(", ".join([*parts, *shown]), sys.stderr)

    def _guess(self, kind: Mapping[str, Any], run_seconds: float) -> float:
        """Estimated seconds of another job, in proportion to its work; a CSV file counts as large as ours."""
        cell, data = kind["cell"], kind["cell"]["dataset"]
        mine = work(self._cell, self._rows, self._features)
        theirs = work(cell, data["rows"] or self._rows, data["features"] or self._features)
        return round_seconds(of_round(cell["protocol"], kind["round"]), run_seconds * theirs / mine)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    return f"{seconds / 60:.0f} min"
