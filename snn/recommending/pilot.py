"""How long an epoch and a job take here: one epoch of the reference, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from snn.config.groups import ROOT
from snn.config.overrides import written
from snn.errors import ConfigError, SnnError
from snn.files import outputs
from snn.grid.sweeps import overrides
from snn.hardware import environment, locks
from snn.hardware.locks import END_WITH_PARENT, WAITING
from snn.recommending import FOLDER

FEWEST_BATCHES = 2
"""That an epoch has, where there are fewer rows than the settings say."""
_LONG, _LEAST = 0.1, 5.0
"""Of the budget, and seconds: an epoch that takes as long does not fit, for it has to suffice for all
candidates."""

_FILES = ("pilot.json", "pilot.log")
"""What it writes, in the folder of the grids, where no other recommendation is at work."""

_MOMENT = 0.05
"""Seconds between two looks at whether a process waits."""

_SHORT = {
    "training.epochs": 1,
    "protocol.rounds": 1,
    "protocol.runs": 1,
    "protocol.min_runs": 1,
    "protocol.warmup_seconds": 0,
    "protocol.max_warmup_seconds": 0,
}


class _TooLong(ConfigError):
    """An epoch has not ended in its time; before, its process has waited for so many seconds."""

    def __init__(self, message: str, waited: float) -> None:
        super().__init__(message)
        self.waited = waited


class PilotError(SnnError):
    """The pilot's cell was not measured; what it printed says why."""


@dataclass(frozen=True)
class Pilot:
    """Seconds: of one ``epoch`` of the reference, of the rest of its ``job``, and of what of that is
    ``outside`` the seconds that its record counts: the start and the end of the process. Those that it has
    ``waited`` for other measurements are in none of them."""

    epoch: float
    job: float
    outside: float
    waited: float = 0.0


class _Ended(NamedTuple):
    """A process: its status, None where it took too long and was killed; what it printed; its seconds,
    without those that it has ``waited`` for other measurements; and these."""

    status: int | None
    said: str
    seconds: float
    waited: float


def run(cell: Mapping[str, Any], budget: float) -> Pilot:
    """Train one epoch of the reference; where that takes long, a few batches, of whose time it is estimated.

    Only of a data set with a number of rows there can be fewer. Raises ConfigError where it takes more than
    half of the budget, and PilotError where the cell fails.
    """
    rows, few = cell["dataset"].get("rows"), FEWEST_BATCHES * cell["training"]["batch_size"]
    if rows is None or rows <= few:
        return _timed(cell, budget, budget / 2)
    long = max(budget * _LONG, _LEAST)
    try:
        return _timed(cell, budget, long)
    except _TooLong as error:
        fewer = {
            key: min(few, value) for key, value in cell["dataset"].items() if key in ("rows", "test_rows")
        }
        found = _timed({**cell, "dataset": cell["dataset"] | fewer}, budget, budget / 2 - long)
        return replace(found, epoch=found.epoch * rows / few, waited=found.waited + error.waited)


def _timed(cell: Mapping[str, Any], budget: float, most: float) -> Pilot:
    given = dict(one.partition("=")[::2] for one in overrides(dict(cell)))
    given |= {key: str(value) for key, value in _SHORT.items()}
    output, said = files = [ROOT / FOLDER / name for name in _FILES]
    for file in files:  # of an earlier one, which may have been killed
        with outputs.reported(file):
            file.unlink(missing_ok=True)
    command = [sys.executable, "-m", "snn", *(f"{key}={value}" for key, value in given.items())]
    ended = _ended([*command, f"output={written(str(output))}"], said, most)
    if ended.status is None:
        raise _TooLong(
            f"one epoch of the reference takes more than half of the budget of {budget:.0f} s: "
            "give a larger --budget, or train on fewer rows",
            ended.waited,
        )
    if ended.status:
        raise PilotError(_why(ended.status, ended.said))
    record = json.loads(output.read_text(encoding="utf-8"))
    if not record["runs"]:
        raise PilotError(f"the reference: {record['status']}: {record['reason']}")
    epoch = record["runs"][0]["seconds"]
    outside = ended.seconds - record["provenance"]["elapsed_seconds"]
    return Pilot(epoch, ended.seconds - 2 * epoch, outside, ended.waited)


def _ended(command: Sequence[str], errors: Path, most: float) -> _Ended:
    """Run a command that prints into a file, for so many seconds ``most`` besides those that it waits."""
    with (
        errors.open("wb") as file,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=file,
            env=environment.of_workflow() | {END_WITH_PARENT: str(os.getpid())},
            start_new_session=True,  # Ctrl-C ends this process, which ends that one
        ) as run,
    ):
        spent = waited = 0.0
        last = time.perf_counter()
        try:
            while run.poll() is None and spent <= most:
                with suppress(subprocess.TimeoutExpired):
                    run.wait(_MOMENT)
                now = time.perf_counter()
                if locks.waits(_text(errors)):
                    if not waited:
                        print(f"{WAITING}; the budget does not count this", file=sys.stderr, flush=True)
                    waited += now - last
                else:
                    spent += now - last
                last = now
        finally:
            run.kill()  # where it has not ended
    return _Ended(run.returncode if spent <= most else None, _text(errors), spent, waited)


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _why(status: int, said: str) -> str:
    """One line: the refusal of a cell's process, or how it ended without one."""
    lines = said.strip().splitlines()
    passing = ("snn: warning: ", "snn: note: ")
    if refused := [one for one in lines if one.startswith("snn: ") and not one.startswith(passing)]:
        return refused[-1].removeprefix("snn: ")
    ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    last = f": {lines[-1]}" if lines else ""
    return f"the first training of the reference ended with {ended}, so that nothing was measured{last}"
