"""A user's own images: four IDX files in a folder, named as those of MNIST are."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common import files, image_files
from snn.errors import DataError


def make(
    path: str,
    rows: int | None = None,
    test_rows: int | None = None,
    shape: list[int] | None = None,
    sha256: str | None = None,
) -> np.ndarray:
    """The float32 table (rows + test_rows, pixels + 1) of the images in a folder.

    Null means what the files hold. Raises DataError, naming file or key, where a file is none of this form,
    where files do not fit each other or the keys, and where one has changed since it had this digest.
    """
    found = image_files.of_path(path)
    contents = image_files.read(found)
    held = {part: content.sizes for part, content in contents.items()}
    wanted = image_files.chosen(found, held, rows, test_rows, shape)
    if sha256 is not None and image_files.digest(contents) != sha256:
        raise DataError(
            f"{path}: the image files have changed since the workflow was planned; run the workflow again"
        )
    return image_files.table(contents, wanted)


def sizes(choice: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that a choice leaves open, from the files' headers. Raises DataError if they do not fit."""
    if None not in (choice["rows"], choice["test_rows"], choice["shape"]):
        return {}  # as planned: there may be a prepared table, and no files any more
    found = image_files.of_path(choice["path"])
    asked = (choice[key] for key in ("rows", "test_rows", "shape"))
    return vars(image_files.chosen(found, image_files.headers(found), *asked))


def digest(choice: Mapping[str, Any]) -> str:
    """The digest of the files' content, read again only where a file has changed. Raises DataError."""
    found = image_files.of_path(choice["path"])
    return _digest(tuple(found.items()), tuple(map(files.identity, found.values())))


@cache
def _digest(found: tuple[tuple[str, Path], ...], identities: tuple[tuple[int, ...], ...]) -> str:
    return image_files.digest(image_files.read(dict(found)))


def inputs(choice: Mapping[str, Any]) -> list[Path]:
    """The files that are read."""
    return image_files.present(choice["path"])
