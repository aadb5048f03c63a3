"""Reads files that a user named. They must be regular: reading a pipe or a device may never end.

Files of data sets must fit into the free memory.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from snn.errors import DataError, SnnError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened(path: Path, refusal: type[SnnError]) -> Iterator[BinaryIO]:
    """A regular file, open for reading; opening never blocks. Raises ``refusal``, naming the file, also if
    reading fails later."""
    try:
        opened = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL
        is_folder = isinstance(error, IsADirectoryError)
        why = "it is a folder, not a file" if is_folder else getattr(error, "strerror", None) or error
        raise refusal(f"{path}: cannot be read: {why}") from error
    with opened as file:
        kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
        if kind != stat.S_IFREG:
            raise refusal(f"{path}: cannot be read: it is {_KINDS.get(kind, 'something')}, not a file")
        try:
            yield file
        except OSError as error:
            raise refusal(f"{path}: cannot be read: {error.strerror or error}") from error


def path_of(text: str) -> Path:
    """The path that a user wrote, with ``~`` for the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # unknown user
        return Path(text)


def read(path: Path, refusal: type[SnnError], most: int) -> bytes:
    """The content of a regular file. Raises ``refusal`` also if it has more than ``most`` bytes."""
    with opened(path, refusal) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise refusal(f"{path}: cannot be read: it has more than {most} bytes")
    return content


def read_into_memory(path: Path, copies: int, largest: int | None = None) -> bytes:
    """The content of a file that the caller needs ``copies`` times in memory.

    Raises DataError, before it reads anything, if the file is missing, not a regular one, larger than
    ``largest`` bytes, or too large for the free memory; and later if its size changes meanwhile.
    """
    with opened(path, DataError) as file:
        size = os.fstat(file.fileno()).st_size
        if largest is not None and size > largest:
            raise DataError(f"{path}: it has {size} bytes, more than the {largest} that a file may have")
        check_memory(path, size, copies)
        content = file.read(size + 1)
    if len(content) != size:
        raise DataError(f"{path}: it did not have the expected {size} bytes; is it being written?")
    return content


def check_memory(path: Path, size: int, copies: int) -> None:
    """Raise DataError unless this many copies of a file of ``size`` bytes fit into the free memory."""
    free = _free_memory()
    if copies * size > free:
        raise DataError(
            f"{path}: it has {size} bytes, and reading it takes about {copies} times as much memory, "
            f"but only {free} bytes are free"
        )


def identity(path: Path) -> tuple[int, ...]:
    """Numbers that change whenever the file does. Raises DataError if it is not a regular file."""
    with opened(path, DataError) as file:
        status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _free_memory() -> int:
    """Bytes that this machine can still give to a process."""
    import psutil

    return psutil.virtual_memory().available
