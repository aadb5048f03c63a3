"""Find child processes, and wait until they end."""

import time
from contextlib import suppress

import psutil


def running(argument: str, parent: int) -> list[psutil.Process]:
    """Return the descendants of a process that have this command-line argument."""
    found = []
    for process in psutil.Process(parent).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it may end meanwhile
            if argument in process.cmdline():
                found.append(process)
    return found


def has_ended(pid: int) -> bool:
    """Whether it runs no more. Its number stays until its parent, or process 1, has asked how it ended.

    That takes a second or two in some containers.
    """
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def end_in_time(pid: int, seconds: float = 10) -> bool:
    """Wait until it has ended: whether it has after so many seconds."""
    until = time.monotonic() + seconds
    while not has_ended(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
