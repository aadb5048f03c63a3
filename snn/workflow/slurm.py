"""Slurm jobs that an ended workflow left in a folder: waited for or cancelled, so that none runs twice.

Slurm's jobs do not end with the Snakemake that submitted them, if that was killed. They have the folder as
their working directory and a run ID as their name (snakemake-executor-plugin-slurm).
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from snn.errors import SnnError

MARK = Path(".snakemake/snn_slurm")
"""In a folder that may have jobs: made before a workflow submits any, removed when all have succeeded."""

EXECUTOR = "snakemake_executor_plugin_slurm"
"""The package of Snakemake's executor that submits such jobs."""

PREEMPTED = "PREEMPTED"

_RUN_ID = re.compile(r"([\w-]+_)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENDED = re.compile(
    f"BOOT_FAIL|CANCELLED|COMPLETED|DEADLINE|FAILED|NODE_FAIL|OUT_OF_MEMORY|{PREEMPTED}|REVOKED|TIMEOUT"
)
_ANSWER_SECONDS = 60
_POLL_SECONDS = 2.0


class SlurmError(SnnError):
    """Slurm does not say which jobs of a folder are at work."""


@dataclass(frozen=True)
class Job:
    """A job that has not ended, by Slurm's number of it."""

    number: str
    waits: bool


def jobs_of(folder: Path) -> list[Job]:
    """The unfinished jobs of workflows in a folder, without asking Slurm if there can be none.

    Raises SlurmError if Slurm cannot be asked.
    """
    states = states_of(folder) if (folder / MARK).exists() else {}
    return [Job(number, waits=state == "PENDING") for number, state in states.items() if is_at_work(state)]


def is_at_work(state: str) -> bool:
    """Whether a job in this state has not ended."""
    return not _ENDED.fullmatch(state)


def states_of(folder: Path) -> dict[str, str]:
    """The states of the jobs of workflows in a folder, by their number; also of those that ended lately.

    Raises SlurmError if Slurm cannot be asked.
    """
    asked = ("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%j|%Z")
    try:
        answer = subprocess.run(
            asked, capture_output=True, errors="surrogateescape", check=True, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.SubprocessError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip()
        raise SlurmError(
            f"Slurm jobs of an earlier workflow may still be at work in {folder}, but squeue fails: {why}. "
            f"Start again where it works, or, if none can be at work, remove {MARK}"
        ) from error
    rows = (line.split("|", 3) for line in answer.stdout.splitlines())
    return {
        number: state
        for number, state, name, where in rows
        if _RUN_ID.fullmatch(name) and Path(where).resolve() == folder.resolve()
    }


def cancel_all(folder: Path) -> None:
    """Cancel the folder's jobs. Raises SlurmError if Slurm cannot be asked, or does not cancel them."""
    if _cancel(job.number for job in jobs_of(folder)):  # one had ended, or it refuses
        left = jobs_of(folder)
        if refused := _cancel(job.number for job in left):
            raise _not_cancelled(folder, left, refused)


def await_end(folder: Path) -> None:
    """Wait until no job of the folder is at work; those that wait in the queue are cancelled.

    Raises SlurmError if Slurm cannot be asked, and where it does not cancel them.
    """
    announced, refused = list[str](), ""
    while jobs := jobs_of(folder):
        waiting = [job.number for job in jobs if job.waits]
        before, refused = refused, _cancel(waiting, "--state=PENDING")  # one may have begun meanwhile
        if refused and refused == before:
            raise _not_cancelled(folder, [job for job in jobs if job.waits], refused)
        running = [job.number for job in jobs if not job.waits]
        if running and running != announced:
            print(
                "waiting for Slurm jobs of an earlier workflow in this folder; "
                f"to give them up: scancel {' '.join(running)}",
                file=sys.stderr,
                flush=True,
            )
            announced = running
        time.sleep(_POLL_SECONDS)


def _not_cancelled(folder: Path, jobs: Iterable[Job], why: str) -> SlurmError:
    return SlurmError(
        f"Slurm does not cancel jobs of a workflow in {folder}: scancel says {why}. "
        f"Start again when they have gone: {' '.join(job.number for job in jobs)}"
    )


def _cancel(numbers: Iterable[str], *which: str) -> str:
    """What scancel says where it fails, as for a job that has ended meanwhile, else nothing.

    Raises SlurmError where it cannot be run.
    """
    chosen = list(numbers)
    if not chosen:
        return ""
    try:
        done = subprocess.run(
            ["scancel", *which, *chosen],
            capture_output=True,
            errors="surrogateescape",
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SlurmError(
            f"scancel fails: {error}; jobs of a workflow are still there: {' '.join(chosen)}"
        ) from error
    return " ".join(done.stderr.split()) or f"status {done.returncode}" if done.returncode else ""


class Preempted:
    """The preempted jobs of a workflow, as it learns of them from the states of all jobs of its folder.

    Snakemake waits for ever for one that Slurm does not start again: its executor takes a preempted job for
    one that Slurm will resume. With ``slurm-no-requeue``, and on a cluster that cancels what it preempts, it
    never does.
    """

    def __init__(self, before: Mapping[str, str]) -> None:
        """``before``: the states before the workflow has submitted any job."""
        self._earlier = frozenset(before)
        self._jobs = set[str]()
        self._was_idle = False

    def alone(self, states: Mapping[str, str]) -> list[str]:
        """The preempted jobs, if for the second time in turn no job is left but these; else none."""
        own = {number: state for number, state in states.items() if number not in self._earlier}
        for number, state in own.items():
            (self._jobs.add if state == PREEMPTED else self._jobs.discard)(number)
        was_idle, self._was_idle = self._was_idle, not any(map(is_at_work, own.values()))
        return sorted(self._jobs) if was_idle and self._was_idle else []


def watch_for_preemption(folder: Path, seconds: float, then: Callable[[list[str]], None]) -> None:
    """Call ``then`` from a thread, once, with the preempted jobs of a folder when no other job is left.

    Slurm is asked every so many seconds. It forgets a job some minutes after its end; the thread does not.
    Where it does not answer, it is asked again later. Raises SlurmError if it cannot be asked at the start.
    """
    preempted = Preempted(states_of(folder))

    def ask() -> None:
        while True:
            time.sleep(seconds)
            try:
                jobs = preempted.alone(states_of(folder))
            except SlurmError:
                continue
            if jobs:
                then(jobs)
                return

    threading.Thread(target=ask, daemon=True, name="preempted").start()
