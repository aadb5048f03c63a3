"""Images in four IDX files, named as MNIST's: a user's own, and published data sets.

An IDX file is a magic number, sizes and unsigned bytes; it may be packed by gzip. The magic number's bytes
are 0, 0, the type (8: unsigned bytes) and the number of dimensions. It and the sizes are unsigned 32-bit
integers, the most significant byte first (yann.lecun.com/exdb/mnist).
"""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from snn.errors import DataError
from snn.files.regular import check_memory, identity, opened, path_of, read_into_memory

LARGEST_FILE = 2 << 30
"""Bytes of an unpacked file."""
_COPIES = 6
"""Copies of the bytes in memory: themselves, four times as float32, and a spare one."""
_MOST_PACKED = 1032
"""Most bytes that gzip (deflate) packs into one."""

_GZIP = b"\x1f\x8b"
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
"""Content of a file of unsigned bytes, by its number of dimensions."""


@dataclass(frozen=True)
class Content:
    """The unpacked bytes of an IDX file, including its header, and its sizes."""

    raw: bytes
    sizes: tuple[int, ...]

    @property
    def values(self) -> np.ndarray:
        """The bytes after the header, uint8 of shape ``sizes``."""
        return np.frombuffer(self.raw, np.uint8, offset=_length(len(self.sizes))).reshape(self.sizes)


def sizes_in_header(file: Path, dimensions: int) -> tuple[int, ...]:
    """Read only the sizes in the header of an IDX file of unsigned bytes.

    Raises DataError, naming the file and what would be right, unless it begins like such a file.
    """
    return _sizes_in_header(file, dimensions, identity(file))


@cache
def _sizes_in_header(file: Path, dimensions: int, identity: tuple[int, ...]) -> tuple[int, ...]:
    with opened(file, DataError) as content:
        return _parsed(file, _beginning(file, content, _length(dimensions)), dimensions)


def read_idx(file: Path, dimensions: int) -> Content:
    """Read an IDX file of unsigned bytes with this many dimensions.

    Raises DataError, naming the file and what would be right, for any other file, one that is shorter or
    longer than its header says, a damaged gzip file, or more than ``LARGEST_FILE`` bytes.
    """
    raw = read_into_memory(file, _COPIES, LARGEST_FILE)
    found = _parsed(file, _beginning(file, io.BytesIO(raw), _length(dimensions)), dimensions)
    length = _length(dimensions) + prod(found)
    if raw.startswith(_GZIP):
        if length > _MOST_PACKED * len(raw):
            raise DataError(
                f"{file}: its header says {in_words(found)}, but {len(raw)} bytes cannot hold them"
            )
        check_memory(file, length, _COPIES)
        with _unpacking(file), gzip.open(io.BytesIO(raw)) as unpacked:
            raw = unpacked.read(length + 1)
    if len(raw) != length:
        fault = f"only {len(raw)}: it is cut off" if len(raw) < length else "more"
        raise DataError(
            f"{file}: its header says {in_words(found)}, which with it are {length} bytes, but it has {fault}"
        )
    return Content(raw, found)


def header(sizes: tuple[int, ...]) -> bytes:
    """The header of an IDX file of unsigned bytes of these sizes."""
    return bytes([0, 0, _UNSIGNED_BYTES, len(sizes)]) + np.array(sizes, ">u4").tobytes()


def _length(dimensions: int) -> int:
    """The size of a header in bytes."""
    return 4 + 4 * dimensions


def _beginning(file: Path, content: BinaryIO, length: int) -> bytes:
    """The first unpacked bytes of an open file; fewer if it is shorter."""
    found = content.read(length)
    content.seek(0)
    if found.startswith(_GZIP):
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
    """The sizes in the beginning of a file. Raises DataError if it is not an IDX file of this kind."""
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
        raise DataError(f"{file}: its header says {in_words(found)}: there must be at least one of each")
    if _length(dimensions) + prod(found) > LARGEST_FILE:
        raise DataError(
            f"{file}: its header says {in_words(found)}, more than the {LARGEST_FILE} bytes that are read of "
            "such a file"
        )
    return found


def _meaning(magic: bytes) -> str:
    """The meaning of a magic number, in brackets; empty if it is not one."""
    if magic[:2] != b"\0\0" or magic[2] not in _TYPES or not magic[3]:
        return ""
    kind = _HELD.get(magic[3], "") if magic[2] == _UNSIGNED_BYTES else ""
    return f" ({kind}{': ' if kind else ''}{_TYPES[magic[2]]} in {magic[3]} dimension{'s' * (magic[3] > 1)})"


def in_words(sizes: tuple[int, ...]) -> str:
    """Sizes in words: 60000 images of 28x28."""
    of_each = f" of {'x'.join(map(str, sizes[1:]))}" if len(sizes) > 1 else ""
    return f"{sizes[0]} {_HELD[len(sizes)]}{of_each}"


# ---- sets of images in four files

_DIMENSIONS = {"train-images": 3, "train-labels": 1, "t10k-images": 3, "t10k-labels": 1}
"""Dimensions of the files by the beginnings of their names; test files are called t10k in every set."""

