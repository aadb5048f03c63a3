"""What a killed workflow left: whole files are kept, stale and damaged ones are made again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snakemake.persistence.file import FilePersistence

from snn.workflow.leftovers import (
    Notes,
    keep_whole,
    mark_damaged,
    mark_incomplete,
    mark_stale,
    source_hash_of,
)

PATHS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=300)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Notes()


@given(path=PATHS)
def test_notes_stand_where_snakemake_keeps_them(path, tmp_path_factory):
    folder = tmp_path_factory.mktemp("notes")
    theirs = FilePersistence(nolock=True, path=folder)
    notes = Notes(folder)
    assert not notes.marked()
    theirs._mark_incomplete(path, None)
    assert notes.marked() == [path]
    notes.unmark(path)
    assert not theirs._filter_incomplete_keys([path])
    notes.mark(path)
    theirs._incomplete_cache = None
    assert theirs._filter_incomplete_keys([path]) == {path}
    assert not notes.knows(path)
    theirs._io_write(theirs._metadata_path, {}, path)
    assert notes.knows(path)


def test_other_files_in_the_folder_are_no_notes(notes):
    notes.mark("a")
    (notes._marks / "migration_underway").touch()
    assert notes.marked() == ["a"]


def test_a_whole_file_is_not_made_again(notes):
    for path in ("whole", "broken"):
        notes.mark(path)
    keep_whole(notes, lambda path: path == "whole")
    assert notes.marked() == ["broken"]


@pytest.mark.parametrize(("known", "held", "again"), [(False, "a", 1), (False, "b", 0), (True, "a", 0)])
def test_a_record_of_other_sources_is_made_again_where_snakemake_does_not_know_it(
    notes, tmp_path, known, held, again
):
    record = tmp_path / "record.json"
    record.write_text('{"runs": [' + "1, " * 9000 + f'1], "provenance": {{"source_hash": "{held}"}}}}')
    if known:
        (notes._metadata / "x").parent.mkdir(parents=True)
        FilePersistence(nolock=True, path=".snakemake")._io_write(notes._metadata, {}, str(record))
    wanted = {str(record): "b", str(tmp_path / "missing.json"): "b"}
    mark_stale(notes, wanted)
    assert notes.marked() == [str(record)] * again
    mark_stale(notes, wanted, all_of_them=True)
    assert notes.marked() == [str(record)] * (source_hash_of(record) not in (None, "b"))


def test_a_record_without_a_hash_has_none(tmp_path):
    path = tmp_path / "record.json"
    for content in (b"", b"\xff\xfe", b'{"source_hash": 1}'):
        path.write_bytes(content)
        assert source_hash_of(path) is None
    path.unlink()
    assert source_hash_of(path) is None


def test_a_damaged_file_is_made_again_and_a_missing_one_is_left_to_snakemake(notes, tmp_path):
    for name in ("good", "bad"):
        (tmp_path / name).write_text(name)
    mark_damaged(notes, ["good", "bad", "missing"], lambda path: path == "good")
    assert notes.marked() == ["bad"]


def test_a_table_whose_page_is_missing_is_made_again(notes, tmp_path):
    for name in ("a.csv", "b.csv", "b.html", "c.html"):
        (tmp_path / name).touch()
    mark_incomplete(notes, {f"{name}.html": f"{name}.csv" for name in "abcd"})
    assert notes.marked() == ["a.csv"]
