"""What a killed workflow left: whole files are kept, stale and damaged ones are made again."""

from pathlib import Path

import pytest
from snakemake.persistence.file import FilePersistence

from snn.workflow.leftovers import correct_marks, source_hash_of

CURRENT, OLD = "b", "a"
FILES = (
    "whole",
    "broken",
    "current",
    "old",
    "noted",
    "data",
    "bad_data",
    "a.csv",
    "b.csv",
    "b.html",
    "c.html",
)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Snakemake's notes in a folder of files, of which ``noted`` is a record that it knows."""
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        held = {"current": CURRENT, "old": OLD, "noted": OLD}.get(name, "")
        record = '{"runs": [' + "1, " * 9000 + f'1], "provenance": {{"source_hash": "{held}"}}}}'
        Path(name).write_text(record if held else name)
    found = FilePersistence(nolock=True, path=tmp_path / ".snakemake")
    found._io_write(found._metadata_path, {}, "noted")
    return found


@pytest.mark.parametrize("all_records", [False, True])
def test_what_is_made_again(notes, all_records):
    for name in ("whole", "broken", "x" * 300):
        notes._mark_incomplete(name, None)
    records = dict.fromkeys(("whole", "broken", "current", "old", "noted", "missing", "x" * 300), CURRENT)
    pages = {f"{name}.html": f"{name}.csv" for name in "abcd"}
    wrong = ("broken", "bad_data", "c.html", "x" * 300)
    correct_marks(
        lambda path: path not in wrong,
        records,
        ["data", "bad_data"],
        ["bad_data", "none"],
        pages,
        all_records,
    )
    notes._incomplete_cache = None
    marked = notes._filter_incomplete_keys([*FILES, *records, *pages, *pages.values()])
    assert marked == {"broken", "x" * 300, "old", "bad_data", "c.html", "a.csv"} | (
        {"noted"} if all_records else set()
    )


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b'{"source_hash": 1}', None])
def test_a_record_without_a_hash_has_none(tmp_path, content):
    path = tmp_path / "record.json"
    if content is not None:
        path.write_bytes(content)
    assert source_hash_of(path) is None
