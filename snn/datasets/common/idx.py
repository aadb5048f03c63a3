"""IDX files, the format of MNIST's images and labels: a magic number, sizes, unsigned bytes; gzip or not.

The magic number's bytes are 0, 0, the type (8: unsigned bytes) and the number of dimensions. It and the sizes
are unsigned 32-bit integers, the most significant byte first (yann.lecun.com/exdb/mnist).
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import BinaryIO

import numpy as np

from snn.datasets.common import files
from snn.errors import DataError
from snn.files.regular import opened

LARGEST_FILE = 2 << 30
"""Bytes, unpacked."""
_COPIES = 6
"""Of the bytes in memory while they become a table: themselves, four times as float32, one to spare."""
_MOST_PACKED = 1032
"""Bytes that gzip (deflate) packs into one, at the most."""

_UNSIGNED_BYTES = 8
_TYPES = {
    _UNSIGNED_BYTES: "unsigned bytes",
    9: "signed bytes",
    11: "16-bit integers",
    12: "32-bit integers",
    13: "32-bit floats",
    14: "64-bit floats",
}
_HELD = {1: "labels", 3: "images"}
"""What unsigned bytes in so many dimensions are."""


@dataclass(frozen=True)
class Content:
    """The unpacked bytes of an IDX file, their header included, and its sizes."""

    raw: bytes
    sizes: tuple[int, ...]

    @property
    def values(self) -> np.ndarray:
        """The bytes behind the header, uint8 of these sizes."""
        return np.frombuffer(self.raw, np.uint8, offset=_length(len(self.sizes))).reshape(self.sizes)

    @property
    def sha256(self) -> str:
        """The digest of the unpacked bytes."""
        return hashlib.sha256(self.raw).hexdigest()


def sizes(file: Path, dimensions: int) -> tuple[int, ...]:
    """The sizes in the header of an IDX file of unsigned bytes; the rest is not read.

    Raises DataError, naming the file and what would be right, unless it begins as such a file does.
    """
    return _sizes(file, dimensions, files.identity(file))


@cache
def _sizes(file: Path, dimensions: int, identity: tuple[int, ...]) -> tuple[int, ...]:
    with opened(file, DataError) as content:
        return _parsed(file, _beginning(file, content, _length(dimensions)), dimensions)


def read(file: Path, dimensions: int) -> Content:
    """An IDX file of unsigned bytes in so many dimensions, whole.

    Raises DataError, naming the file and what would be right, for any other file, one that is shorter or
    longer than its header says, a damaged gzip file, and more bytes than are read of such a file.
    """
    raw = files.read(file, _COPIES, LARGEST_FILE)
    found = _parsed(file, _beginning(file, io.BytesIO(raw), _length(dimensions)), dimensions)
    length = _length(dimensions) + prod(found)
    if _is_packed(raw):
        if length > _MOST_PACKED * len(raw):
            raise DataError(f"{file}: its header says {said(found)}, but {len(raw)} bytes cannot hold them")
        files.check_memory(file, length, _COPIES)
        with _unpacking(file), gzip.open(io.BytesIO(raw)) as unpacked:
            raw = unpacked.read(length + 1)
    if len(raw) != length:
        fault = f"only {len(raw)}: it is cut off" if len(raw) < length else "more"
        raise DataError(
            f"{file}: its header says {said(found)}, which with it are {length} bytes, but it has {fault}"
        )
    return Content(raw, found)


def header(sizes: tuple[int, ...]) -> bytes:
    """The bytes with which an IDX file of unsigned bytes of these sizes begins."""
    return bytes([0, 0, _UNSIGNED_BYTES, len(sizes)]) + np.array(sizes, ">u4").tobytes()


def _length(dimensions: int) -> int:
    """The bytes of a header."""
    return 4 + 4 * dimensions


def _is_packed(content: bytes) -> bool:
    return content.startswith(b"\x1f\x8b")


def _beginning(file: Path, content: BinaryIO, length: int) -> bytes:
    """The first bytes, unpacked, of an open file; fewer where it has no more."""
    found = content.read(length)
    content.seek(0)
    if _is_packed(found):
        with _unpacking(file), gzip.open(content) as unpacked:
            return unpacked.read(length)
    return found


@contextmanager
def _unpacking(file: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{file}: it is a damaged gzip file: {error}") from error


def _parsed(file: Path, beginning: bytes, dimensions: int) -> tuple[int, ...]:
    """The sizes in the beginning of a file. Raises DataError where it is not that of such a file."""
    right = header((0,) * dimensions)[:4]
    magic = beginning[:4]
    if len(magic) == 4 and magic != right:
        raise DataError(
            f"{file}: its magic number is 0x{magic.hex()}{_meaning(magic)}: "
            f"it must be 0x{right.hex()}{_meaning(right)}"
        )
    if len(beginning) < _length(dimensions):
        raise DataError(
            f"{file}: it has {len(beginning)} bytes: an IDX file of {_HELD[dimensions]} begins with "
            f"{_length(dimensions)}, the magic number 0x{right.hex()} and its sizes"
        )
    found = tuple(map(int, np.frombuffer(beginning, ">u4", dimensions, 4)))
    if 0 in found:
        raise DataError(f"{file}: its header says {said(found)}: there must be at least one of each")
    if _length(dimensions) + prod(found) > LARGEST_FILE:
        raise DataError(
            f"{file}: its header says {said(found)}, more than the {LARGEST_FILE} bytes that are read of "
            "such a file"
        )
    return found


def _meaning(magic: bytes) -> str:
    """What a magic number says, in brackets; empty if it is none."""
    if magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
        return ""
    kind = _HELD.get(magic[3], "") if magic[2] == _UNSIGNED_BYTES else ""
    return f" ({kind}{': ' if kind else ''}{_TYPES[magic[2]]} in {magic[3]} dimension{'s' * (magic[3] > 1)})"


def said(sizes: tuple[int, ...]) -> str:
    """Sizes in words: 60000 images of 28x28."""
    of_each = f" of {'x'.join(map(str, sizes[1:]))}" if len(sizes) > 1 else ""
    return f"{sizes[0]} {_HELD[len(sizes)]}{of_each}"
