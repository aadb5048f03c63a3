"""``snn recommend``: which strategy trains one's own network fastest."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from snn import command, datasets
from snn.analysis import frame
from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.errors import ConfigError, OutputError, shown
from snn.files import outputs
from snn.grid import more_rounds
from snn.hardware import devices
from snn.measurement.passes import job_of
from snn.recommending import command_line, elsewhere, grid_file, measured, more_time, pilot, text, workflow
from snn.recommending.grid_file import GridFile
from snn.recommending.length import Length, that_fits
from snn.recommending.settings import Settings, parsed, with_batch_size
from snn.recommending.words import in_options
from snn.workflow.signals import ending_at_once

NOTHING_ENDED_WELL = 3
_LEAST_OF_PASS = 2.0
"""Seconds that the workflow takes beside its jobs: to plan, and to make the tables."""

_OUTPUTS = ("report.html", "ranking.csv", "grid.yaml")


def main(arguments: list[str]) -> int:
    """Measure, rank and print; 0, 2 on a user's error, 3 where no training ended well."""
    codes = {0: "a recommendation was made", NOTHING_ENDED_WELL: "no training ended well, so there is none"}
    return command.answered(arguments, command_line.helped(), _main, codes)


def _main(arguments: list[str]) -> int:
    started = time.monotonic()
    settings = parsed(arguments)
    with in_options(settings.keys):
        settings = with_batch_size(settings)
        if settings.device not in devices.BACKENDS and settings.device != devices.find("auto").name:
            said = elsewhere.described(settings)
            cell = grid_file.training_of(grid_file.write(settings, "cpu").plan)
            if "dataset.target" in settings.grid:  # of other data sets all is known without their files
                _check_data(cell)
            print(said)
            return 0
        with ending_at_once(), workflow.held(), _unless_empty(settings.output):
            return _recommend(settings, started)


@contextmanager
def _unless_empty(folder: Path) -> Iterator[None]:
    """A context at whose end folders that were made in it do not stay with nothing inside."""
    made: list[Path] = []
    with suppress(OSError):  # a name that is too long is refused later
        made += [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield
    finally:
        with suppress(OSError):  # the first that is not empty, or is not there
            for path in made:
                path.rmdir()


def _recommend(settings: Settings, started: float) -> int:
    choices = read_yaml(grid_file.CHOICES)
    device = devices.find(settings.device if settings.device in devices.BACKENDS else "auto")
    grid = grid_file.write(settings, device.backend)
    cell = grid_file.training_of(grid.plan)
    targets = _checked_outputs(settings.output, datasets.inputs(cell["dataset"]))
    if grid_file.asks_otherwise(settings, settings.output / _OUTPUTS[-1]):
        _say(
            f"snn: note: {settings.output} has the answer to another question, which this one will replace; "
            "--output FOLDER keeps both"
        )
    table = _check_data(cell)
    devices.say_unused_gpu(settings.device, device)
    _say(text.announcement(cell, device, len(grid.plan.cells), table))
    timed = pilot.run(cell, settings.budget)
    grid = _of_a_length_that_fits(grid, settings, timed, choices["first_round"])
    deadline = started + settings.budget + timed.waited
    grid = _measure(grid, cell, settings, choices, deadline, timed.outside)
    try:
        has_answer = _print_answer(grid, cell, measured.records(grid))
    finally:  # the report is written even if nobody reads the answer any more
        _write_report(grid, cell, targets)
    took = time.monotonic() - started
    print(f"\n{settings.output}: {', '.join(_OUTPUTS)} ({took:.0f} s)")
    return 0 if has_answer else NOTHING_ENDED_WELL


def _print_answer(
    grid: GridFile, cell: Mapping[str, Any], records: Mapping[str, Sequence[frame.Record]]
) -> bool:
    """Print the answer, the ranking, and what is known of a GPU; whether there is an answer."""
    ranking, answer = measured.ranking_and_answer(records, read_yaml(CONFIG / "verdicts.yaml"))
    print(text.answer(ranking, answer, grid.length, cell))
    if grid.plan.device.backend == "cpu":
        print(f"\n{elsewhere.on_a_gpu(cell)}")
    if sys.stdout is not None:
        sys.stdout.flush()
    return bool(ranking["rank"].notna().any())


def _write_report(grid: GridFile, cell: Mapping[str, Any], targets: Sequence[Path]) -> None:
    _say("Writing the report.")
    workflow.report(grid, grid.length.part_of(cell) if grid.length else "")
    for source, target in zip((workflow.PAGE, workflow.TABLE, grid.path), targets, strict=True):
        with outputs.replaced(target) as file:
            file.write((ROOT / source).read_bytes())


def _checked_outputs(folder: Path, inputs: list[Path]) -> list[Path]:
    """Where the files of the output are written, behind links. Raises ConfigError where one cannot be
    written, or would replace the user's table."""
    with suppress(OSError):  # which is said below
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"--output is {shown(str(folder))}: it is a file, and must be a folder")
    targets = []
    for name in _OUTPUTS:
        path = str(folder / name)
        try:
            targets.append(outputs.checked(path, inputs, key="--output"))
        except ConfigError as error:
            raise ConfigError(str(error).replace(repr(path), shown(str(folder)), 1)) from error
    return targets


