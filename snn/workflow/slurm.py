"""Slurm jobs that an ended workflow left in a folder: waited for or cancelled, so that none runs twice.

Slurm's jobs do not end with the Snakemake that submitted them, if that was killed. They have the folder as
their working directory and a run ID as their name (snakemake-executor-plugin-slurm).
"""

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from snn.errors import SnnError

MARK = Path(".snakemake/snn_slurm")
"""Marks a folder that may have jobs: created before a workflow submits any, removed when all succeeded."""

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
    """Slurm does not report which jobs of a folder are running."""


@dataclass(frozen=True)
class Job:
    """An unfinished job with Slurm's number."""

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
    """States of the jobs of workflows in a folder by number, including jobs that ended recently.

    Raises SlurmError if Slurm cannot be asked.
    """
    try:
        answer, why = _run("squeue", "--me", "--noheader", "--states=all", "--format=%i|%T|%j|%Z")
    except SlurmError as error:
        answer, why = "", str(error)
    if why:
        raise SlurmError(
            f"Slurm jobs of an earlier workflow may still be at work in {folder}, but squeue fails: {why}. "
            f"Start on a machine where it works, or remove {MARK} if no job can still be running"
        )
    rows = (line.split("|", 3) for line in answer.splitlines())
    return {
        number: state
        for number, state, name, where in rows
        if _RUN_ID.fullmatch(name) and Path(where).resolve() == folder.resolve()
    }


def cancel_all(folder: Path) -> None:
    """Cancel the folder's jobs. Raises SlurmError if Slurm cannot be asked, or does not cancel them."""
    if _cancel(job.number for job in jobs_of(folder)):  # one had ended, or scancel failed
        left = jobs_of(folder)
        if refused := _cancel(job.number for job in left):
            raise _not_cancelled(folder, left, refused)


def await_end(folder: Path) -> None:
    """Wait until no job of the folder is at work; those that wait in the queue are cancelled.

    Raises SlurmError if Slurm cannot be asked, or does not cancel them.
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
    """Output of scancel if it fails, for a job that has ended meanwhile, say; else nothing.

    Raises SlurmError if it cannot be run.
    """
    chosen = list(numbers)
    try:
        return _run("scancel", *which, *chosen)[1] if chosen else ""
    except SlurmError as error:
        raise SlurmError(
            f"scancel fails: {error}; jobs of a workflow are still there: {' '.join(chosen)}"
        ) from error


def _run(*command: str) -> tuple[str, str]:
    """Output of a program, and its error text if it fails. Raises SlurmError if it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, errors="surrogateescape", timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise SlurmError(str(error)) from error
    why = " ".join(done.stderr.split()) or f"status {done.returncode}"
    return done.stdout, why if done.returncode else ""


def preempted_alone(seen: Iterable[Mapping[str, str]]) -> list[str]:
    """The preempted jobs, once no other job is left twice in a row; else none.

    ``seen`` yields the states of all jobs of a folder repeatedly, first before a workflow has submitted any.
    Snakemake waits for ever for a preempted job that Slurm does not start again, since its executor expects
    Slurm to resume it. With ``slurm-no-requeue``, and on a cluster that cancels preempted jobs, it never
    does.
    """
    earlier, jobs, was_idle = None, set[str](), False
    for states in seen:
        if earlier is None:
            earlier = frozenset(states)
        own = {number: state for number, state in states.items() if number not in earlier}
        for number, state in own.items():
            (jobs.add if state == PREEMPTED else jobs.discard)(number)
        is_idle = bool(jobs) and not any(map(is_at_work, own.values()))
        if was_idle and is_idle:
            return sorted(jobs)
        was_idle = is_idle
    return []


def watch_for_preemption(folder: Path, seconds: float, then: Callable[[list[str]], None]) -> None:
    """Call ``then`` from a thread, once, with the preempted jobs of a folder when no other job is left.

    The thread asks Slurm every ``seconds`` seconds, and again later if it does not answer. Slurm forgets a
    job some minutes after its end; the thread does not. Raises SlurmError if Slurm cannot be asked at the
    start.
    """
    before = states_of(folder)

    def states() -> Iterator[Mapping[str, str]]:
        yield before
        while True:
            time.sleep(seconds)
            with suppress(SlurmError):
                yield states_of(folder)

    threading.Thread(target=lambda: then(preempted_alone(states())), daemon=True, name="preempted").start()
