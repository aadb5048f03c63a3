"""How much memory this process may have on this machine, and how much is in use."""

import os
from functools import cache
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says what a container may have, in its two forms."""

_USE = ("/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory/memory.usage_in_bytes")
"""Where it says what a container has, with file caches."""

_MEMINFO = "/proc/meminfo"


@cache
def usable_bytes() -> int:
    """The machine's memory, or what a container may have of it."""
    found = [machine_bytes()]
    for path in _LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return min(found)


def machine_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class OpenFile:
    """A file of the kernel that is read again and again: each time with one call of the system."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def text(self) -> str:
        """What it says now, at most 4 KiB of it."""
        return os.pread(self._descriptor, 4096, 0).decode("ascii", "replace")

    def close(self) -> None:
        os.close(self._descriptor)


class InUse:
    """The bytes in use of what ``usable_bytes`` counts.

    Of a machine without file caches; of a container with them, as its limit counts them.
    """

    def __init__(self) -> None:
        in_container = usable_bytes() < machine_bytes()
        self._file: OpenFile | None = None
        self._of_container = False
        for path in (*(_USE if in_container else ()), _MEMINFO):
            try:
                self._file, self._of_container = OpenFile(path), path != _MEMINFO
                return
            except OSError:
                continue

    def nbytes(self) -> int | None:
        """The bytes now; None where the system does not say."""
        if self._file is None:
            return None
        try:
            text = self._file.text()
            return int(text) if self._of_container else _in_use(text)
        except (KeyError, OSError, ValueError):
            return None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _in_use(meminfo: str) -> int:
    lines = (line.split() for line in meminfo.splitlines())
    values = {line[0]: int(line[1]) for line in lines if len(line) > 1}
    return 1024 * (values["MemTotal:"] - values["MemAvailable:"])
