"""Locks: one measurement at a time per device, one workflow per folder; jobs that end with their workflow."""

import ctypes
import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TextIO

from snn.errors import SnnError
from snn.hardware.devices import Device

END_WITH_PARENT = "SNN_END_WITH_PARENT"
_PR_SET_PDEATHSIG = 1


@contextmanager
def device_lock(device: Device) -> Iterator[None]:
    """Hold a device exclusively; waits for other measurements on it. The system releases the lock if we die.

    Measurements on different GPUs may share the host's CPUs; a measurement on the CPU has the host to itself.
    """
    with ExitStack() as held:
        held.enter_context(_lock("cpu", fcntl.LOCK_SH if device.uuid else fcntl.LOCK_EX))
        if device.uuid:
            held.enter_context(_lock(device.uuid, fcntl.LOCK_EX))
        yield


@contextmanager
def _lock(name: str, kind: int) -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"snn-{name}.lock"
    try:  # another user's file can be locked, but not written, nor in a sticky folder opened with O_CREAT
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another measurement on this machine to finish", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


class LockedError(SnnError):
    """Another workflow is running in the same folder."""


def folder_lock(folder: Path) -> TextIO:
    """Lock a folder until the returned file is closed or this process ends. Raises LockedError."""
    folder.mkdir(exist_ok=True)
    file = (folder / "snn.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise LockedError(
            f"another snakemake (process {holder}) is running in this folder: wait until it has finished"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def end_with_parent() -> None:
    """On Linux, if the environment asks for it: get killed when the parent process ends."""
    parent = os.environ.get(END_WITH_PARENT)
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # the parent ended before prctl
        sys.exit(f"snn: the workflow (process {parent}) has ended")
