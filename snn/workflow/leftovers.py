"""What an earlier workflow left in a folder: which outputs are whole, and which have to be made again.

Snakemake marks the outputs of a job as incomplete when it starts, and removes the marks after it has noted
that the job is done. If a workflow is killed in between, a complete file keeps its mark, since files here are
written to a temporary name and renamed. On the other hand, Snakemake does not notice a file that was copied
without its notes, or damaged since. Setting and removing marks corrects both: a marked file is made again.
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
    """Let Snakemake make again the files that are not as they should be, and no others.

    ``records`` has the hash of its sources that each must contain. If Snakemake remembers the parameters of a
    record's job, it notices other sources by itself, so only other records are read, unless ``all_records``
    are. Of the ``datasets`` those that are ``wanted`` must be whole; so must the ``pages``, each of which one
    job writes with the file that it maps to.
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
    """The source hash at the end of a record; None if there is no such file, or no hash in it."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - _TAIL, 0))
            found = _SOURCE_HASH.findall(file.read())
    except OSError:
        return None
    return found[-1].decode() if found else None
