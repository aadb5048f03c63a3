"""One measurement at a time on a device, whoever starts it; and none that outlives who asked for it."""

import ctypes
import fcntl
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from snn.devices import Device

END_WITH_PARENT = "SNN_END_WITH_PARENT"
_PR_SET_PDEATHSIG = 1


@contextmanager
def device_lock(device: Device) -> Iterator[None]:
    """Wait until no other measurement runs on the device; the system gives the lock back if we die."""
    path = Path(tempfile.gettempdir()) / f"snn-{device.uuid or 'cpu'}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another measurement on {device.name} to end", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def end_with_parent() -> None:
    """On Linux, where the environment asks for it: be killed when the process that started us dies."""
    parent = os.environ.get(END_WITH_PARENT)
    if not parent or sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before we asked
        sys.exit(f"snn: the workflow (process {parent}) is gone")
