"""An archive of records, and one of which a part is not as it was."""

import contextlib
import gzip
import io
from functools import cache
from typing import Any

from attempt import HERE, Input
from real_records import measured
from records_of import limits_of
from stored_records import as_json

from snn.grid import naming

RETABULATE = (f"{HERE}/a", f"{HERE}/out")
COMPARE = (f"{HERE}/a", f"{HERE}/a", f"{HERE}/out")
MERGE = (f"{HERE}/a", f"output={HERE}/out")


@cache
def two_cells() -> tuple[dict[str, Any], ...]:
    """The records of two cells, two rounds of each."""
    several = ("network.hidden=[8]", "protocol.rounds=2", "protocol.runs=4")
    each = [(name, number) for name in ("reference", "combined") for number in (1, 2)]
    with contextlib.redirect_stderr(io.StringIO()):  # its progress
        return tuple(measured(f"strategy={name}", *several, f"round={number}") for name, number in each)


def one_sweep() -> dict[str, Any]:
    names = sorted({f"x/y-{naming.digest(record['cell'])}" for record in two_cells()})
    return {"mine": {"axes": ["strategy"], "cells": names}}


def packed(found: Any) -> bytes:
    return gzip.compress(b"".join(as_json(record) + b"\n" for record in found), 1, mtime=0)


def archive(**files: bytes | str) -> dict[str, bytes | str]:
    """The files of an archive, some of which may be given."""
    usual = {
        "records.jsonl.gz": all_records(),
        "sweeps.json": as_json(one_sweep()),
        "limits.json": as_json(limits_of()),
    }
    return {f"a/{name}": content for name, content in (usual | files).items()}


@cache
def all_records() -> bytes:
    return packed(two_cells())


def archive_with(
    what: str,
    records: bytes | str | None = None,
    sweeps: bytes | str | None = None,
    limits: bytes | str | None = None,
    is_wrong: bool = True,
    names: str = "a/records.jsonl.gz",
) -> Input:
    """An archive of which this is not as it was; with its sweeps and limits only retabulate reads it, and
    what is there twice counts once where folders are merged."""
    given = {"records.jsonl.gz": records, "sweeps.json": sweeps, "limits.json": limits}
    files = archive(**{name: content for name, content in given.items() if content is not None})
    if records is not None and len(what) % 3 == 1:
        return Input(what, "snn.compare", COMPARE, files, names, is_wrong)
    if records is not None and len(what) % 3 == 2 and "twice" not in what:
        return Input(what, "snn.merge", MERGE, files, names, is_wrong)
    return Input(what, "snn.retabulate", RETABULATE, files, names, is_wrong)
