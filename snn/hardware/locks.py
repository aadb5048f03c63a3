"""One measurement at a time on a device, whoever starts it; and none that outlives who asked for it."""

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
    """Wait until no other measurement runs on the device; the system gives the lock back if we die.

    Those on several GPUs may share the host's processors; one on the processors has them to itself.
    """
    with ExitStack() as held:
        held.enter_context(_lock("cpu", fcntl.LOCK_SH if device.uuid else fcntl.LOCK_EX))
        if device.uuid:
            held.enter_context(_lock(device.uuid, fcntl.LOCK_EX))
        yield


@contextmanager
def _lock(name: str, kind: int) -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"snn-{name}.lock"
    try:  # another user's file can be locked, but neither written nor, in a sticky folder, opened to create
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_CREAT | os.O_RDONLY | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another measurement on this machine to end", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


class LockedError(SnnError):
    """Another workflow runs in the same folder."""


def folder_lock(folder: Path) -> TextIO:
    """Hold a folder until the returned file is closed or this process dies. Raises LockedError."""
    folder.mkdir(exist_ok=True)
    file = (folder / "snn.lock").open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().strip() or "unknown"
        file.close()
        raise LockedError(
            f"another snakemake (process {holder}) is at work in this folder: wait for it to end"
        ) from None
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def end_with_parent() -> None:
    """On Linux, where the environment asks for it: be killed when the process that started us dies."""
    parent = os.environ.get(END_WITH_PARENT)
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before we asked
        sys.exit(f"snn: the workflow (process {parent}) is gone")
