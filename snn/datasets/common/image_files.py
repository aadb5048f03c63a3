"""Sets of images in four IDX files, as MNIST comes: where they are in a folder, and the table they make."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from snn.datasets.common import idx
from snn.errors import DataError
from snn.files.regular import path_of

_DIMENSIONS = {"train-images": 3, "train-labels": 1, "t10k-images": 3, "t10k-labels": 1}
"""The files by the beginnings of their names. Those of the test rows are called t10k in every such set."""

PARTS = tuple(_DIMENSIONS)

Files = Mapping[str, Path]
"""The path of each of ``PARTS``."""


@dataclass(frozen=True)
class Sizes:
    """Images to train and to test on, and the [channels, height, width] of each."""

    rows: int
    test_rows: int
    shape: list[int]


def spellings(part: str) -> list[str]:
    """The names that a file may have, in the order in which they are looked for."""
    kind = f"idx{_DIMENSIONS[part]}-ubyte"
    return [f"{part}{mark}{kind}{packed}" for packed in ("", ".gz") for mark in "-."]


def looked_for() -> str:
    """All names, in words."""
    names = ", ".join(spellings(part)[0] for part in PARTS)
    return f"{names} (or with a dot before idx; each as it is or with .gz)"


def within(folder: Path) -> dict[str, Path]:
    """The files in a folder by their parts, of each the first spelling. Raises OSError or ValueError."""
    names = {path.name for path in folder.iterdir()}
    found = ((part, name) for part in PARTS for name in reversed(spellings(part)) if name in names)
    return {part: folder / name for part, name in found}


def present(path: str | None) -> list[Path]:
    """The files that are in a folder, if it is one."""
    try:
        return [] if path is None else list(within(path_of(path)).values())
    except (OSError, ValueError):
        return []


def of_path(path: str) -> dict[str, Path]:
    """The four files in the folder that ``dataset.path`` names. Raises DataError unless all are there."""
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


def headers(files: Files) -> dict[str, tuple[int, ...]]:
    """The sizes in the files' headers; the rest is not read. Raises DataError as ``idx.sizes`` does."""
    return {part: idx.sizes(files[part], dimensions) for part, dimensions in _DIMENSIONS.items()}


def chosen(
    files: Files,
    found: Mapping[str, tuple[int, ...]],
    rows: int | None,
    test_rows: int | None,
    shape: Sequence[int] | None,
) -> Sizes:
    """The sizes that a choice asks for; what it leaves open is as ``found`` in the files.

    Raises DataError, naming file or key, where files do not fit each other, for more rows than they hold, and
    for another shape.
    """
    _check_fit(files, found)
    held = (
        ("rows", rows, found["train-images"][0], "train-images"),
        ("test_rows", test_rows, found["t10k-images"][0], "t10k-images"),
    )
    for key, asked, most, part in held:
        if asked is not None and asked > most:
            raise DataError(
                f"dataset.{key} is {asked}: it must be at most {most}, the number of images in {files[part]}"
            )
    shape_of_files = [1, *found["train-images"][1:]]
    if shape is not None and list(shape) != shape_of_files:
        raise DataError(
            f"dataset.shape is {list(shape)}: it must be {shape_of_files}, that of the images in "
            f"{files['train-images']}"
        )
    return Sizes(rows or held[0][2], test_rows or held[1][2], shape_of_files)


def _check_fit(files: Files, found: Mapping[str, tuple[int, ...]]) -> None:
    """Raise DataError unless there is a label for each image, and all images have one size."""
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


def read(files: Files) -> dict[str, idx.Content]:
    """The four files, whole. Raises DataError as ``idx.read`` does."""
    return {part: idx.read(files[part], dimensions) for part, dimensions in _DIMENSIONS.items()}


def digest(contents: Mapping[str, idx.Content]) -> str:
    """SHA-256 of the four files' unpacked bytes, one after the other: ``zcat -f ... | sha256sum``."""
    sha = hashlib.sha256()
    for part in PARTS:
        sha.update(contents[part].raw)
    return sha.hexdigest()


def table(contents: Mapping[str, idx.Content], wanted: Sizes) -> np.ndarray:
    """The float32 table (rows + test_rows, pixels + 1) of the first training and the first test images.

    A pixel is its byte / 255, computed in float32; the last column is the label.
    """
    rows = wanted.rows + wanted.test_rows
    made = np.empty((rows, np.prod(wanted.shape) + 1), np.float32)
    for (images, labels), part in zip(
        (PARTS[:2], PARTS[2:]), (made[: wanted.rows], made[wanted.rows :]), strict=True
    ):
        pixels = contents[images].values[: len(part)].reshape(len(part), -1)
        np.divide(pixels, np.float32(255), out=part[:, :-1], dtype=np.float32)
        part[:, -1] = contents[labels].values[: len(part)]
    return made
