"""Outputs left by an earlier workflow in a folder: which are whole, and which must be rebuilt.

Snakemake marks the outputs of a job as incomplete when it starts, and removes the marks after it has noted
that the job is done. If a workflow is killed in between, a complete file keeps its mark, since files here are
written to a temporary name and renamed. On the other hand, Snakemake does not notice a file that was copied
without its notes, or damaged since. Setting and removing marks corrects both: a marked file is rebuilt.
"""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

_TAIL = 16384
_SOURCE_HASH = re.compile(rb'"source_hash": ?"([0-9a-f]+)"')


def correct_marks(
    is_whole: Callable[[str], bool],
    records: Mapping[str, str],
    datasets: Collection[str],
    wanted: Collection[str],
    pages: Mapping[str, str],
    all_records: bool = False,
) -> None:
    """Make Snakemake rebuild the files that are damaged or outdated, and no others.

    ``records`` maps each record to the source hash that it must contain. If Snakemake remembers the
    parameters of a record's job, it notices other sources by itself, so only other records are read, unless
    ``all_records`` is set. The ``wanted`` of the ``datasets`` must be whole; so must the ``pages``, each of
    which is written by the same job as the file that it maps to.
    """
    from snakemake.persistence.file import FilePersistence

    notes = FilePersistence(nolock=True)
    for path in notes._filter_incomplete_keys({*records, *datasets, *pages}):
        if is_whole(path):
            notes._unmark_incomplete(path)
    again = {
        path
        for path, source_hash in records.items()
        if (all_records or not Path(notes._record_path(notes._metadata_path, path)).exists())
        and source_hash_of(Path(path)) not in (None, source_hash)
    }
    again |= {path for path in (*wanted, *pages) if Path(path).exists() and not is_whole(path)}
    again |= {made for page, made in pages.items() if Path(made).exists() and not Path(page).exists()}
    for path in again:
        notes._mark_incomplete(path, None)


def source_hash_of(path: Path) -> str | None:
    """The source hash at the end of a record; None if the file or the hash is missing."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _TAIL, 0))
            found = _SOURCE_HASH.findall(file.read())
    except OSError:
        return None
    return found[-1].decode() if found else None
