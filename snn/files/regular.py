"""Reading a file that a user named. It must be a regular one: reading a pipe or a device may never end."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from snn.errors import SnnError

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@contextmanager
def opened(path: Path, refusal: type[SnnError]) -> Iterator[BinaryIO]:
    """A regular file, open for reading; opening never blocks. Raises ``refusal``, naming the file, also
    where the system fails while it is read."""
    with _opened(path, refusal) as file:
        kind = stat.S_IFMT(os.fstat(file.fileno()).st_mode)
        if kind != stat.S_IFREG:
            raise refusal(f"{path}: cannot be read: it is {_KINDS.get(kind, 'something')}, not a file")
        try:
            yield file
        except OSError as error:
            raise refusal(f"{path}: cannot be read: {error.strerror or error}") from error


def _opened(path: Path, refusal: type[SnnError]) -> BinaryIO:
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except ValueError as error:  # there is a NUL in the path
        raise refusal(f"{path}: cannot be read: {error}") from error
    except OSError as error:
        folder = isinstance(error, IsADirectoryError)
        why = "it is a folder, not a file" if folder else error.strerror or error
        raise refusal(f"{path}: cannot be read: {why}") from error


def path_of(text: str) -> Path:
    """The path that a user wrote, with ``~`` for the home folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError:  # there is no such user
        return Path(text)


def read(path: Path, refusal: type[SnnError], most: int) -> bytes:
    """The content of a regular file. Raises ``refusal`` also if it has more than ``most`` bytes."""
    with opened(path, refusal) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise refusal(f"{path}: cannot be read: it has more than {most} bytes")
    return content
