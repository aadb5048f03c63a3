"""Reading a file that a user named: a regular one, no larger than the machine's memory allows."""

import os
from pathlib import Path

from snn.errors import DataError
from snn.files.regular import opened


def read(path: Path, copies: int, largest: int | None = None) -> bytes:
    """The content of a file, of which the caller needs ``copies`` in memory.

    Raises DataError, before it reads anything, where the file is none, not a regular one, larger than
    ``largest`` bytes, or too large for the memory that is free; and where its size changes meanwhile.
    """
    with opened(path, DataError) as file:
        size = os.fstat(file.fileno()).st_size
        if largest is not None and size > largest:
            raise DataError(
                f"{path}: it has {size} bytes, more than the {largest} that are read of such a file"
            )
        check_memory(path, size, copies)
        content = file.read(size + 1)
    if len(content) != size:
        raise DataError(f"{path}: its size is not the {size} bytes that it is said to be; does it change?")
    return content


def check_memory(path: Path, size: int, copies: int) -> None:
    """Raise DataError unless so many copies of a file's ``size`` bytes fit into the free memory."""
    free = _free_memory()
    if copies * size > free:
        raise DataError(
            f"{path}: it has {size} bytes, and reading it takes about {copies} times as much memory, "
            f"but {free} bytes are free"
        )


def identity(path: Path) -> tuple[int, ...]:
    """Numbers of which one changes when a file does. Raises DataError where it is no regular file."""
    with opened(path, DataError) as file:
        status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _free_memory() -> int:
    """Bytes that this machine can still give to a process."""
    import psutil

    return psutil.virtual_memory().available