PARTS = tuple(_DIMENSIONS)

Files = Mapping[str, Path]
"""The path of each of ``PARTS``."""


def spellings(part: str) -> list[str]:
    """The possible names of a file, in the order in which they are tried."""
    kind = f"idx{_DIMENSIONS[part]}-ubyte"
    return [f"{part}{mark}{kind}{packed}" for packed in ("", ".gz") for mark in "-."]


def looked_for() -> str:
    """All names in words, for a message."""
    names = ", ".join(spellings(part)[0] for part in PARTS)
    return f"{names} (or with a dot before idx; each as it is or with .gz)"


def within(folder: Path) -> dict[str, Path]:
    """The files in a folder by part, with the first spelling found. Raises OSError or ValueError."""
    names = {path.name for path in folder.iterdir()}
    found = ((part, name) for part in PARTS for name in reversed(spellings(part)) if name in names)
    return {part: folder / name for part, name in found}


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The existing files of the folder that the choice names, if it names one."""
    try:
        return [] if choice["path"] is None else list(within(path_of(choice["path"])).values())
    except (OSError, ValueError):
        return []


def files_in(path: str) -> dict[str, Path]:
    """The four files in the folder that ``dataset.path`` names. Raises DataError if one is missing."""
    try:
        files = within(path_of(path))
    except NotADirectoryError as error:
        raise DataError(
            f"dataset.path is {path!r}: it must be a folder with the files {looked_for()}"
        ) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"dataset.path is {path!r}: the folder cannot be read: {why}") from error
    missing = [spellings(part)[0] for part in PARTS if part not in files]
    if missing:
        raise DataError(
            f"dataset.path is {path!r}: there is no {', '.join(missing)} in this folder: it must have "
            f"the files {looked_for()}"
        )
    return files


def chosen(files: Files, found: Mapping[str, tuple[int, ...]], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The rows, test rows and shape of a choice; values left open are taken from ``found`` in the files.

    Raises DataError, naming file or key, if files do not match each other, for more rows than they hold, and
    for another shape.
    """
    _check_fit(files, found)
    wanted: dict[str, Any] = {"shape": [1, *found["train-images"][1:]]}
    for key, part in zip(("rows", "test_rows"), PARTS[::2], strict=True):
        most = found[part][0]
        wanted[key] = asked[key] or most
        if wanted[key] > most:
            raise DataError(
                f"dataset.{key} is {asked[key]}: it must be at most {most}, the number of images in "
                f"{files[part]}"
            )
    if asked["shape"] is not None and list(asked["shape"]) != wanted["shape"]:
        raise DataError(
            f"dataset.shape is {list(asked['shape'])}: it must be {wanted['shape']}, that of the images in "
            f"{files['train-images']}"
        )
    return wanted


