"""``snn recommend``: find the strategy that trains a user's network fastest."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from snn import datasets
from snn.config.groups import CONFIG, read_yaml
from snn.errors import OutputError
from snn.files import outputs
from snn.grid import more_rounds
from snn.hardware import devices
from snn.profiling.memory import count
from snn.recommending import PROJECT, budget, candidates, crossover, elsewhere, text, workflow
from snn.recommending.budget import Length, Pilot
from snn.recommending.candidates import Grid, Records
from snn.recommending.question import Question, ask
from snn.workflow.signals import ending_at_once

NOTHING_ENDED_WELL = 3
_LEAST_PASS_SECONDS = 2.0
"""Seconds that the workflow takes to plan its jobs."""

_OUTPUTS = ("report.html", "ranking.csv", "grid.yaml")


def answer(**options: Any) -> int:
    """Measure, rank and print, for the options of ``snn recommend``; 0, or 3 if no run ended well."""
    started = time.monotonic()
    asked = ask(**options)
    if asked.device not in devices.BACKENDS and asked.device != devices.find("auto").name:
        print(elsewhere.describe(asked))
        return 0
    with ending_at_once(), workflow.held(), _unless_empty(asked.output):
        return _cross(asked, started) if asked.crossover else _recommend(asked, started)


@contextmanager
def _unless_empty(folder: Path) -> Iterator[None]:
    """Remove the folder, and parents, that the context has created, if they are empty at its end."""
    made: list[Path] = []
    with suppress(OSError):  # a name that is too long raises an error later
        made += [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        with suppress(OSError):  # the first that is not empty, or is not there
            for path in made:
                path.rmdir()


def _cross(asked: Question, started: float) -> int:
    """Compare the GPU with the CPU over widths or batch sizes."""
    crossover.check(asked, devices.find(asked.device if asked.device in devices.BACKENDS else "auto").backend)
    print(crossover.answer(asked, started))
    print(f"\n{asked.output}: {', '.join(crossover.OUTPUTS)}")
    return 0


def _recommend(asked: Question, started: float) -> int:
    device = devices.find(asked.device if asked.device in devices.BACKENDS else "auto")
    full = candidates.write(asked, device.backend)
    inputs = datasets.inputs(asked.cell["dataset"])
    targets = [outputs.checked(str(asked.output / name), inputs, "--output") for name in _OUTPUTS]
    if candidates.asks_otherwise(asked, targets[-1]):
        _say(
            f"snn: note: {asked.output} has the answer to another question, which this one will replace; "
            "--output FOLDER keeps both"
        )
    if asked.table is not None:
        datasets.say_remarks(asked.table)
    devices.say_unused_gpu(asked.device, device)
    _say(text.announcement(asked, device, len(full.plan.cells)))
    pilot = budget.run_pilot(full.training, asked.budget)
    deadline = started + asked.budget + pilot.waited
    grid = _measure(asked, _fit_length(full, asked, pilot), pilot.outside, deadline)
    following = ""
    try:
        following = _print_answer(asked, grid, grid.records())
    finally:  # the report is written even if nobody reads the answer any more
        _say("Writing the report.")
        workflow.report(grid, grid.length.part_of(asked.cell), following)
        for source, target in zip((workflow.PAGE, workflow.TABLE, grid.path), targets, strict=True):
            with outputs.replaced(target) as file:
                file.write((PROJECT / source).read_bytes())
    print(f"\n{asked.output}: {', '.join(_OUTPUTS)} ({time.monotonic() - started:.0f} s)")
    return 0 if following else NOTHING_ENDED_WELL


def _fit_length(full: Grid, asked: Question, pilot: Pilot) -> Grid:
    """The grid with the longest runs that fit, or with an earlier call's run length, to reuse its records."""
    cell, first = asked.cell, read_yaml(candidates.CHOICES)["first_round"]
    backend, cells = full.plan.device.backend, len(full.plan.cells)

    def fitting(count: int) -> Length:
        return budget.length_that_fits(pilot, cell, count, first, asked.budget)

    shorter = sorted(candidates.shortened(asked, backend), key=lambda length: -length.work(cell))
    earlier = [full, *(candidates.write(asked, backend, length) for length in shorter)]
    lacking = [len(grid.missing(only_first=True)) for grid in earlier]
    for lacks, grid in sorted(zip(lacking, earlier, strict=True), key=lambda pair: pair[0]):
        if lacks < cells and (not lacks or grid.length.work(cell) <= fitting(lacks).work(cell)):
            why = "as when this was measured before"
            break
    else:
        length, why = fitting(cells), "so that the budget suffices"
        grid = candidates.write(asked, backend, length) if length.part_of(cell) else full
    if part := grid.length.part_of(cell):
        _say(f"Each run trains {part}, {why}.")
    return grid


