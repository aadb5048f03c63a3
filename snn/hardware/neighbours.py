"""Other GPUs of the machine on which something is measured while a cell has its own."""

import fcntl
import os
import re
import time
from pathlib import Path

from snn.hardware.devices import Device
from snn.hardware.locks import lock_file

_LOCK = re.compile(r"snn-((GPU|MIG)-[\w./-]+)\.lock")

_TICK = 20_000_000
"""Nanoseconds by which a file's time may be behind the clock."""


class Neighbours:
    """The other GPUs whose locks are held from now on.

    A lock's file has the time when it was locked last, so that one is seen that comes and goes in between.
    """

    def __init__(self, device: Device) -> None:
        self._own = lock_file(device.uuid or "cpu")
        self._since = time.time_ns() - _TICK
        self._found = self._busy()

    def uuids(self) -> list[str]:
        """The UUIDs of those that were held at some time until now, sorted."""
        self._found |= self._busy()
        return sorted(self._found)

    def _busy(self) -> set[str]:
        found = ((path, _LOCK.fullmatch(path.name)) for path in self._own.parent.glob("snn-*.lock"))
        return {lock[1] for path, lock in found if lock and path != self._own and self._was_held(path)}

    def _was_held(self, path: Path) -> bool:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # not a lock of ours
            return False
        try:
            if os.fstat(descriptor).st_mtime_ns >= self._since:
                return True
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False
