"""End a workflow and its jobs at once on a signal."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import FrameType

import psutil

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name))
_IGNORED = frozenset(number for number in _ENDING if signal.getsignal(number) == signal.SIG_IGN)
"""Signals ignored since this process began; Snakemake sets a handler for SIGTERM anyway."""


def end_at_once(elsewhere: Callable[[], None] | None = None) -> None:
    """Let SIGTERM, SIGINT and SIGHUP kill the jobs and end this process, with status 128 + signal number.

    ``elsewhere`` ends the jobs that are not on this machine; if it fails, its error is printed.

    Snakemake's own handler waits for a lock that the interrupted thread may hold, and then for the running
    job. No cleanup is needed: results are written to a temporary name and renamed, the operating system
    releases the locks, and the next run makes the missing files. A signal that is ignored stays ignored, as
    under nohup.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _ENDING:
        if number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        elif signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, partial(_end, elsewhere))


@contextlib.contextmanager
def ending_at_once() -> Iterator[None]:
    """A context in which these signals end this process and all its jobs, as with ``end_at_once``."""
    before = {number: signal.getsignal(number) for number in _ENDING}
    end_at_once()
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def kill_jobs(jobs: Iterable[psutil.Process] | None = None) -> None:
    """Kill ``jobs``, or all processes that this one and its children have started."""
    for job in _jobs() if jobs is None else jobs:
        with contextlib.suppress(ProcessLookupError):
            os.kill(job.pid, signal.SIGKILL)


def _end(elsewhere: Callable[[], None] | None, number: int, frame: FrameType | None) -> None:
    _say(f"ended by {signal.Signals(number).name}: the same command continues where this one stopped")
    jobs = _jobs()
    sys.setswitchinterval(60)  # seconds, so that no other thread reports a killed job as a failure
    kill_jobs(jobs)
    if elsewhere is not None:
        try:
            elsewhere()
        except Exception as error:  # nothing may keep it from ending
            _say(str(error))
    os._exit(128 + number)


def _say(line: str) -> None:
    """Print at once, from a signal handler, if there is still a reader.

    A terminal that is closed sends SIGHUP. If standard error was closed from the beginning, its number
    belongs to another file.
    """
    if sys.__stderr__ is not None:
        with contextlib.suppress(OSError):
            os.write(2, f"{line}\n".encode())


def _jobs() -> list[psutil.Process]:
    found: list[psutil.Process] = psutil.Process().children(recursive=True)
    return found
