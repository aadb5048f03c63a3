"""How long an epoch and a job take here: one epoch of the reference, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor
from pathlib import Path
from typing import Any

from snn.config.groups import ROOT
from snn.errors import ConfigError, SnnError
from snn.grid.sweeps import overrides
from snn.hardware.locks import END_WITH_PARENT, WAITING

_BESIDE_RUNS = 2.0
"""A job's untimed epochs, warm-up and passes, as a number of runs."""

_SHORT = {
    "training.epochs": 1,
    "protocol.rounds": 1,
    "protocol.runs": 1,
    "protocol.min_runs": 1,
    "protocol.warmup_seconds": 0,
    "protocol.max_warmup_seconds": 0,
}


class PilotError(SnnError):
    """The pilot's cell was not measured; what it printed says why."""


@dataclass(frozen=True)
class Pilot:
    """Seconds: of one ``epoch`` of the reference, of the rest of its ``job``, and of what of that is
    ``outside`` the seconds that its record counts: the start and the end of the process."""

    epoch: float
    job: float
    outside: float


def run(cell: Mapping[str, Any], budget: float) -> Pilot:
    """Train one epoch of the reference. Raises ConfigError where it takes more than half of the budget, and
    PilotError where the cell fails."""
    given = dict(one.partition("=")[::2] for one in overrides(dict(cell)))
    given |= {key: str(value) for key, value in _SHORT.items()}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "pilot.json"
        command = [sys.executable, "-m", "snn", *(f"{key}={value}" for key, value in given.items())]
        started = time.perf_counter()
        try:
            ended = subprocess.run(
                [*command, f"output={output}"],
                cwd=ROOT,
                timeout=budget / 2,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                env=os.environ | {END_WITH_PARENT: str(os.getpid())},
                start_new_session=True,  # Ctrl-C ends this process, which ends that one
            )
        except subprocess.TimeoutExpired as error:
            if WAITING in str(error.stderr):
                raise PilotError(
                    "another measurement on this machine has not ended: start this again when it has"
                ) from None
            raise ConfigError(
                f"one epoch of the reference takes more than half of the budget of {budget:.0f} s: "
                f"give a larger --budget, or train on fewer rows{_named(cell['dataset'])}"
            ) from None
        elapsed = time.perf_counter() - started
        if WAITING in ended.stderr:
            return run(cell, max(budget - elapsed, 10.0))  # for its own time
        if ended.returncode:
            raise PilotError(_why(ended.returncode, ended.stderr))
        record = json.loads(output.read_text(encoding="utf-8"))
    if not record["runs"]:
        raise PilotError(f"the reference: {record['status']}: {record['reason']}")
    epoch = record["runs"][0]["seconds"]
    return Pilot(epoch, elapsed - 2 * epoch, elapsed - record["provenance"]["elapsed_seconds"])


def _named(dataset: Mapping[str, Any]) -> str:
    """The settings of a data set's numbers of rows: `` (dataset.rows=..., dataset.test_rows=...)``."""
    keys = [f"dataset.{key}=..." for key in ("rows", "test_rows") if key in dataset]
    return f" ({', '.join(keys)})" if keys else ""


def _why(status: int, said: str) -> str:
    """One line: the refusal of a cell's process, or how it ended without one."""
    lines = said.strip().splitlines()
    if refused := [line for line in lines if line.startswith("snn: ") and "warning: " not in line]:
        return refused[-1].removeprefix("snn: ")
    ended = f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    last = f": {lines[-1]}" if lines else ""
    return f"the first training of the reference ended with {ended}, so that nothing was measured{last}"


def epochs_that_fit(pilot: Pilot, epochs: int, candidates: int, runs: int, seconds: float) -> int:
    """The epochs of a run with which all candidates have a round within these seconds, if they are as fast as
    the reference: at most ``epochs``, and where less, a number of one digit and zeros.

    Raises ConfigError, naming the budget that would be enough, where not even one epoch does.
    """
    of_job = seconds / candidates - pilot.job
    fitting = of_job / (runs + _BESIDE_RUNS) / pilot.epoch
    if fitting >= epochs:
        return epochs
    if fitting < 1:
        needed = candidates * (pilot.job + (runs + _BESIDE_RUNS) * pilot.epoch)
        raise ConfigError(
            f"a round of {candidates} candidates takes about {needed:.0f} s, of which the budget has "
            f"{seconds:.0f} s for it: {pilot.job:.2g} s for each process beside its training, and "
            f"{pilot.epoch:.2g} s per epoch of the reference: give --budget {2 * needed + 30:.0f}s"
        )
    digits = 10 ** (len(str(floor(fitting))) - 1)
    return floor(fitting) // digits * digits
