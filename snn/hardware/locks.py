"""Locks: one measurement at a time per device, one workflow per folder; jobs that end with their workflow."""

import ctypes
import errno
import fcntl
import os
import signal
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from snn.errors import SnnError
from snn.hardware.devices import Device

END_WITH_PARENT = "SNN_END_WITH_PARENT"
_PR_SET_PDEATHSIG = 1
_FOLDER_LOCK = "snn.lock"


class LockedError(SnnError):
    """Another workflow is running in the same folder, or a lock cannot be opened."""


@contextmanager
def device_lock(device: Device) -> Iterator[None]:
    """Hold a device exclusively, after other measurements on it; released by the system if the process dies.

    Measurements on different GPUs may share the host's CPUs; a measurement on the CPU has the host to itself.
    Raises LockedError if the lock's file cannot be opened or is not a regular file.
    """
    with ExitStack() as held:
        held.enter_context(_lock("cpu", fcntl.LOCK_SH if device.uuid else fcntl.LOCK_EX))
        if device.uuid:
            held.enter_context(_lock(device.uuid, fcntl.LOCK_EX))
        yield


@contextmanager
def _lock(name: str, kind: int) -> Iterator[None]:
    # Open for reading: another user's file can be locked, but not written.
    descriptor = _open(Path(tempfile.gettempdir()) / f"snn-{name}.lock", os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another measurement on this machine to finish", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path, mode: int) -> int:
    """The descriptor of a lock's file, which is created if needed, readable by all users despite the umask.

    Raises LockedError for a link, a FIFO or anything else that is not a regular file, and if permission is
    denied.
    """
    flags = mode | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # O_NONBLOCK: opening a FIFO would block
    try:
        try:  # in a sticky folder, another user's file may not be opened with O_CREAT
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, 0o644)
            if os.fstat(descriptor).st_uid == os.geteuid():
                os.fchmod(descriptor, 0o644)
    except OSError as error:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror
        raise LockedError(f"{path}: the lock cannot be opened: {why}; remove it, or let its owner") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LockedError(f"{path}: the lock is not a file: remove it")
    return descriptor


def generation(folder: Path) -> str | None:
    """The last workflow that worked in a folder, "" if there was none; None while one is at work."""
    descriptor = _open(_made(folder) / _FOLDER_LOCK, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return _text(descriptor)
    except BlockingIOError:
        return None
    finally:
        os.close(descriptor)


def folder_lock(folder: Path, planned: str | None) -> int:
    """Lock a folder until the returned descriptor is closed or this process ends.

    ``planned`` is the folder's ``generation`` from before the work was planned. Raises LockedError if another
    workflow is at work, or has been since: what that one made would be made again.
    """
    descriptor = _open(_made(folder) / _FOLDER_LOCK, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _text(descriptor).partition(" ")[0] or "unknown"
        os.close(descriptor)
        raise LockedError(
            f"another snakemake (process {holder}) is running in this folder: wait until it has finished"
        ) from None
    if _text(descriptor) != planned:
        os.close(descriptor)
        raise LockedError(
            "another snakemake was at work in this folder while this one planned: start it again"
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()} {time.time_ns()}".encode(), 0)
    return descriptor


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise LockedError(f"{folder}: cannot be used as a folder: {error.strerror}; remove it") from error
    return folder


def _text(descriptor: int) -> str:
    return os.pread(descriptor, 100, 0).decode(errors="replace")


def end_with_parent() -> None:
    """On Linux, if the environment asks for it: let the kernel kill this process when its parent ends."""
    parent = os.environ.get(END_WITH_PARENT)
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if str(os.getppid()) != parent:  # the parent ended before prctl
        sys.exit(f"snn: the workflow (process {parent}) has ended")