def _check_data(cell: Mapping[str, Any]) -> datasets.Table | None:
    """Raise DataError or ConfigError where the user's file, or this network on it, cannot be trained, before
    anything else is said or measured; print what is doubtful in the file. The table of that file."""
    if not cell["dataset"].get("path"):
        return None
    table = datasets.make(cell["dataset"])
    job_of(cell, table)
    datasets.say_remarks(table)
    return table


def _of_a_length_that_fits(
    full: GridFile, settings: Settings, timed: pilot.Pilot, first: Mapping[str, Any]
) -> GridFile:
    """The grid whose runs are as long as fits, or as those of an earlier call, whose records then count."""
    cell = grid_file.training_of(full.plan)
    backend = cell["device"]["backend"]

    def fitting(candidates: int) -> Length:
        return that_fits(timed, cell, candidates, first, settings.budget)

    shorter = sorted(grid_file.shortened(settings, backend), key=lambda length: -length.work(cell))
    earlier = [full, *(grid_file.write(settings, backend, length) for length in shorter)]
    for grid in sorted(earlier, key=lambda grid: len(measured.missing(grid, only_first=True))):
        lacking = measured.missing(grid, only_first=True)
        length = grid.length or Length(cell["training"]["epochs"])
        if len(lacking) < len(grid.plan.cells) and (
            not lacking or length.work(cell) <= fitting(len(lacking)).work(cell)
        ):
            if part := length.part_of(cell):
                _say(f"Each run trains {part}, as when this was measured before.")
            return grid
    length = fitting(len(full.plan.cells))
    if not (part := length.part_of(cell)):
        return full
    _say(f"Each run trains {part}, so that the budget suffices.")
    return grid_file.write(settings, backend, length)


def _measure(
    grid: GridFile,
    cell: Mapping[str, Any],
    settings: Settings,
    choices: Mapping[str, Any],
    deadline: float,
    outside: float,
) -> GridFile:
    """A round of every candidate, then more of the contenders' until they are clear or time is over.

    ``outside`` are the seconds of a job that its record does not count. The report is given as many seconds
    as ``report_passes`` passes of the workflow take beside their jobs. Returns the grid that was measured,
    without candidates whose measurement failed. If the workflow fails, as on a full disk, the answer from
    the records that there are is printed before its error.
    """
    thresholds = read_yaml(CONFIG / "verdicts.yaml")
    has: dict[str, int] = {}
    given = dict.fromkeys(grid.plan.cells, 1)
    of_pass = _LEAST_OF_PASS
    measured.limit_rounds(grid)
    while given:
        if lacking := measured.missing(grid):
            rounds = _counted(max(given.values()), "round")
            _say(f"Measuring {_counted(len(lacking), 'candidate')}, until each has {rounds}.")
        begun = time.monotonic()
        try:
            grid, waited = _all_that_can_be(grid, settings)
        except (workflow.WorkflowError, OutputError):
            there = measured.records(grid, only_present=True)
            strategies = {of[0]["cell"]["strategy"]["name"] for of in there.values()}
            if len(there) > 1 and "reference" in strategies:
                _print_answer(grid, cell, there)
            raise
        deadline += waited
        pass_seconds = time.monotonic() - begun - waited
        records = measured.records(grid)
        new = [one for name, of in records.items() for one in of[has.get(name, 0) :]]
        counted = sum(outside + one["provenance"]["elapsed_seconds"] for one in new)
        if counted < pass_seconds:  # else records are of an earlier call
            of_pass = max(of_pass, pass_seconds - counted)
        has = {name: len(of) for name, of in records.items()}
        cells = frame.tabulate(measured.by_round(records), thresholds)
        wants = more_time.wanted(cells, choices["contender"], choices["rounds"], thresholds)
        left = deadline - time.monotonic() - (1 + choices["report_passes"]) * of_pass
        given = more_time.fitting(wants, has, more_time.seconds_per_round(records, outside), left)
        if given:
            more_rounds.add(given, ROOT / more_rounds.FILE)
    if wants:
        _say(
            "More rounds would make the answer surer, but the time left is too short for them. "
            "With a larger --budget it continues."
        )
    return grid


def _all_that_can_be(grid: GridFile, settings: Settings) -> tuple[GridFile, float]:
    """Measure what is missing; the grid, and the seconds of waiting for other measurements. Candidates whose
    measurement failed are left out of the grid, as long as two others are left, the reference among them.
    Raises WorkflowError."""
    waited = 0.0
    while True:
        try:
            return grid, waited + workflow.measure(grid)
        except workflow.WorkflowError as error:
            waited += error.waited
            failed = measured.missing(grid)
            reference = grid_file.training_of(grid.plan)
            left = [cell for name, cell in grid.plan.cells.items() if name not in failed]
            if not error.of_jobs or not failed or reference not in left or len(left) < 2:
                raise
            names = ", ".join(grid.plan.cells[name]["strategy"]["name"] for name in failed)
            _say(f"Measuring {names} failed (see above); the other candidates are compared without.")
            without = grid.without | set(failed)
            grid = grid_file.write(settings, reference["device"]["backend"], grid.length, without=without)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(command.run(main))
