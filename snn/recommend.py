"""``snn recommend``: which strategy trains one's own network fastest."""

import sys
import time
from collections.abc import Iterator, Mapping
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
from snn.profiling.memory import count
from snn.recommending import budget, candidates, elsewhere, settings, text, workflow
from snn.recommending.budget import Length, Pilot
from snn.recommending.candidates import Grid, Records
from snn.recommending.settings import Settings
from snn.workflow.signals import ending_at_once

NOTHING_ENDED_WELL = 3
_LEAST_OF_PASS = 2.0
"""Seconds that the workflow takes beside its jobs: to plan, and to make the tables."""

_OUTPUTS = ("report.html", "ranking.csv", "grid.yaml")


def main(arguments: list[str]) -> int:
    """Measure, rank and print; 0, 2 on a user's error, 3 if no training ended well."""
    codes = {0: "a recommendation was made", NOTHING_ENDED_WELL: "no training ended well, so there is none"}
    return command.answered(arguments, settings.parser().format_help(), _main, codes)


def _main(arguments: list[str]) -> int:
    started = time.monotonic()
    asked = settings.parse(arguments)
    with settings.in_options(asked.keys):
        asked = settings.with_batch_size(asked)
        if asked.device not in devices.BACKENDS and asked.device != devices.find("auto").name:
            cell = candidates.write(asked, "cpu").training
            said = elsewhere.describe(asked, cell)
            if "dataset.target" in asked.grid:  # of other data sets all is known without their files
                _check_data(cell)
            print(said)
            return 0
        with ending_at_once(), workflow.held(), _unless_empty(asked.output):
            return _recommend(asked, started)


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


def _recommend(asked: Settings, started: float) -> int:
    device = devices.find(asked.device if asked.device in devices.BACKENDS else "auto")
    grid = candidates.write(asked, device.backend)
    cell = grid.training
    targets = _checked_outputs(asked.output, datasets.inputs(cell["dataset"]))
    if candidates.asks_otherwise(asked, asked.output / _OUTPUTS[-1]):
        _say(
            f"snn: note: {asked.output} has the answer to another question, which this one will replace; "
            "--output FOLDER keeps both"
        )
    table = _check_data(cell)
    devices.say_unused_gpu(asked.device, device)
    _say(text.announcement(cell, device, len(grid.plan.cells), table))
    pilot = budget.run_pilot(cell, asked.budget)
    run = _Run(
        asked, cell, pilot, started + asked.budget + pilot.waited, _of_a_length_that_fits(grid, asked, pilot)
    )
    run.measure()
    try:
        has_answer = run.print_answer(run.grid.records())
    finally:  # the report is written even if nobody reads the answer any more
        _say("Writing the report.")
        workflow.report(run.grid, run.grid.length.part_of(cell) if run.grid.length else "")
        for source, target in zip((workflow.PAGE, workflow.TABLE, run.grid.path), targets, strict=True):
            with outputs.replaced(target) as file:
                file.write((ROOT / source).read_bytes())
    took = time.monotonic() - started
    print(f"\n{asked.output}: {', '.join(_OUTPUTS)} ({took:.0f} s)")
    return 0 if has_answer else NOTHING_ENDED_WELL


def _checked_outputs(folder: Path, inputs: list[Path]) -> list[Path]:
    """Where the files of the output are written, behind links. Raises ConfigError if one cannot be
    written, or would replace the user's table."""
    with suppress(OSError):  # an error below
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
    """Raise DataError or ConfigError if the user's file, or this network on it, cannot be trained, before
    anything else is said or measured; print what is doubtful in the file. The table of that file."""
    if not cell["dataset"].get("path"):
        return None
    table = datasets.make(cell["dataset"])
    job_of(cell, table)
    datasets.say_remarks(table)
    return table


def _of_a_length_that_fits(full: Grid, asked: Settings, pilot: Pilot) -> Grid:
    """The grid whose runs are as long as fits, or as those of an earlier call, whose records then count."""
    cell, first = full.training, read_yaml(candidates.CHOICES)["first_round"]
    backend = cell["device"]["backend"]

    def fitting(cells: int) -> Length:
        return budget.length_that_fits(pilot, cell, cells, first, asked.budget)

    shorter = sorted(candidates.shortened(asked, backend), key=lambda length: -length.work(cell))
    earlier = [full, *(candidates.write(asked, backend, length) for length in shorter)]
    for grid in sorted(earlier, key=lambda grid: len(grid.missing(only_first=True))):
        lacking = len(grid.missing(only_first=True))
        if lacking == len(grid.plan.cells):
            break
        length = grid.length or Length(cell["training"]["epochs"])
        if not lacking or length.work(cell) <= fitting(lacking).work(cell):
            if part := length.part_of(cell):
                _say(f"Each run trains {part}, as when this was measured before.")
            return grid
    length = fitting(len(full.plan.cells))
    if not (part := length.part_of(cell)):
        return full
    _say(f"Each run trains {part}, so that the budget suffices.")
    return candidates.write(asked, backend, length)