def _measure(asked: Question, grid: Grid, outside: float, deadline: float) -> Grid:
    """Measure a round of every candidate, then more of the contenders' until they are clear or it is time.

    ``deadline`` is of the clock ``time.monotonic``, and ``outside`` are the seconds of a job that its record
    does not count. The report gets the seconds that ``report_passes`` passes of the workflow take besides
    their jobs. Returns the grid without candidates whose measurement failed.
    """
    choices, thresholds = read_yaml(candidates.CHOICES), read_yaml(CONFIG / "verdicts.yaml")
    has: dict[str, int] = {}
    given = dict.fromkeys(grid.plan.cells, 1)
    pass_seconds = _LEAST_PASS_SECONDS
    grid.limit_rounds()
    while given:
        if lacking := grid.missing():
            rounds = count(max(given.values()), "round")
            _say(f"Measuring {count(len(lacking), 'candidate')}, until each has {rounds}.")
        begun = time.monotonic()
        grid, waited = _measure_once(asked, grid)
        spent = time.monotonic() - begun - waited
        deadline += waited
        records = grid.records()
        took = {
            name: [outside + float(one["provenance"]["elapsed_seconds"]) for one in of_cell]
            for name, of_cell in records.items()
        }
        jobs = sum(sum(seconds[has.get(name, 0) :]) for name, seconds in took.items())
        if jobs < spent:  # else records are of an earlier call
            pass_seconds = max(pass_seconds, spent - jobs)
        has = {name: len(of_cell) for name, of_cell in records.items()}
        cells = candidates.tabulate(records, thresholds)
        wants = budget.wanted_rounds(cells, choices["contender"], choices["rounds"], thresholds)
        left = deadline - time.monotonic() - (1 + choices["report_passes"]) * pass_seconds
        round_seconds = {name: sum(seconds) / len(seconds) for name, seconds in took.items()}
        given = budget.rounds_that_fit(wants, has, round_seconds, left, choices["rounds"])
        if given:
            more_rounds.add(given, PROJECT / more_rounds.FILE)
    if wants:
        _say(
            "More rounds would narrow the intervals, but the time left is too short for them. "
            "Use a larger --budget to continue."
        )
    return grid


def _measure_once(asked: Question, grid: Grid) -> tuple[Grid, float]:
    """Measure what is missing.

    Returns the grid without candidates whose measurement failed, and the seconds spent waiting for other
    measurements. Raises WorkflowError, on a full disk for example, after printing the answer from the
    existing records.
    """
    waited = 0.0
    try:
        while True:
            try:
                return grid, waited + workflow.measure(grid)
            except workflow.WorkflowError as error:
                waited += error.waited
                grid = _without_failed(asked, grid, error)
    except (workflow.WorkflowError, OutputError):
        present = grid.records(only_present=True)
        if len(present) > 1 and grid.training.name in present:
            _print_answer(asked, grid, present)
        raise


def _without_failed(asked: Question, grid: Grid, error: workflow.WorkflowError) -> Grid:
    """The grid without the candidates whose measurement failed, if two others are left, and the reference
    and the baseline among them; else raises the error."""
    failed, cells = grid.missing(), grid.plan.cells
    needed = {grid.training.name, next(iter(cells))}
    if not (error.of_jobs and failed) or needed & set(failed) or len(cells) - len(failed) < 2:
        raise error
    names = ", ".join(cells[name].strategy for name in failed)
    _say(f"Measuring {names} failed (see above); the other candidates are still compared.")
    backend = grid.plan.device.backend
    return candidates.write(asked, backend, grid.length, without=grid.without | set(failed))


def _print_answer(asked: Question, grid: Grid, records: Records) -> str:
    """Print the answer, the ranking, the next command, and what is known of a GPU.

    Returns the next command, which is empty without an answer.
    """
    ranking, answer = candidates.ranking_and_answer(records, read_yaml(CONFIG / "verdicts.yaml"))
    missing = candidates.missing_frameworks(grid.plan.device.backend)
    print(text.answer(ranking, answer, grid.length, asked.cell, missing))
    following = text.next_command(asked, ranking, grid.plan.cells.values())
    if following:
        print(f"Next: {following}")
    if grid.plan.device.backend == "cpu":
        print(f"\n{elsewhere.on_a_gpu(asked.cell)}")
    if sys.stdout is not None:
        sys.stdout.flush()
    return following


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
