"""The workflow, started as a user would start it: in the project's folder, one job at a time."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from snn.config.groups import ROOT
from snn.errors import SnnError
from snn.files import cache, outputs
from snn.grid.sweeps import SHORTENED
from snn.hardware import environment, locks
from snn.hardware.locks import LockedError, folder_lock, generation
from snn.recommending import FOLDER, SWEEP, measured
from snn.recommending.grid_file import GridFile
from snn.workflow.signals import kill_jobs

TABLE = Path(f"results/tables/{SWEEP}/{SWEEP}.csv")
ANSWER = Path(f"results/tables/{SWEEP}/recommendation.csv")
FIGURE = Path(f"results/figures/{SWEEP}/{SWEEP}.svg")
PAGE = FOLDER / "report.html"
"""Where the report is made; a cut-off one never stands in place of the user's."""

_OF_A_JOB = "Exiting because a job execution failed"
"""What Snakemake prints where a measurement failed, if not told to print nothing."""

_NOISE = (
    *(
        "Using workflow specific profile",
        "Assuming unrestricted",
        "Building DAG",
        "Using shell",
        "Select jobs",
        "snn: note: ",  # said of the data before the workflow began
    ),
    *("Execute ", "Nothing to be done", "Complete log", "Elapsed time", "At least one job", "WorkflowError:"),
    *("Provided cores", "Rules claiming", "Removing output files", "RuleException:", _OF_A_JOB),
    *("Creating report", "Adding ", "Loading script code", "Report created"),
)
"""What begins the lines of Snakemake that tell a user of this command nothing."""

_WITH_ERRORS = ("--quiet", "rules", "progress", "reason", "host")


class WorkflowError(SnnError):
    """The workflow ended with an error; it has printed why. ``of_jobs``: measurements failed. ``waited``:
    the seconds that those before had waited for others on this machine."""

    def __init__(self, message: str, of_jobs: bool = False, waited: float = 0.0) -> None:
        super().__init__(message)
        self.of_jobs, self.waited = of_jobs, waited


@contextmanager
def held() -> Iterator[None]:
    """A context in which no other recommendation works in this project: they share the tables.

    Raises LockedError where one is at work, and where nothing can be written.
    """
    folder = ROOT / FOLDER
    last = generation(folder)
    if last is None:
        raise LockedError(
            f"another snn recommend is at work in {ROOT}, and two would disturb each other's times: "
            "start this one when that has ended"
        )
    lock = folder_lock(folder, last)
    try:
        yield
    finally:
        os.close(lock)


def measure(grid: GridFile) -> float:
    """Measure what is missing, and make the tables; the seconds that this has waited for other measurements
    on this machine. Raises WorkflowError."""
    _again(TABLE, ANSWER)
    return _snakemake(grid, [*measured.paths(grid), TABLE, ANSWER, "--keep-going", *_WITH_ERRORS])


def report(grid: GridFile, part: str) -> None:
    """Draw the figure, and put tables and figure into one page, ``PAGE``. Raises WorkflowError.

    ``part`` of a training is what each run trained, in words; empty where it was all of it.
    """
    _again(FIGURE)
    _snakemake(grid, [TABLE, ANSWER, FIGURE, *_WITH_ERRORS])
    said = [f"{SHORTENED}={part}"] if part else []
    _snakemake(grid, [TABLE, ANSWER, FIGURE, "--report", PAGE, *_WITH_ERRORS], *said)


def _again(*made: Path) -> None:
    """Have these made again: without its notes, Snakemake takes another grid's tables for these."""
    for path in made:
        with outputs.reported(ROOT / path):
            (ROOT / path).unlink(missing_ok=True)


def _snakemake(grid: GridFile, arguments: Sequence[str | Path], *config: str) -> float:
    """Run it, and print what tells the user something; the seconds that its jobs have waited."""
    command = [sys.executable, "-m", "snakemake", "--cores", "1", *map(str, arguments)]
    backend = grid.plan.device.backend
    command += ["--config", f"grid={grid.path}", f"device={backend}", f"folder={SWEEP}", *config]
    of_jobs, waited = False, 0.0
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment.of_workflow() | cache.of_snakemake(ROOT),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C ends this process, which ends that one
    ) as run:
        assert run.stdout is not None
        try:
            for line in run.stdout:
                of_jobs |= _OF_A_JOB in line
                waited += locks.waited(line)
                if line.strip() and not line.startswith(_NOISE):
                    print(line, end="", file=sys.stderr, flush=True)
        except BaseException:  # such as nobody reading the lines any more
            kill_jobs()
            raise
    if run.returncode:
        raise WorkflowError(
            f"the workflow ended with status {run.returncode}, as it says above; what was measured is kept, "
            "and the same command continues",
            of_jobs,
            waited,
        )
    return waited
