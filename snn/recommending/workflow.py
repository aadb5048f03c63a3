"""The workflow, run as a user would run it: in the project's folder, one job at a time.

``python -m snn.recommending.workflow OPTIONS`` is Snakemake with a logger that leaves the word to its jobs.
"""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from snn.errors import SnnError
from snn.files import cache, outputs
from snn.files.outputs import NOTES
from snn.files.project import IS_INSTALLED, ROOT
from snn.grid.sweeps import NEXT, SHORTENED
from snn.hardware import environment, locks
from snn.recommending import FOLDER, PROJECT, SWEEP
from snn.workflow.signals import kill_jobs

if TYPE_CHECKING:
    from snn.recommending.candidates import Grid

TABLE = Path(f"results/tables/{SWEEP}/{SWEEP}.csv")
ANSWER = Path(f"results/tables/{SWEEP}/recommendation.csv")
FIGURE = Path(f"results/figures/{SWEEP}/{SWEEP}.svg")
PAGE = FOLDER / "report.html"
"""Where the report is made; a cut-off one never replaces the user's."""

JOBS_FAILED = 4
"""The exit status of the workflow if a job failed, and not Snakemake itself."""

_WAITS = FOLDER / "waits"
"""Times that its jobs have waited for other measurements on this machine."""


class WorkflowError(SnnError):
    """The workflow ended with an error; it has printed why. ``of_jobs``: measurements failed. ``waited``:
    the seconds that those before had waited for others on this machine."""

    def __init__(self, message: str, of_jobs: bool = False, waited: float = 0.0) -> None:
        super().__init__(message)
        self.of_jobs, self.waited = of_jobs, waited


@contextmanager
def held() -> Iterator[None]:
    """A context in which no other recommendation works in this project: they share the tables.

    Raises LockedError if one is at work, and if nothing can be written.
    """
    folder = PROJECT / FOLDER
    last = locks.generation(folder)
    if last is None:
        raise locks.LockedError(
            f"another snn recommend is at work in {PROJECT}, and two would disturb each other's times: "
            "start this one when that has ended"
        )
    lock = locks.folder_lock(folder, last)
    try:
        yield
    finally:
        os.close(lock)


def measure(grid: "Grid") -> float:
    """Measure what is missing; return the seconds spent waiting for other measurements on this machine.

    Raises WorkflowError.
    """
    return _snakemake(grid, [*chain(*grid.present().values()), "--keep-going"])


def report(grid: "Grid", part: str, following: str = "") -> None:
    """Make the tables and the figure, and put them into one page, ``PAGE``. Raises WorkflowError.

    ``part``: the part of the training job that each run trained, in words; empty if all of it. ``following``
    is the command that trains by the fastest strategy; empty if there is none.
    """
    made = [TABLE, ANSWER, FIGURE]
    _remove(*made)
    _snakemake(grid, made)
    shortened = [f"{SHORTENED}={part}"] if part else []
    command = [f"{NEXT}={json.dumps(following)}"] if following else []
    _snakemake(grid, [*made, "--report", PAGE], *shortened, *command)


def _remove(*made: Path) -> None:
    """Remove these files, so that Snakemake rebuilds them instead of taking another grid's tables."""
    for path in made:
        with outputs.reported(PROJECT / path):
            (PROJECT / path).unlink(missing_ok=True)


def _snakemake(grid: "Grid", arguments: Sequence[str | Path], *config: str) -> float:
    """Run Snakemake and print its progress; return the seconds that its jobs have waited."""
    _remove(_WAITS)
    command = [sys.executable, "-m", "snn.recommending.workflow", "--cores", "1", *map(str, arguments)]
    if IS_INSTALLED:
        command += ["--snakefile", str(ROOT / "Snakefile")]
    command += ["--config", f"grid={grid.path}", f"device={grid.plan.device.backend}", f"folder={SWEEP}"]
    ours = {locks.WAITS: str(PROJECT / _WAITS), NOTES: "no"}
    with subprocess.Popen(
        [*command, *config],
        cwd=PROJECT,
        env=environment.of_workflow() | cache.of_snakemake(PROJECT) | ours,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C ends this process, which ends that one
    ) as run:
        assert run.stdout is not None
        try:
            for line in run.stdout:
                print(line, end="", file=sys.stderr, flush=True)
        except BaseException:  # a closed pipe, for example
            kill_jobs()
            raise
    waited = locks.waited(PROJECT / _WAITS)
    if run.returncode:
        raise WorkflowError(
            f"the workflow ended with status {run.returncode}, as it says above; its records are kept, "
            "and the same command continues",
            run.returncode == JOBS_FAILED,
            waited,
        )
    return waited


def main(arguments: list[str]) -> int:
    """Run Snakemake; its status, or ``JOBS_FAILED`` if the workflow ended because a job did.

    Of a job that failed it prints the outputs, since the job itself prints why; of Snakemake's own warnings
    and errors all, if no job failed.
    """
    from snakemake import cli
    from snakemake_interface_logger_plugins.base import LogHandlerBase
    from snakemake_interface_logger_plugins.common import LogEvent
    from snakemake_interface_logger_plugins.registry import LoggerPluginRegistry

    failed: list[str] = []
    warnings: list[str] = []

    class LogHandler(LogHandlerBase):
        writes_to_stream, writes_to_file = True, False
        has_filter = has_formatter = True
        needs_rulegraph = False

        def emit(self, record: logging.LogRecord) -> None:
            if getattr(record, "event", None) == LogEvent.JOB_ERROR:
                failed.append(", ".join(vars(record).get("output") or [record.getMessage()]))
                print(f"failed: {failed[-1]}", file=sys.stderr, flush=True)
            elif record.levelno >= logging.WARNING:
                warnings.append(record.getMessage())

    plugin = ModuleType(SWEEP)
    vars(plugin).update(LogHandler=LogHandler)
    LoggerPluginRegistry().register_plugin(SWEEP, plugin)
    with redirect_stderr(io.StringIO()):  # which profile is used
        parser, options = cli.parse_args([*arguments, "--logger", SWEEP])
    has_ended_well = cli.args_to_api(options, parser)
    if failed:
        return 0 if has_ended_well else JOBS_FAILED
    print(*warnings, sep="\n", end="\n" * bool(warnings), file=sys.stderr, flush=True)
    return 0 if has_ended_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
