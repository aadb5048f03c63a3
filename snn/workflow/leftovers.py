"""What an earlier workflow left in a folder: which outputs are whole, and which have to be made again.

Snakemake marks the outputs of a job as incomplete when it starts, and removes the marks after it has noted
that the job is done. If a workflow is killed in between, a complete file keeps its mark, since files here are
written to a temporary name and renamed. On the other hand, Snakemake does not notice a file that was copied
without its notes, or damaged since. Setting and removing marks corrects both: a marked file is made again.
"""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

_TAIL = 16384
_SOURCE_HASH = re.compile(rb'"source_hash": ?"([0-9a-f]+)"')


class Notes:
    """Snakemake's notes on files, in its folder ``.snakemake`` or another one."""

    def __init__(self, folder: Path = Path(".snakemake")) -> None:
        self._marks, self._metadata = folder / "incomplete", folder / "metadata"

    def marked(self) -> list[str]:
        """The paths of the files that are marked as incomplete."""
        if not self._marks.is_dir():
            return []
        names = ("/".join(file.relative_to(self._marks).parts) for file in self._marks.rglob("*"))
        found = (_path_of(name) for name in names if not (self._marks / name).is_dir())
        return sorted(path for path in found if path is not None)

    def mark(self, path: str) -> None:
        """Mark a file as incomplete, so that it is made again."""
        mark = self._marks / _name_of(path)
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.write_text('{"external_jobid": null}', encoding="utf-8")

    def unmark(self, path: str) -> None:
        """Remove the mark."""
        (self._marks / _name_of(path)).unlink(missing_ok=True)

    def knows(self, path: str) -> bool:
        """Whether Snakemake remembers how the file was made."""
        return (self._metadata / _name_of(path)).exists()


def keep_whole(notes: Notes, is_whole: Callable[[str], bool]) -> None:
    """Remove the mark from every file that is whole, so that it is not made again."""
    for path in notes.marked():
        if is_whole(path):
            notes.unmark(path)


def mark_stale(notes: Notes, wanted: Mapping[str, str], all_of_them: bool = False) -> None:
    """Mark the records that were measured with other sources; ``wanted`` has the hash that each must contain.

    Where Snakemake remembers the parameters of the job, it notices this by itself, so only other files are
    read, unless ``all_of_them`` are.
    """
    for path, source_hash in wanted.items():
        unsure = all_of_them or not notes.knows(path)
        if unsure and source_hash_of(Path(path)) not in (None, source_hash):
            notes.mark(path)


def mark_damaged(notes: Notes, paths: Iterable[str], is_whole: Callable[[str], bool]) -> None:
    """Mark the files that exist but are not whole."""
    for path in paths:
        if Path(path).exists() and not is_whole(path):
            notes.mark(path)


def mark_incomplete(notes: Notes, pairs: Mapping[str, str]) -> None:
    """Mark the second file of each pair if it exists without the first, which one job writes with it."""
    for first, second in pairs.items():
        if Path(second).exists() and not Path(first).exists():
            notes.mark(second)


def source_hash_of(path: Path) -> str | None:
    """The source hash at the end of a record; None if there is no such file, or no hash in it."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _TAIL, 0))
            found = _SOURCE_HASH.findall(file.read())
    except OSError:
        return None
    return found[-1].decode() if found else None


_LONGEST = 254


def _name_of(path: str) -> str:
    """The name of Snakemake's note on a file: the path in base64, split into folders if it is long."""
    encoded = urlsafe_b64encode(path.encode()).decode()
    parts = [encoded[i : i + _LONGEST] for i in range(0, len(encoded), _LONGEST)]
    return "/".join([*(f"@{part}" for part in parts[:-1]), parts[-1]])


def _path_of(name: str) -> str | None:
    """The file that a note is about; None if the name is not that of a note."""
    try:
        return urlsafe_b64decode(name.replace("/@", "").replace("/", "").removeprefix("@")).decode()
    except ValueError:
        return None