class _Run:
    """The measurement of a grid until a deadline, by the clock ``time.monotonic``.

    ``grid`` is what was measured in the end, without candidates whose measurement failed.
    """

    def __init__(
        self, asked: Settings, cell: Mapping[str, Any], pilot: Pilot, deadline: float, grid: Grid
    ) -> None:
        self.grid = grid
        self._asked, self._cell, self._deadline = asked, cell, deadline
        self._outside = pilot.outside
        self._thresholds = read_yaml(CONFIG / "verdicts.yaml")

    def measure(self) -> None:
        """A round of every candidate, then more of the contenders' until they are clear or time is over.

        The report gets the seconds that ``report_passes`` passes of the workflow take beside their jobs.
        If the workflow fails, as on a full disk, the answer from the records that there are is printed before
        its error.
        """
        choices = read_yaml(candidates.CHOICES)
        has: dict[str, int] = {}
        given = dict.fromkeys(self.grid.plan.cells, 1)
        of_pass = _LEAST_OF_PASS
        self.grid.limit_rounds()
        while given:
            if lacking := self.grid.missing():
                rounds = count(max(given.values()), "round")
                _say(f"Measuring {count(len(lacking), 'candidate')}, until each has {rounds}.")
            seconds = self._measure_once()
            records = self.grid.records()
            new = [one for name, of_cell in records.items() for one in of_cell[has.get(name, 0) :]]
            counted = sum(map(self._seconds, new))
            if counted < seconds:  # else records are of an earlier call
                of_pass = max(of_pass, seconds - counted)
            has = {name: len(of_cell) for name, of_cell in records.items()}
            cells = frame.tabulate(candidates.by_round(records), self._thresholds)
            wants = budget.wanted_rounds(cells, choices["contender"], choices["rounds"], self._thresholds)
            left = self._deadline - time.monotonic() - (1 + choices["report_passes"]) * of_pass
            of_round = {name: sum(map(self._seconds, of)) / len(of) for name, of in records.items()}
            given = budget.rounds_that_fit(wants, has, of_round, left)
            if given:
                more_rounds.add(given, ROOT / more_rounds.FILE)
        if wants:
            _say(
                "More rounds would make the answer surer, but the time left is too short for them. "
                "With a larger --budget it continues."
            )

    def _seconds(self, record: frame.Record) -> float:
        """How long a record's job took."""
        return self._outside + float(record["provenance"]["elapsed_seconds"])

    def _measure_once(self) -> float:
        """Measure what is missing; the seconds that it took, besides those of waiting for other measurements,
        which do not count. Raises WorkflowError."""
        begun, waited = time.monotonic(), 0.0
        try:
            while True:
                try:
                    waited += workflow.measure(self.grid)
                    break
                except workflow.WorkflowError as error:
                    waited += error.waited
                    self._leave_out_failed(error)
        except (workflow.WorkflowError, OutputError):
            present = self.grid.records(only_present=True)
            strategies = {of[0]["cell"]["strategy"]["name"] for of in present.values()}
            if len(present) > 1 and "reference" in strategies:
                self.print_answer(present)
            raise
        self._deadline += waited
        return time.monotonic() - begun - waited

    def _leave_out_failed(self, error: workflow.WorkflowError) -> None:
        """Leave out of the grid the candidates whose measurement failed, if two others are left, and the
        reference among them; else raise the error."""
        failed = self.grid.missing()
        cells = self.grid.plan.cells
        left = [cell for name, cell in cells.items() if name not in failed]
        if not error.of_jobs or not failed or self.grid.training not in left or len(left) < 2:
            raise error
        names = ", ".join(cells[name]["strategy"]["name"] for name in failed)
        _say(f"Measuring {names} failed (see above); the other candidates are compared without.")
        without = self.grid.without | set(failed)
        backend = self._cell["device"]["backend"]
        self.grid = candidates.write(self._asked, backend, self.grid.length, without=without)

    def print_answer(self, records: Records) -> bool:
        """Print the answer, the ranking, and what is known of a GPU; whether there is an answer."""
        ranking, answer = candidates.ranking_and_answer(records, self._thresholds)
        print(text.answer(ranking, answer, self.grid.length, self._cell))
        if self._cell["device"]["backend"] == "cpu":
            print(f"\n{elsewhere.on_a_gpu(self._cell)}")
        if sys.stdout is not None:
            sys.stdout.flush()
        return bool(ranking["rank"].notna().any())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(command.run(main))
