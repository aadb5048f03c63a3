"""``python -m snn.recommend``, or ``snn recommend``: which strategy trains one's own network fastest."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any

import pandas as pd

from snn import command
from snn.analysis import frame
from snn.config.groups import CONFIG, ROOT, read_yaml
from snn.files import outputs
from snn.grid import fingerprint, more_rounds, naming
from snn.hardware import devices
from snn.recommending import elsewhere, grid_file, more_time, pilot, text, workflow
from snn.recommending.grid_file import GridFile
from snn.recommending.settings import Settings, helped, parsed

NOTHING_ENDED_WELL = 3
_LEAST_OF_PASS = 2.0
"""Seconds that the workflow takes beside its jobs: to plan, and to make the tables."""


def main(arguments: list[str]) -> int:
    """Measure, rank and print; 0, 2 on a user's error, 3 where no training ended well."""
    codes = {0: "a recommendation was made", NOTHING_ENDED_WELL: "no training ended well, so there is none"}
    return command.answered(arguments, helped(), _main, codes)


def _main(arguments: list[str]) -> int:
    started = time.monotonic()
    settings = parsed(arguments)
    if settings.device not in devices.BACKENDS and settings.device != devices.find("auto").name:
        print(elsewhere.described(settings))
        return 0
    return _recommend(settings, started)


def _recommend(settings: Settings, started: float) -> int:
    choices = read_yaml(grid_file.CHOICES)
    device = devices.find(settings.device if settings.device in devices.BACKENDS else "auto")
    for name in _OUTPUTS:
        outputs.checked(str(settings.output / name), key="--output")
    grid = grid_file.write(settings, device.backend)
    cell = grid_file.training_of(grid.plan)
    _say(text.announced(cell, device, len(grid.plan.cells)))
    timed, epochs = pilot.run(cell, settings.budget), cell["training"]["epochs"]
    first = choices["first_round"]
    fitting = pilot.epochs_that_fit(
        timed, epochs, len(grid.plan.cells), first["runs"], first["share"] * settings.budget
    )
    if fitting < epochs:
        _say(f"Each run trains {fitting} of the {epochs} epochs, so that the budget suffices.")
        grid = grid_file.write(settings, device.backend, fitting)
    _measure(grid, choices, started + settings.budget - choices["report_seconds"], timed.outside)
    _say("Writing the report.")
    page = settings.output / "report.html"
    workflow.report(grid, page.absolute())
    for source, name in zip((workflow.TABLE, grid.path), _OUTPUTS[1:], strict=True):
        shutil.copyfile(ROOT / source, settings.output / name)
    ranking, answer = pd.read_csv(ROOT / workflow.TABLE), pd.read_csv(ROOT / workflow.ANSWER)
    print(text.answered(ranking, answer))
    if device.backend == "cpu":
        print(f"\n{elsewhere.on_a_gpu(cell)}")
    took = time.monotonic() - started
    print(f"\n{settings.output}: {', '.join(_OUTPUTS)} ({took:.0f} s)")
    return 0 if (ranking["status"] == "ok").any() else NOTHING_ENDED_WELL


_OUTPUTS = ("report.html", "ranking.csv", "grid.yaml")


def _measure(grid: GridFile, choices: Mapping[str, Any], deadline: float, outside: float) -> None:
    """A round of every candidate, then more of the contenders' until they are clear or time is over.

    ``outside`` are the seconds of a job that its record does not count.
    """
    thresholds = read_yaml(CONFIG / "verdicts.yaml")
    has: dict[str, int] = {}
    given = dict.fromkeys(grid.plan.cells, 1)
    while given:
        _say(f"Measuring {len(given)} candidates, until each has {_rounds(max(given.values()))}.")
        begun = time.monotonic()
        workflow.measure(grid)
        pass_seconds = time.monotonic() - begun
        records = _records(grid)
        new = [one for name, of in records.items() for one in of[has.get(name, 0) :]]
        counted = sum(outside + one["provenance"]["elapsed_seconds"] for one in new)
        has = {name: len(of) for name, of in records.items()}
        named = {f"{name} {i}": one for name, of in records.items() for i, one in enumerate(of)}
        cells = frame.tabulate(named, thresholds)
        wants = more_time.wanted(cells, choices["contender"], choices["rounds"], thresholds)
        left = deadline - time.monotonic() - max(pass_seconds - counted, _LEAST_OF_PASS)
        given = more_time.fitting(wants, has, more_time.seconds_per_round(records, outside), left)
        if given:
            more_rounds.add(given, ROOT / more_rounds.FILE)
    if wants:
        _say("The time is over before every comparison is clear. With a larger --budget it continues.")


def _records(grid: GridFile) -> dict[str, list[frame.Record]]:
    """The records of each cell by its name, in the order of its rounds."""
    planned = more_rounds.read(ROOT / more_rounds.FILE)
    found = {}
    for name, cell in grid.plan.cells.items():
        sources = fingerprint.digest(fingerprint.of_cell(cell))
        paths = naming.record_paths(cell, name, planned.get(name, 0))
        found[name] = list(frame.checked({str(ROOT / path): sources for path in paths}).values())
    return found


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(command.run(main))
