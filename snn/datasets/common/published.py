"""Published sets of images: known by their digests, looked for on this machine, else downloaded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from snn.datasets.common import idx, image_files
from snn.datasets.common.image_files import PARTS
from snn.errors import DataError

SYSTEM = Path("/usr/share/datasets")
"""Where packages of Debian install data sets, each in a folder of its own."""

LABELS = 10
_SIZES = dict(zip(PARTS, ((60000, 28, 28), (60000,), (10000, 28, 28), (10000,)), strict=True))


@dataclass(frozen=True)
class Published:
    """Images of ten classes in four files, 60000 to train and 10000 to test on, of 28x28 pixels.

    ``folder`` is that of the system, which ``package`` of Debian installs, if there is one. ``mirrors`` are
    the beginnings of the addresses of the packed files, in the order in which they are tried. The SHA-256 of
    the files' content, and of the packed files, are in the order of ``PARTS``.
    """

    name: str
    folder: str
    package: str | None
    mirrors: Sequence[str]
    content: Sequence[str]
    packed: Sequence[str]

    @property
    def system(self) -> Path:
        """The folder of the system in which the files may be."""
        return SYSTEM / self.folder

    def make(self, path: str | None, rows: int, test_rows: int, shape: list[int]) -> np.ndarray:
        """The float32 table (rows + test_rows, 785) of the first images, as ``image_files.table`` makes it.

        The files are those in the folder ``path``; or, where it is null, in the system's folder if it has all
        of them, else in the cache, into which missing ones are downloaded. Raises DataError where they cannot
        be had, or are others than were published.
        """
        files = self._found() if path is None else image_files.of_path(path)
        contents = image_files.read(files)
        for part, known in zip(PARTS, self.content, strict=True):
            self._check(files[part], contents[part], _SIZES[part], known)
        return image_files.table(contents, image_files.chosen(files, _SIZES, rows, test_rows, shape))

    def sizes(self, choice: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing, for the choice says all sizes. Raises DataError for more rows than there are."""
        for key, images in zip(("rows", "test_rows"), PARTS[::2], strict=True):
            if choice[key] > _SIZES[images][0]:
                raise DataError(
                    f"dataset.{key} is {choice[key]}: it must be at most {_SIZES[images][0]}, the number of "
                    f"images that dataset={self.name} has"
                )
        return {}

    def inputs(self, choice: Mapping[str, Any]) -> list[Path]:
        """The files that are read, if the choice names their folder."""
        return image_files.present(choice["path"])

    def _check(self, file: Path, content: idx.Content, sizes: tuple[int, ...], sha256: str) -> None:
        """Raise DataError unless a file is the published one, for the first reason that tells most."""
        others = f"; images of your own are dataset=idx, not {self.name}"
        if content.sizes != sizes:
            raise DataError(f"{file}: it has {idx.said(content.sizes)}, not {idx.said(sizes)}{others}")
        if len(sizes) == 1 and content.values.max() >= LABELS:
            row = int(np.argmax(content.values >= LABELS))
            raise DataError(
                f"{file}: label {row} (from 0) is {content.values[row]}: it must be from 0 to {LABELS - 1}"
                f"{others}"
            )
        if content.sha256 != sha256:
            raise DataError(
                f"{file}: it is another file than was published: the SHA-256 of its content, unpacked, is "
                f"{content.sha256}, not {sha256}{others}"
            )

    def _found(self) -> dict[str, Path]:
        """The files on this machine, or those that are downloaded."""
        try:
            files = image_files.within(self.system)
        except OSError:
            files = {}
        if len(files) == len(PARTS):
            return files
        from snn.datasets.common import download

        return download.fetched(self)