def _check_fit(files: Files, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise DataError unless every image has a label, and all images have the same size."""
    for images, labels in (PARTS[:2], PARTS[2:]):
        if found[images][0] != found[labels][0]:
            raise DataError(
                f"{files[labels]}: it has {found[labels][0]} labels, but {files[images]} has "
                f"{found[images][0]} images: there must be one label for each"
            )
    of_training, of_test = ("x".join(map(str, found[part][1:])) for part in PARTS[::2])
    if of_training != of_test:
        raise DataError(
            f"{files['t10k-images']}: its images are {of_test}, but those in {files['train-images']} are "
            f"{of_training}: all must have one size"
        )


def read_files(files: Files) -> dict[str, Content]:
    """Read the four files. Raises DataError as ``read_idx`` does."""
    return {part: read_idx(files[part], dimensions) for part, dimensions in _DIMENSIONS.items()}


def digest_contents(contents: Mapping[str, Content]) -> str:
    """SHA-256 of the four files' unpacked bytes, one after the other: ``zcat -f ... | sha256sum``."""
    sha = hashlib.sha256()
    for part in PARTS:
        sha.update(contents[part].raw)
    return sha.hexdigest()


def make_table(
    contents: Mapping[str, Content], rows: int, test_rows: int, shape: Sequence[int]
) -> np.ndarray:
    """The float32 table (rows + test_rows, pixels + 1) of the first training and the first test images.

    A pixel is its byte / 255, computed in float32; the last column is the label.
    """
    made = np.empty((rows + test_rows, prod(shape) + 1), np.float32)
    for (images, labels), part in ((PARTS[:2], made[:rows]), (PARTS[2:], made[rows:])):
        pixels = contents[images].values[: len(part)].reshape(len(part), -1)
        np.divide(pixels, np.float32(255), out=part[:, :-1], dtype=np.float32)
        part[:, -1] = contents[labels].values[: len(part)]
    return made


# ---- published sets

SYSTEM = Path("/usr/share/datasets")
"""Folder in which Debian's packages install data sets, one folder per set."""

LABELS = 10
_SIZES = dict(zip(PARTS, ((60000, 28, 28), (60000,), (10000, 28, 28), (10000,)), strict=True))


@dataclass(frozen=True)
class Published:
    """Images of ten classes in four files, 60000 to train and 10000 to test on, of 28x28 pixels.

    ``folder`` is the system's folder, which Debian's ``package`` installs, if it exists. ``mirrors`` are the
    beginnings of the packed files' addresses, in the order in which they are tried. The SHA-256 of the files'
    content, and of the packed files, are in the order of ``PARTS``.
    """

    name: str
    folder: str
    package: str | None
    mirrors: Sequence[str]
    content: Sequence[str]
    packed: Sequence[str]

    def make(self, path: str | None, rows: int, test_rows: int, shape: list[int]) -> np.ndarray:
        """The float32 table (rows + test_rows, 785) of the first images, as ``make_table`` makes it.

        The files come from the folder ``path``; if it is null, from the system's folder if it has all of
        them, else from the cache, into which missing ones are downloaded. Raises DataError if they cannot be
        obtained, or differ from the published ones.
        """
        files = self._found() if path is None else files_in(path)
        contents = read_files(files)
        for part, known in zip(PARTS, self.content, strict=True):
            self._check(files[part], contents[part], _SIZES[part], known)
        asked = {"rows": rows, "test_rows": test_rows, "shape": shape}
        return make_table(contents, **chosen(files, _SIZES, asked))

    def sizes(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Returns no sizes, since the choice states all. Raises DataError for more rows than the set has."""
        for key, images in zip(("rows", "test_rows"), PARTS[::2], strict=True):
            if choice[key] > _SIZES[images][0]:
                raise DataError(
                    f"dataset.{key} is {choice[key]}: it must be at most {_SIZES[images][0]}, the number of "
                    f"images that dataset={self.name} has"
                )
        return {}

    def _check(self, file: Path, content: Content, sizes: tuple[int, ...], sha256: str) -> None:
        """Raise DataError unless a file is the published one, with the most telling reason."""
        others = f"; images of your own are dataset=idx, not {self.name}"
        if content.sizes != sizes:
            raise DataError(f"{file}: it has {in_words(content.sizes)}, not {in_words(sizes)}{others}")
        if len(sizes) == 1 and content.values.max() >= LABELS:
            row = int(np.argmax(content.values >= LABELS))
            raise DataError(
                f"{file}: label {row} (from 0) is {content.values[row]}: it must be from 0 to {LABELS - 1}"
                f"{others}"
            )
        if (found := hashlib.sha256(content.raw).hexdigest()) != sha256:
            raise DataError(
                f"{file}: it is another file than was published: the SHA-256 of its content, unpacked, is "
                f"{found}, not {sha256}{others}"
            )

    def _found(self) -> dict[str, Path]:
        """The files on this machine, downloaded if necessary."""
        system = SYSTEM / self.folder
        try:
            files = within(system)
        except OSError:
            files = {}
        if len(files) == len(PARTS):
            return files
        from snn.datasets import download

        by_system = f"the same files in {system} (Debian has no package of them)"
        if self.package:
            by_system = f"apt-get install {self.package} (Debian's package)"
        return download.fetched(
            self.name,
            {part: (f"{spellings(part)[0]}.gz", sha) for part, sha in zip(PARTS, self.packed, strict=True)},
            self.mirrors,
            elsewhere=str(system),
            ways=f"dataset.path=FOLDER, with the files {looked_for()}; {by_system}",
        )


# ---- the data set idx, a user's own files


def make(
    path: str,
    rows: int | None = None,
    test_rows: int | None = None,
    shape: list[int] | None = None,
    sha256: str | None = None,
) -> np.ndarray:
    """The float32 table (rows + test_rows, pixels + 1) of the images in a folder.

    A null key takes its value from the files. Raises DataError, naming file or key, if a file has another
    form, if files do not match each other or the keys, or if the content no longer has this digest.
    """
    found = files_in(path)
    contents = read_files(found)
    held = {part: content.sizes for part, content in contents.items()}
    wanted = chosen(found, held, {"rows": rows, "test_rows": test_rows, "shape": shape})
    if sha256 is not None and digest_contents(contents) != sha256:
        raise DataError(
            f"{path}: the image files have changed since the workflow was planned; run the workflow again"
        )
    return make_table(contents, **wanted)


def sizes(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a choice leaves open, from the files' headers. Raises DataError if they do not fit."""
    if None not in (choice["rows"], choice["test_rows"], choice["shape"]):
        return {}  # as planned: the files may be gone once the table is prepared
    found = files_in(choice["path"])
    in_headers = {part: sizes_in_header(found[part], number) for part, number in _DIMENSIONS.items()}
    return chosen(found, in_headers, choice)


def digest(choice: Mapping[str, Any]) -> str:
    """The digest of the files' content, read again only if a file has changed. Raises DataError."""
    found = files_in(choice["path"])
    return _digest(tuple(found.items()), tuple(map(identity, found.values())))


@cache
def _digest(found: tuple[tuple[str, Path], ...], identities: tuple[tuple[int, ...], ...]) -> str:
    return digest_contents(read_files(dict(found)))
