"""Read and write whole sets of records: a folder of results, or an archive made by ``scripts/publish``."""

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snn.errors import RecordError
from snn.files import published_sets
from snn.files.outputs import replaced
from snn.records.microbenchmarks import FOLDER
from snn.records.store import check_rounds, checked, read_both
from snn.records.untrusted import check_schema, lines, parse, read_json

RECORDS = "records.jsonl.gz"
"""An archive's file of records, one per line. Records are repetitive: gzip saves five sixths of the space."""

CELLS = "cells"  # the folder of records, one per file, in a folder of results
SWEEPS = "sweeps.json"  # an archive's file of the sweeps that its records belong to
CONTRIBUTION = "contribution"
_BEGIN = f'{{"{CONTRIBUTION}"'
_NAMED = 12


@dataclass(frozen=True)
class Entry:
    """A record in today's form, and as it was written, perhaps by an older version of the program."""

    record: dict[str, Any]
    written: dict[str, Any]


def write(records: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write an archive's records. The bytes depend on the records alone: the gzip header has no timestamp."""
    (folder / RECORDS).write_bytes(gzip.compress(_text(records).encode("utf-8"), mtime=0))


def _text(records: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(record, separators=(",", ":"), sort_keys=True) + "\n" for record in records)


def write_contribution(records: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write records as one file, whose first line has their number and the SHA-256 of the lines after it."""
    text = _text(records).encode()
    seal = _seal(len(records), hashlib.sha256(text).hexdigest())
    with replaced(path) as file:
        file.write(gzip.compress(json.dumps(seal).encode() + b"\n" + text, mtime=0))


def _seal(count: int, digest: str) -> dict[str, Any]:
    return {CONTRIBUTION: 1, "records": count, "sha256": digest}


def is_contribution(path: Path) -> bool:
    """Whether a file begins as ``write_contribution`` writes it. Raises RecordError if it cannot be read."""
    return path.is_file() and next(lines(path), ("", ""))[1].startswith(_BEGIN)


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of ``entries`` by place, in today's form."""
    return {place: entry.record for place, entry in entries(folder).items()}


def entries(folder: Path) -> dict[str, Entry]:
    """The records of a folder as from ``unchecked``, checked to fit in one table.

    Raises RecordError also if ``check_rounds`` rejects them.
    """
    found = unchecked(folder)
    check_rounds({place: entry.record for place, entry in found.items()})
    return found


def unchecked(folder: Path) -> dict[str, Entry]:
    """The records of ``folder/cells`` by path, or of ``folder/records.jsonl.gz`` (or such a file) by line.

    Each record is checked by itself; two may have the same round, or different devices. Raises RecordError,
    naming file and line or, if the folder has no records, the folders in it that have some.
    """
    problem, found = "no records found", {}
    try:
        if not folder.exists():
            now = " or ".join(map(str, published_sets.moved(folder)))
            problem = f"cannot be read: No such file or directory{now and f'; it is {now} now'}"
        elif folder.is_file() and folder.suffix != Path(RECORDS).suffix:
            problem = (
                f"it is neither a folder of results nor a {RECORDS}; {folder.parent}/*/ names its folders"
            )
        elif not has_cells(folder):
            only = f", only {FOLDER}" if of_microbenchmarks(folder) else ""
            problem += f": it has neither {CELLS} nor {RECORDS}{only}{_within(folder)}"
        else:
            found = dict(_entries(folder))
    except OSError as error:
        problem = f"cannot be read: {error}"
    if not found:
        raise RecordError(f"{folder}: {problem}")
    return found


def has_cells(folder: Path) -> bool:
    """Whether a folder of results, or an archive, has records of cells, not of microbenchmarks alone."""
    return (folder / CELLS).is_dir() or not folder.is_dir() or (folder / RECORDS).exists()


def of_microbenchmarks(folder: Path) -> bool:
    """Whether a folder has records of microbenchmarks but not of cells; False if it cannot be read."""
    with suppress(OSError):
        return (folder / FOLDER).is_dir() and not has_cells(folder)
    return False


def _within(folder: Path) -> str:
    """End of a message with the folders of results in a folder and its subfolders, if any."""
    inside = sorted(one for level in ("[!.]*", "[!.]*/[!.]*") for one in folder.glob(level) if one.is_dir())
    found = [str(path) for path in inside if has_cells(path) or of_microbenchmarks(path)]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"; it holds folders of results: {', '.join(found[:_NAMED])}{more}: name those" if found else ""


def _entries(folder: Path) -> Iterator[tuple[str, Entry]]:
    if (folder / CELLS).is_dir():
        for path in sorted((folder / CELLS).rglob("*.json")):
            written, record = read_both(path)
            yield str(path), Entry(record, written)
        return
    for place, line in _sealed_lines(folder / RECORDS if folder.is_dir() else folder):
        written = parse(line, place)
        yield place, Entry(checked(written, place), written)


def _sealed_lines(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of an archive, without a contribution's first line. Raises RecordError at the end if that
    does not match the others."""
    seal, digest, number = None, hashlib.sha256(), 0
    for place, line in lines(path):
        if seal is None and not number and line.startswith(_BEGIN):
            seal = parse(line, place)
            continue
        digest.update(line.encode())
        number += 1
        yield place, line
    if seal is not None and seal != _seal(number, digest.hexdigest()):
        raise RecordError(f"{path}: its first line does not match its {number} records: the file was changed")


def read_sweeps(folder: Path) -> dict[str, dict[str, list[str]]] | None:
    """The sweeps that were published with an archive, with axes and names of cells; None if none were. Raises
    RecordError if the file is not one of sweeps."""
    path = folder / SWEEPS
    if not path.exists():
        return None
    sweeps: dict[str, dict[str, list[str]]] = read_json(path)
    check_schema("sweeps", sweeps, str(path))
    return sweeps
